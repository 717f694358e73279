package transform

import (
	"fmt"
	"strings"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
)

// If an application writes both stores, its items may carry a number that it raises with each write
// (Spec.VersionAttribute). The application must write under a condition that compares this number.
// The guards of replicator and of the application then compare in the same order. The number comes
// first, then whether the item was removed, then the position in the stream. Writes of the
// application have position zero. So at the same number the stream outranks the application. The
// stream orders edits that do not raise the number, and items without a number, which count as 0.

// Rank is the application's rank of an image: a number below 10²⁰, and whether the item was
// removed. At the same number, a removal ranks above an image. A mapping without a version
// attribute uses the zero value.
type Rank struct {
	// Number has 20 digits; it is empty if there is no version attribute.
	Number string
	// Removed reports that the item was removed at the number. It is never set at number 0, because
	// items without a number have number 0. Only the stream orders such items.
	Removed bool
}

// orderSize is the length of a rank in a version: "n", 20 digits, a dot, the kind and a dot.
const orderSize = 1 + numberDigits + 1 + 1 + 1

// numberDigits is the maximum number of digits in a version attribute.
const numberDigits = 20

// lowest is the number of items without a version attribute.
var lowest = strings.Repeat("0", numberDigits)

// RankOf returns the rank of an image, or of a removal, with the number.
func RankOf(number uint64, removed bool) Rank {
	return Rank{fmt.Sprintf("%020d", number), removed}
}

// text returns the rank as the prefix of a version; empty without a version attribute.
func (o Rank) text() string {
	switch {
	case o.Number == "":
		return ""
	case o.Removed:
		return "n" + o.Number + ".1."
	}
	return "n" + o.Number + ".0."
}

// Below reports whether the rank is lower than the other rank.
func (o Rank) Below(other Rank) bool { return o.text() < other.text() }

// At returns the version of the rank at a position.
func (o Rank) At(position Version) Version { return Version(o.text() + string(position.Position())) }

// AppliedBy returns the version of the application's own writes: the rank at position zero.
func (o Rank) AppliedBy() Version { return o.At(NewVersion(0, 0, cdc.SequenceNumber{}, 0)) }

// Rank returns the application's part of a version; the zero Rank if the version has none.
func (v Version) Rank() Rank {
	if !v.Ordered() {
		return Rank{}
	}
	return Rank{string(v[1 : 1+numberDigits]), v[orderSize-2] == '1'}
}

// Ordered reports whether a version contains the application's number.
func (v Version) Ordered() bool { return len(v) == orderSize+VersionSize }

// Position returns a version without the application's part: generation, hop, sequence number and
// count.
func (v Version) Position() Version { return v[max(0, len(v)-VersionSize):] }

// ByApplication reports whether the application wrote the row and no stream record was applied to
// it since.
func (v Version) ByApplication() bool {
	return v.Ordered() && strings.Trim(string(v.Position()), "0.") == ""
}

// badNumber is the message for a version attribute that is not a rank.
const badNumber = "the version attribute %s is not an integer from 0 to 99999999999999999999"

// VersionAttribute returns the attribute whose number ranks images; empty if there is none.
func (m *Mapping) VersionAttribute() string { return m.number }

// RankOf returns the rank of an image or, if `removed` is true, of the removal of that item. An
// item that does not exist, or lacks the attribute, has the number 0. Without a version attribute,
// the result is the zero Rank. If the attribute is not a valid number, the error is *Unmappable and
// the rank has the number 0.
func (m *Mapping) RankOf(image attribute.Item, removed bool) (Rank, error) {
	if m.number == "" {
		return Rank{}, nil
	}
	o := Rank{lowest, false}
	value, ok := image.Get(m.number)
	if !ok {
		return o, nil
	}
	text := value.Text() // canonical: plain decimal without leading zeros
	if value.Kind() != attribute.KindN || len(text) > numberDigits || strings.Trim(text, "0123456789") != "" {
		return o, unmappable(badNumber, m.number)
	}
	o.Number = lowest[len(text):] + text
	o.Removed = removed && o.Number != lowest
	return o, nil
}

// removalOf returns the rank with which to remove an item that a row holds at the given version.
func (m *Mapping) removalOf(held Version) Rank {
	if m.number == "" {
		return Rank{}
	}
	o := held.Rank()
	if o.Number == "" {
		o.Number = lowest
	}
	o.Removed = o.Number != lowest
	return o
}

// rank returns the highest rank of an item's changes in a page. The result `reason` explains why
// the newest change cannot be applied; it is "" if the change can be applied at that rank. A change
// is not applied if its number is lower than the number of its own old image. In that case a writer
// has ignored the condition, and a row with the higher number would reject the change. An item may
// be recreated with a lower number than the removed item had. The writer of such an item has
// ignored no condition. So the recreated item gets the higher number. At that number, the later
// position decides, so the changes of the recreated item win.
func (m *Mapping) rank(changes []cdc.Change, h *history) (top Rank, reason string) {
	if m.number == "" {
		return Rank{}, ""
	}
	for _, at := range h.moments {
		c := &changes[at.change]
		was, _ := m.RankOf(c.Old, false)
		var o Rank
		var err error
		if c.Event == cdc.Remove { // a remove has no number of its own (H87)
			o, err = m.RankOf(c.Old, true)
		} else {
			o, err = m.RankOf(c.New, false)
		}
		top = higher(higher(top, was), o)
		switch reason = ""; {
		case o.Below(was):
			reason = fmt.Sprintf("the version attribute %s fell to %s, below %s; write the item again with a higher number", m.number, o, was)
		case err != nil:
			reason = reasonOf(err)
		}
	}
	return top, reason
}

func higher(a, b Rank) Rank {
	if a.Below(b) {
		return b
	}
	return a
}

// String returns the number without leading zeros, for messages.
func (o Rank) String() string {
	if n := strings.TrimLeft(o.Number, "0"); n != "" {
		return n
	}
	return "0"
}
