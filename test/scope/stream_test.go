package scope

import (
	"fmt"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
)

// numbering says how the sequence numbers of a new shard begin. DynamoDB documents no relation to
// those of its parent.
type numbering uint8

const (
	none   numbering = iota // there is no new shard
	onward                  // above those of the parent
	lower                   // below all of the parent's
	equal                   // beginning with exactly the number of the parent's last change
	longer                  // with more digits, the first of which is smaller: lower as text
)

var numberingNames = [...]string{"none", "onward", "lower", "equal", "longer"}

// never is the value for a raise that does not take place.
const never = -1

// setting is a history in a stream.
type setting struct {
	history
	// splits says after which changes the item's shard was split, and how the child's numbers
	// begin.
	splits [changesOf]numbering
	// raised is the number of changes before the generation was raised and adopted by every shard,
	// or never.
	raised int
	// replaced says how the numbers begin if the raise was for a new stream. Otherwise shards
	// continue.
	replaced numbering
}

// place is where a change is in its stream.
type place struct {
	sequence cdc.SequenceNumber
	hop      uint32
	shard    int // numbered over all streams
}

// settings lists all streams that can hold a history, with the given numberings. The simplest come
// first.
func (h history) settings(ways ...numbering) []setting {
	var all []setting
	ways = append([]numbering{none}, ways...)
	for raised := never; raised <= changesOf; raised++ {
		for _, replaced := range ways {
			if replaced != none && (raised < 1 || raised == changesOf) {
				continue // an empty stream on one side adds nothing to the same stream raised there
			}
			for _, one := range ways {
				for _, two := range ways {
					s := setting{history: h, splits: [changesOf]numbering{none, one, two}, raised: raised, replaced: replaced}
					if replaced == none || s.splits[raised] == none {
						all = append(all, s)
					}
				}
			}
		}
	}
	return all
}

// places gives every change its place, with the hops that the real code computes. Index 0 is not
// used.
func (s setting) places() [changesOf + 1]place {
	var places [changesOf + 1]place
	lineage := newLineage()
	number := "9"
	shard := 0
	for n := 1; n <= changesOf; n++ {
		how := s.splits[n-1]
		if s.replaced != none && s.raised == n-1 {
			how, lineage = s.replaced, newLineage()
			shard++
		} else if how != none {
			lineage.split()
			shard++
		}
		switch {
		case n == 1:
		case how == lower:
			number = string([]byte{'4' - byte(n-1)})
		case how == equal:
		case how == longer:
			number = "1" + strings.Repeat("0", len(number)+3)
		default:
			number = above(number)
		}
		sequence, err := cdc.ParseSequenceNumber(number + strings.Repeat("0", 20))
		if err != nil {
			panic(err)
		}
		places[n] = place{sequence, lineage.hop(), shard}
	}
	return places
}

// above returns a higher number that is lower as text: one digit more, with a smaller first digit.
func above(number string) string {
	first := number[0] - 1
	if first == '0' {
		first = '9'
	}
	return string([]byte{first}) + strings.Repeat("0", len(number))
}

// lineage is the item's shard, its ancestors and their other children, as the ledger stores them.
type lineage struct {
	known []cdc.Node
	last  string
}

func newLineage() *lineage {
	l := &lineage{last: "shard-0"}
	l.place([]cdc.Shard{{ID: l.last}}, true)
	return l
}

// split lists two children of the last shard; the item goes to the second.
func (l *lineage) split() {
	a, b := fmt.Sprintf("shard-%d-a", len(l.known)), fmt.Sprintf("shard-%d-b", len(l.known))
	l.place([]cdc.Shard{{ID: l.last, Closed: true}, {ID: a, Parent: l.last}, {ID: b, Parent: l.last}}, false)
	l.last = b
}

func (l *lineage) place(listed []cdc.Shard, first bool) {
	placed, orphans := cdc.RankShards(l.known, listed, first)
	if len(orphans) > 0 {
		panic("scope: an orphan in a complete listing")
	}
	l.known = append(l.known, placed...)
}

func (l *lineage) hop() uint32 {
	for _, n := range l.known {
		if n.ID == l.last {
			return n.Hop
		}
	}
	panic("scope: a shard that was not placed")
}

var begin = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// changeTime returns the time in the record of the n-th change. It runs backwards once, and repeats
// once (H06, H07).
func changeTime(n int) time.Time {
	return begin.Add([...]time.Duration{0, 10, 5, 5}[n] * time.Second)
}

// loadTime returns when a load read the item after n changes. Two reads are in the same second, and
// versions do not distinguish them.
func loadTime(n int) time.Time {
	return begin.Add([...]time.Duration{0, 1100, 1900, 3000}[n] * time.Millisecond)
}

func (s setting) String() string {
	words := []string{s.history.String()}
	for n, how := range s.splits {
		if how != none {
			words = append(words, fmt.Sprintf("split after %d, numbers %s", n, numberingNames[how]))
		}
	}
	if s.raised != never {
		words = append(words, fmt.Sprintf("raised after %d", s.raised))
	}
	if s.replaced != none {
		words = append(words, "new stream, numbers "+numberingNames[s.replaced])
	}
	return strings.Join(words, "; ")
}
