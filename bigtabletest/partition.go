package bigtabletest

import (
	"slices"
	"sort"
	"strings"

	"cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Partition is a range of row keys. Start belongs to it, and End does not. An empty End means that
// the range has no end.
type Partition struct{ Start, End string }

func (p Partition) contains(key string) bool {
	return key >= p.Start && (p.End == "" || key < p.End)
}

// overlap returns the keys that are in both ranges. Without a common key it returns false.
func (p Partition) overlap(q Partition) (Partition, bool) {
	both := Partition{Start: max(p.Start, q.Start), End: earlierEnd(p.End, q.End)}
	return both, both.End == "" || both.Start < both.End
}

// earlierEnd returns the smaller of two ends of ranges.
func earlierEnd(a, b string) string {
	if a == "" || b != "" && b < a {
		return b
	}
	return a
}

func (p Partition) proto() *bigtablepb.StreamPartition {
	return &bigtablepb.StreamPartition{RowRange: &bigtablepb.RowRange{
		StartKey: &bigtablepb.RowRange_StartKeyClosed{StartKeyClosed: []byte(p.Start)},
		EndKey:   &bigtablepb.RowRange_EndKeyOpen{EndKeyOpen: []byte(p.End)},
	}}
}

// partitionOf returns the range of a partition of a request or token.
func partitionOf(p *bigtablepb.StreamPartition) (Partition, error) {
	r := p.GetRowRange()
	if r == nil {
		return Partition{}, status.Error(codes.InvalidArgument, "partition: row_range is missing: name the range of a partition")
	}
	switch r.StartKey.(type) {
	case nil, *bigtablepb.RowRange_StartKeyClosed:
	default:
		return Partition{}, status.Error(codes.InvalidArgument, "partition: row_range has an open start: set start_key_closed")
	}
	switch r.EndKey.(type) {
	case nil, *bigtablepb.RowRange_EndKeyOpen:
	default:
		return Partition{}, status.Error(codes.InvalidArgument, "partition: row_range has a closed end: set end_key_open")
	}
	found := Partition{Start: string(r.GetStartKeyClosed()), End: string(r.GetEndKeyOpen())}
	if found.End != "" && found.Start >= found.End {
		return Partition{}, status.Error(codes.InvalidArgument, "partition: row_range is empty: its start must be before its end")
	}
	return found, nil
}

// covers reports whether the union of the parts is exactly the whole.
func covers(whole Partition, parts []Partition) bool {
	if len(parts) == 0 {
		return false
	}
	parts = slices.Clone(parts)
	slices.SortFunc(parts, func(a, b Partition) int { return strings.Compare(a.Start, b.Start) })
	if parts[0].Start != whole.Start {
		return false
	}
	end := parts[0].End
	for _, p := range parts[1:] {
		if end != "" && p.Start > end {
			return false
		}
		if end != "" && (p.End == "" || p.End > end) {
			end = p.End
		}
	}
	return end == whole.End
}

// layout is the current division of the key space into partitions, in the order of their keys.
type layout struct {
	bounds []bound
	last   int // the last id
}

// bound is where a partition starts. The id distinguishes the partition from every earlier
// partition with the same range.
type bound struct {
	start string
	id    int
}

// newLayout returns the partitions that the split keys divide the key space into.
func newLayout(splits []string) layout {
	keys := slices.Clone(splits)
	slices.Sort(keys)
	l := layout{}
	for _, key := range slices.Compact(append([]string{""}, keys...)) {
		l.bounds = append(l.bounds, bound{start: key, id: l.next()})
	}
	return l
}

func (l *layout) next() int {
	l.last++
	return l.last
}

// at returns the range of the i-th partition.
func (l *layout) at(i int) Partition {
	p := Partition{Start: l.bounds[i].start}
	if i+1 < len(l.bounds) {
		p.End = l.bounds[i+1].start
	}
	return p
}

// partitions lists the current partitions.
func (l *layout) partitions() []Partition {
	all := make([]Partition, len(l.bounds))
	for i := range l.bounds {
		all[i] = l.at(i)
	}
	return all
}

// owner returns the index of the partition that holds the key.
func (l *layout) owner(key string) int {
	return sort.Search(len(l.bounds), func(i int) bool { return l.bounds[i].start > key }) - 1
}

// id returns the id of the partition with exactly this range. It returns 0 if there is none.
func (l *layout) id(p Partition) int {
	i := l.owner(p.Start)
	if l.at(i) != p {
		return 0
	}
	return l.bounds[i].id
}

// split divides the partition that holds the key, so that the second half starts with the key.
func (l *layout) split(key string) error {
	i := l.owner(key)
	if l.bounds[i].start == key {
		return status.Error(codes.InvalidArgument, "split: a partition starts with this key already: choose a key inside of a partition")
	}
	l.bounds = slices.Insert(slices.Clone(l.bounds), i+1, bound{start: key, id: l.next()})
	return nil
}

// merge unites the partition that starts with the key and the one before it. The new id is what
// distinguishes a range that comes back: without a merge, a range that was divided cannot.
func (l *layout) merge(key string) error {
	i := l.owner(key)
	if i == 0 || l.bounds[i].start != key {
		return status.Error(codes.InvalidArgument, "merge: no two partitions meet at this key: choose the start of a partition")
	}
	l.bounds = slices.Delete(slices.Clone(l.bounds), i, i+1)
	l.bounds[i-1].id = l.next()
	return nil
}

// piece is the part of a range that belongs to one current partition.
type piece struct{ part, of Partition }

// pieces divides a range at the bounds of the current partitions.
func (l *layout) pieces(p Partition) []piece {
	var found []piece
	for _, of := range l.partitions() {
		if part, ok := p.overlap(of); ok {
			found = append(found, piece{part: part, of: of})
		}
	}
	return found
}
