// Package canary makes the items that prove a drain during a cutover. It also recognises them. The
// key of a canary depends only on the ledger, the table and the canary's index. So every worker
// recognises all canaries, and never takes a canary for data.
package canary

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Most is the maximum number of canaries in a table. An index has at most five digits.
const Most = 20_000

// markAttribute holds the round of a canary. The attribute number holds the canary's index in the
// table. Both attributes are numbers. The nonce ensures that each write is a change.
const (
	markAttribute = "replicator_cutover"
	number        = "replicator_canary"
	nonce         = "replicator_nonce"
)

// prefix begins the key of each canary that is a text or bytes. The index and a hash follow.
const prefix = "replicator-canary-"

// numeral is the number of digits of a key that is a number: 1, the hash, the index, and 1. The
// outer digits keep the number's length the same for all canaries.
const (
	hashDigits  = 29
	indexDigits = 5
	numeral     = 1 + hashDigits + indexDigits + 1
)

// Set holds the canaries of one table.
type Set struct{ ledger, source string }

// New returns the canaries of a source table under a ledger.
func New(ledger, source string) *Set { return &Set{ledger, source} }

// value returns the value of a canary's key attribute, for a kind of attribute.
func (s *Set) value(i int, kind attribute.Kind) attribute.Value {
	seed := sha256.Sum256([]byte("replicator canary\x00" + s.ledger + "\x00" + s.source + "\x00" + strconv.Itoa(i)))
	text := fmt.Sprintf("%s%05d-%s", prefix, i, hex.EncodeToString(seed[:16]))
	switch kind {
	case attribute.KindN:
		// Twelve bytes have at most 29 digits.
		n, err := attribute.Number(fmt.Sprintf("1%0*s%0*d1", hashDigits, new(big.Int).SetBytes(seed[:12]), indexDigits, i))
		if err != nil {
			panic("canary: " + err.Error()) // cannot happen: a whole number of that size is valid
		}
		return n
	case attribute.KindB:
		return attribute.Binary([]byte(text))
	}
	return attribute.String(text)
}

// holds reports whether v is the value of some canary's key attribute.
func (s *Set) holds(v attribute.Value) bool {
	text, index := v.Text(), ""
	switch kind := v.Kind(); {
	case kind == attribute.KindN && len(text) == numeral:
		index = text[1+hashDigits : numeral-1]
	case kind == attribute.KindS || kind == attribute.KindB:
		rest, marked := strings.CutPrefix(text, prefix)
		if !marked || len(rest) < indexDigits {
			return false
		}
		index = rest[:indexDigits]
	}
	i, err := strconv.ParseUint(index, 10, 32)
	return err == nil && i < Most && s.value(int(i), v.Kind()).Equal(v)
}

// Has reports whether an item is a canary. The item may consist of only its primary key. It is a
// canary if every attribute of its key has the value of a canary's key.
func (s *Set) Has(item attribute.Item, key ...string) bool {
	if !item.Exists() {
		return false
	}
	if len(key) == 0 {
		for _, a := range item.Attributes() {
			if !s.holds(a.Value) {
				return false
			}
		}
		return true
	}
	for _, name := range key {
		if v, ok := item.Get(name); !ok || !s.holds(v) {
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
		list = append(list, attribute.Attribute{Name: k.Name, Value: s.value(i, k.Type)})
	}
	return list
}

// Item returns canary i of a round. Items with different nonces differ, so each write causes a
// record in the stream.
func (s *Set) Item(i int, key []transform.KeyAttribute, round uint32, once string) attribute.Item {
	list := s.attributes(i, key)
	list = append(list, attribute.Attribute{Name: markAttribute, Value: whole(uint64(round))}, attribute.Attribute{Name: number, Value: whole(uint64(i))},
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

// Which returns the round and the index of a canary's change. For a removal the round is 0, because
// its record has no new image.
func Which(c cdc.Change) (round uint32, i int) {
	of, known := c.New.Get(markAttribute)
	which, numbered := c.New.Get(number)
	if !known || !numbered {
		return 0, 0
	}
	a, err := strconv.ParseUint(of.Text(), 10, 32)
	n, err2 := strconv.ParseUint(which.Text(), 10, 32)
	if err != nil || err2 != nil || n >= Most {
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
