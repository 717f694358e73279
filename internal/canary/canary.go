// Package canary makes the items that prove a drain during a cutover. It also recognises them. The
// keys of canaries depend only on the ledger and the table. So every worker knows all canaries, and
// never takes a canary for data.
package canary

import (
	"crypto/sha256"
	"encoding/hex"
	"math/big"
	"strconv"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// most is the maximum number of canaries in a table.
const most = 800

// markAttribute holds the attempt of a canary. The attribute number holds the canary's index in the
// table. Both attributes are numbers. The nonce ensures that each write is a change.
const (
	markAttribute = "replicator_cutover"
	number        = "replicator_canary"
	nonce         = "replicator_nonce"
)

// Set holds the canaries of one table.
type Set struct {
	seeds [][sha256.Size]byte
	known map[string]bool // keys of all canaries, by kind and text
}

// New returns the canaries of a source table under a ledger.
func New(ledger, source string) *Set {
	s := &Set{known: make(map[string]bool, 3*most)}
	for i := range most {
		seed := sha256.Sum256([]byte("replicator canary\x00" + ledger + "\x00" + source + "\x00" + strconv.Itoa(i)))
		s.seeds = append(s.seeds, seed)
		for _, kind := range []attribute.Kind{attribute.KindS, attribute.KindN, attribute.KindB} {
			s.known[textOf(value(seed, kind))] = true
		}
	}
	return s
}

func textOf(v attribute.Value) string { return v.Kind().String() + v.Text() }

// value returns the value of a canary's key attribute, for a kind of attribute.
func value(seed [sha256.Size]byte, kind attribute.Kind) attribute.Value {
	switch kind {
	case attribute.KindN:
		n, err := attribute.Number(new(big.Int).SetBytes(seed[:15]).String()) // at most 37 digits
		if err != nil {
			panic("canary: " + err.Error()) // cannot happen: a whole number of that size is valid
		}
		return n
	case attribute.KindB:
		return attribute.Binary([]byte("replicator-canary-" + hex.EncodeToString(seed[:16])))
	}
	return attribute.String("replicator-canary-" + hex.EncodeToString(seed[:16]))
}

// Has reports whether an item is a canary. The item may consist of only its primary key. It is a
// canary if every attribute of its key has the value of a canary's key.
func (s *Set) Has(item attribute.Item, key ...string) bool {
	if !item.Exists() {
		return false
	}
	if len(key) == 0 {
		for _, a := range item.Attributes() {
			if !s.known[textOf(a.Value)] {
				return false
			}
		}
		return true
	}
	for _, name := range key {
		if v, ok := item.Get(name); !ok || !s.known[textOf(v)] {
			return false
		}
	}
	return true
}

// Key returns the primary key of canary i.
func (s *Set) Key(i int, key []transform.KeyAttribute) attribute.Item {
	return attribute.NewItem(s.attributes(i, key))
}

func (s *Set) attributes(i int, key []transform.KeyAttribute) (list []attribute.Attribute) {
	for _, k := range key {
		list = append(list, attribute.Attribute{Name: k.Name, Value: value(s.seeds[i], k.Type)})
	}
	return list
}

// Item returns canary i of an attempt. Items with different nonces differ, so each write causes a
// record in the stream.
func (s *Set) Item(i int, key []transform.KeyAttribute, attempt uint32, once string) attribute.Item {
	list := s.attributes(i, key)
	list = append(list, attribute.Attribute{Name: markAttribute, Value: whole(uint64(attempt))}, attribute.Attribute{Name: number, Value: whole(uint64(i))},
		attribute.Attribute{Name: nonce, Value: attribute.String(once)})
	return attribute.NewItem(list)
}

func whole(n uint64) attribute.Value {
	v, err := attribute.Number(strconv.FormatUint(n, 10))
	if err != nil {
		panic("canary: " + err.Error()) // cannot happen: a whole number of 20 digits is valid
	}
	return v
}

// Which returns the attempt and the index of a canary's change. For a removal the attempt is 0,
// because its record has no new image.
func Which(c cdc.Change) (attempt uint32, i int) {
	of, known := c.New.Get(markAttribute)
	which, numbered := c.New.Get(number)
	if !known || !numbered {
		return 0, 0
	}
	a, err := strconv.ParseUint(of.Text(), 10, 32)
	n, err2 := strconv.ParseUint(which.Text(), 10, 32)
	if err != nil || err2 != nil || n >= most {
		return 0, 0
	}
	return uint32(a), int(n)
}

// Strip removes the canaries from a page, and adds them to the page's Canaries.
func (s *Set) Strip(p cdc.Page) cdc.Page {
	if len(p.Changes) == 0 {
		return p
	}
	var kept []cdc.Change
	for _, c := range p.Changes {
		if s.Has(c.Keys) {
			p.Canaries = append(p.Canaries, c)
		} else {
			kept = append(kept, c)
		}
	}
	if len(p.Canaries) > 0 {
		p.Changes = kept
	}
	return p
}

// Number returns the number of canaries that are needed for a number of equally likely shards. With
// this number, every shard gets at least one canary with a probability of 99.9 %.
func Number(shards int) int {
	switch {
	case shards <= 4:
		return 26
	case shards <= 16:
		return 150
	}
	return most
}

// Covers reports whether so many equally likely shards get a canary each, in all but one of a thousand
// runs.
func Covers(shards int) bool { return shards <= 70 }
