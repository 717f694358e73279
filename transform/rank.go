package transform

import (
	"fmt"
	"strings"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
)

// Where an application writes both stores, its items may carry a number that it raises with each
// write, under a condition (Spec.VersionAttribute). Then both writers guard on one order: the number,
// then whether the item was removed, and then the position in the stream, which is zero in what the
// application writes. So at one number the stream outranks the application, and edits that do not
// raise the number are ordered by the stream, as are items without one, whose number is 0.

// Rank is how the application ranks an image: by a number below 10²⁰, and a removal above the image
// of the same number. The zero value is that of a mapping without a version attribute.
type Rank struct {
	// Number has 20 digits; empty: there is no version attribute.
	Number string
	// Removed says that the item was removed at the number. At the number 0, that of items without one, nothing is: the stream
	// alone orders them.
	Removed bool
}

// orderSize is the length of an order in a version, with both its dots: "n", 20 digits, the kind.
const orderSize = 1 + numberDigits + 1 + 1 + 1

// numberDigits is how many digits a number may have.
const numberDigits = 20

// lowest is the number of items without one.
var lowest = strings.Repeat("0", numberDigits)

// RankOf is the order of an image, or of a removal, by its number.
func RankOf(number uint64, removed bool) Rank {
	return Rank{fmt.Sprintf("%020d", number), removed}
}

// text is the order in front of a version; empty without an attribute.
func (o Rank) text() string {
	switch {
	case o.Number == "":
		return ""
	case o.Removed:
		return "n" + o.Number + ".1."
	}
	return "n" + o.Number + ".0."
}

// Below reports whether the order is lower than another one.
func (o Rank) Below(other Rank) bool { return o.text() < other.text() }

// At is the version of the order at a position.
func (o Rank) At(position Version) Version { return Version(o.text() + string(position.Position())) }

// AppliedBy is the version of what the application itself writes: the order at no position.
func (o Rank) AppliedBy() Version { return o.At(NewVersion(0, 0, cdc.SequenceNumber{}, 0)) }

// Rank is the application's part of a version; the zero Rank if it has none.
func (v Version) Rank() Rank {
	if !v.Ordered() {
		return Rank{}
	}
	return Rank{string(v[1 : 1+numberDigits]), v[orderSize-2] == '1'}
}

// Ordered reports whether a version carries the application's number.
func (v Version) Ordered() bool { return len(v) == orderSize+VersionSize }

// Position is a version without the application's part: generation, hop, sequence number and count.
func (v Version) Position() Version { return v[max(0, len(v)-VersionSize):] }

// ByApplication reports whether the application wrote the row, and no record of the stream was
// applied to it since.
func (v Version) ByApplication() bool {
	return v.Ordered() && strings.Trim(string(v.Position()), "0.") == ""
}

// badNumber says that a version attribute ranks nothing.
const badNumber = "the version attribute %s is not an integer from 0 to 99999999999999999999"

// VersionAttribute is the attribute whose number ranks images; empty if there is none.
func (m *Mapping) VersionAttribute() string { return m.number }

// RankOf ranks an image, or the removal of the item that it was. An item that does not exist, or
// lacks the attribute, has the number 0. Without a version attribute it is the zero Rank. An
// attribute that ranks nothing is *Unmappable, and the order then is that of the number 0.
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

// removalOf is the order of the removal of what a row holds at a version.
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

// rank is the highest rank of an item's changes in a page, and why the newest cannot be applied; "" if
// it can, and has that rank. A number below one that the item had before, as far as the page shows it,
// is applied by nobody: a row that holds the higher one refuses it, and whatever is applied late would
// win over it. What the item leaves is removed at the highest.
func (m *Mapping) rank(changes []cdc.Change, h *history) (top Rank, reason string) {
	if m.number == "" {
		return Rank{}, ""
	}
	for _, at := range h.moments {
		c := &changes[at.change]
		was, _ := m.RankOf(c.Old, false)
		top = higher(top, was)
		var o Rank
		var err error
		if c.Event == cdc.Remove { // which carries no number of its own (H87)
			o, err = m.RankOf(c.Old, true)
		} else {
			o, err = m.RankOf(c.New, false)
		}
		if reason = ""; err != nil && at.change == h.newest {
			reason = reasonOf(err)
		}
		lower := o.Below(top)
		if top = higher(top, o); lower {
			reason = fmt.Sprintf("the version attribute %s fell to %s, below %s; write the item again with a higher number", m.number, o, top)
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

// String is the number for people.
func (o Rank) String() string {
	if n := strings.TrimLeft(o.Number, "0"); n != "" {
		return n
	}
	return "0"
}
