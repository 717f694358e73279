package config

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// DataFamily is the column family of the default mapping, the only one this version has.
const DataFamily = "d"

// mappingFormat is raised when the same configuration begins to mean other cells, so that an upgrade cannot continue a
// ledger whose rows were written in another form.
const mappingFormat = 1

// Hash identifies what determines the cells of a table: the form of the mapping, the source, the target and the family. The
// ledger keeps it and refuses to go on under another one. It is 32 hex digits, and stable across releases and machines; it
// depends on nothing else of the configuration, so that limits and log levels can change freely.
func (c *Config) Hash(t Table) string {
	h := sha256.New()
	var number [8]byte
	binary.BigEndian.PutUint64(number[:], mappingFormat)
	h.Write(number[:])
	for _, part := range []string{t.From, t.To, DataFamily} {
		// With its length, so that no two lists of parts read the same.
		binary.BigEndian.PutUint64(number[:], uint64(len(part)))
		h.Write(number[:])
		h.Write([]byte(part))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
