package sink

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// A repair asserts an item's present image in the rows that should hold it, without a record of the stream to rank it by.
//
// The row is looked at first and the item is read after that, consistently. So the image is at least as new as every change
// that the version seen stands for, and every change that the image does not hold yet has a higher version, or will have. The
// image is written at the version that was seen, its count one higher, if the row still holds exactly that version: nothing
// lies between the two, and a version never falls (S1), so the guard at the raised count is this compare-and-set. A change
// of the stream that arrives in between wins, whichever way the two meet.
//
// A row without a version gets that of a load at the moment before the item was read, if it has no version still. The
// generation for it must admit such an image (checkpoint.Admissible).
//
// It is the one write that takes its version from the row, and so it outranks what another mapping has made of the item, and the load that asserts
// that anew. Another mapping begins a generation: rows of a later one than that in which the mapping was known to hold are left alone.
//
// What the rows of an item should hold is decided in one place for retries, comparisons and sweeps (Wanted, transform.Sweep). A sweep has a
// generation of its own to write at; the others have the version that they saw.

// ErrOvertaken is returned when changes of the item arrived during every attempt to repair it. A repeat may succeed, and the
// changes may have mended the row meanwhile.
var ErrOvertaken = errors.New("the item changes faster than it is repaired")

// ErrRepairs is returned for a row that was repaired so often at one version that no count is left. The item's next change gives
// the row another version.
var ErrRepairs = errors.New("the row's version allows no further repair")

// repairTries bounds how often a repair begins anew because the item or the row changed meanwhile.
const repairTries = 5

// ErrPending is returned for a row at count 0: its image was sent first, and is to be asserted exactly later. A repair at a higher count would have
// that refused, and what the application wrote meanwhile would stay (H112).
var ErrPending = errors.New("the row's change is not settled yet")

// ErrVersion is returned for a row whose version is none: somebody else wrote it.
var ErrVersion = errors.New("another program wrote the row's version")

// Repairer repairs the rows of items of one mapping. All fields are required but those that say otherwise.
type Repairer struct {
	Mapping *transform.Mapping
	Rows    Reader
	Table   Table
	// Item reads an item by its primary key, strongly consistently; false if there is none.
	Item func(ctx context.Context, keys attribute.Item) (attribute.Item, bool, error)
	// Current is the table's generation, if rows are written by this mapping still, or why they are not. It is asked before the rows are looked at.
	Current func(ctx context.Context) (uint32, error)
	// Former are the earlier mappings that are not swept yet, asked for with Current; nil: there are none.
	Former func(ctx context.Context) ([]Former, error)
	// Fence reads the marks of target tables: before Current is asked, which so is the proof under
	// which the rows are written.
	Fence Marks
	// Generation is the one for an image that was read at or after the given time, or why there is none for it. It is asked
	// only for rows without a version.
	Generation func(ctx context.Context, at time.Time) (uint32, error)
	// Now is the source's time, which rows and cells are dated by; nil: this process's.
	Now func(ctx context.Context) time.Time
	// Had reports whether rows of a generation are this migration's; nil: those of any are. Others
	// are never removed.
	Had func(generation uint32) bool
	// Owned says that nobody else writes to the target tables: rows without a version are ours then (RepairSeen).
	Owned bool
	// DryRun: everything is looked at and decided, and nothing is written.
	DryRun bool
}

// Repaired is what a repair found and did.
type Repaired struct {
	// Present tells that the source holds the item.
	Present bool
	// Written is how many rows were put or removed; rows that held what they should are not written.
	Written int
}

// Repair makes the rows of one item equal to its image in the source: the rows that the image maps to, and those that the former
// images map to, which it may have left. The keys are the item's primary key.
//
// Rows are mended one after the other, and an error ends that: those before it are mended, the others as they were. A repair that is
// repeated goes on there; what is parked of the item must stay until one has succeeded. An image that cannot be mapped is a *BadItem, and
// nothing was written; so is a row that the target rejects. Errors of the target are *Error; after one of reason Unknown the repair may be
// repeated as a whole.
//
// Where the mapping keeps what the time to live removes, rows are left alone that live while the source does not hold the item: no read tells
// whether it has expired, and a delete comes with the stream.
func (r *Repairer) Repair(ctx context.Context, keys attribute.Item, former ...attribute.Item) (Repaired, error) {
	return r.repair(ctx, keys, "", former)
}

// RepairParked repairs the item of parked records, which are all of one. The records may be forgotten when it has succeeded. Where the mapping keeps
// what the time to live removes, and the source does not hold the item, rows that are as new as the newest of them are left alone: they lack nothing of
// what is parked. Older ones hold what the item was before that, and are removed.
func (r *Repairer) RepairParked(ctx context.Context, records ...transform.Parked) (Repaired, error) {
	var newest transform.Version
	var former []attribute.Item
	for _, p := range records {
		newest, former = max(newest, p.Version), append(former, p.Change.Old, p.Change.New)
	}
	return r.repair(ctx, records[0].Change.Keys, newest, former)
}

func (r *Repairer) repair(ctx context.Context, keys attribute.Item, lacking transform.Version, former []attribute.Item) (Repaired, error) {
	known, written := former, 0
	for range repairTries {
		done, image, err := r.attempt(ctx, keys, lacking, known)
		written += done.Written
		done.Written = written
		if !errors.Is(err, ErrOvertaken) {
			return done, err
		}
		if image.Exists() {
			known = append(slices.Clone(former), image)
		}
	}
	return Repaired{Written: written}, fmt.Errorf("%w: %d attempts", ErrOvertaken, repairTries)
}

// attempt looks at the rows of the known images, reads the item, and mends the rows. It returns ErrOvertaken, with the image, if
// the image maps to a row that was not looked at before, or if a row had changed when it was to be written. Rows that are older than the version lacking
// may lack something of the item's changes.
func (r *Repairer) attempt(ctx context.Context, keys attribute.Item, lacking transform.Version, known []attribute.Item) (Repaired, attribute.Item, error) {
	right, err := r.prove(ctx)
	if err != nil {
		return Repaired{}, attribute.Item{}, err
	}
	seen := map[address]Row{}
	var order []address
	for _, m := range Removals(r.Mapping, keys, known) {
		at := addressOf(m)
		if _, twice := seen[at]; twice {
			continue
		}
		row, err := r.look(ctx, at)
		if err != nil {
			return Repaired{}, attribute.Item{}, err
		}
		seen[at] = row
		order = append(order, at)
	}
	readAt := r.now(ctx)
	image, present, err := r.read(ctx, keys)
	if err != nil {
		return Repaired{}, attribute.Item{}, err
	}
	done := Repaired{Present: present}
	wanted, err := Wanted(r.Mapping, keys, known, image, readAt)
	if err != nil {
		return done, image, err
	}
	for i := range wanted {
		inherit(r.Mapping, right.former, &wanted[i])
	}
	for _, m := range wanted {
		if _, looked := seen[addressOf(m)]; !looked {
			return done, image, ErrOvertaken
		}
	}
	for _, at := range order {
		if live, gone, _ := seen[at].Versions(at.owner); !present && r.Mapping.Outlives() && live > gone && live >= lacking {
			continue
		}
		for _, m := range wanted {
			if !at.holds(m) {
				continue
			}
			written, err := r.mend(ctx, right, seen[at], m, readAt)
			if err != nil {
				return done, image, err
			}
			if written {
				done.Written++
			}
		}
	}
	return done, image, nil
}

// proof is the right to write rows: stamps, and the generation under which they were proved.
type proof struct {
	stamps  Stamps
	current uint32
	former  []Former
}

func (r *Repairer) prove(ctx context.Context) (p proof, err error) {
	p.stamps, err = Prove(ctx, r.Mapping.Tables(), r.Fence, func(ctx context.Context) (err error) {
		if p.current, err = r.Current(ctx); err == nil && r.Former != nil {
			p.former, err = r.Former(ctx)
		}
		return err
	})
	return p, err
}

// read reads the item; what does not exist has no image.
func (r *Repairer) read(ctx context.Context, keys attribute.Item) (attribute.Item, bool, error) {
	image, present, err := r.Item(ctx, keys)
	if !present {
		image = attribute.Item{}
	}
	return image, present, err
}

func (r *Repairer) now(ctx context.Context) time.Time {
	if r.Now == nil {
		return task.Now(ctx)
	}
	return r.Now(ctx)
}

// address is a row, and the version of it that belongs to the item.
type address struct{ table, row, owner string }

func addressOf(m transform.RowMutation) address { return address{m.Table, m.Row, m.Owner} }

// holds reports whether a mutation is of this address.
func (a address) holds(m transform.RowMutation) bool { return a == addressOf(m) }

func (r *Repairer) look(ctx context.Context, at address) (Row, error) {
	found := Row{Key: at.row}
	err := r.Rows.ReadRows(ctx, at.table, Single(at.row), func(row Row) error { found = row; return nil })
	return found, err
}

// Wanted is what the rows of an item should hold: the mutations of its image, which does not exist if the source does not hold the
// item, and removes of every other address that the former images map to. Their versions mean nothing. An image that cannot be
// mapped is a *BadItem.
func Wanted(m *transform.Mapping, keys attribute.Item, former []attribute.Item, image attribute.Item, readAt time.Time) ([]transform.RowMutation, error) {
	return wanted(m, keys, image, Removals(m, keys, append(slices.Clone(former), image)), readAt)
}

// wanted is the image's mutations and the removes of what is claimed beside it, as a sweep writes them. In a row of the image
// all that is claimed there goes as well.
func wanted(m *transform.Mapping, keys, image attribute.Item, claims []transform.RowMutation, readAt time.Time) ([]transform.RowMutation, error) {
	b := transform.Sweep(m, []transform.Found{{Keys: keys, Image: image}}, claims, 0, readAt)
	if len(b.Parked) > 0 {
		return nil, &BadItem{b.Source, b.Parked[0].Reason}
	}
	return b.Rows, nil
}

// Removals are the removes of every address that any image of an item maps to, or, where its primary key alone tells the address,
// of that one. Their versions mean nothing.
func Removals(m *transform.Mapping, keys attribute.Item, images []attribute.Item) []transform.RowMutation {
	changes := []cdc.Change{{Event: cdc.Remove, Sequence: cdc.SequenceOf(1), Keys: keys}}
	for _, image := range images {
		if image.Exists() {
			changes = append(changes, cdc.Change{Event: cdc.Remove, Sequence: cdc.SequenceOf(1), Keys: keys, Old: image})
		}
	}
	return transform.Fold(m, changes, transform.Stamp{}).Rows
}

// mend writes one row if need be. ErrOvertaken: the row had changed since the look, another
// generation began, or the fence's number rose.
func (r *Repairer) mend(ctx context.Context, right proof, seen Row, want transform.RowMutation, readAt time.Time) (bool, error) {
	var generation uint32
	var err error
	if held := seen.HeldBy(want.Owner); held != "" {
		if _, err := transform.ParseVersion(string(held)); err != nil {
			return false, ErrVersion
		}
		generation = held.Generation()
		if IsPhantom(held, want) {
			if generation, err = r.Generation(ctx, readAt); err != nil {
				return false, err
			}
		}
	} else if !Holds(seen, want) {
		if generation, err = r.Generation(ctx, readAt); err != nil {
			return false, err
		}
	}
	request, needed, err := Mend(seen, want, generation, readAt)
	if err != nil || !needed {
		return false, err
	}
	if generation > right.current {
		return false, ErrOvertaken
	}
	if r.DryRun {
		return true, nil
	}
	applied, err := right.stamps.apply(ctx, r.Table, request)
	if err != nil {
		err = right.stamps.refenced(ctx, err)
	}
	switch {
	case errors.Is(err, ErrRefenced):
		return false, ErrOvertaken
	case Is(err, Rejected) && !want.Remove:
		return false, &BadItem{r.Mapping.Source, "Bigtable rejects the row: " + err.Error()}
	case err != nil:
		return false, err
	case !applied:
		return false, ErrOvertaken
	}
	return true, nil
}

// Mend decides what makes a row hold what it should, from what a look at it showed: the request, or false if the row holds it
// already. Of want's version only the rank is used. A row without a version gets that of a load in the given generation at readAt, the
// moment before the image was read, and only if it has none still; any other keeps its version, the count raised by one. Live or
// removed makes no difference: a tombstone is raised as a live version is. Cells that hold what they should keep their times, or an
// age rule would let them live anew; those of a row without a version may be anybody's. A row at count 0 is left (ErrPending). It is pure.
//
// A row that the application itself wrote, at a number above the item's, is a phantom: no record of the stream will ever outrank
// it. It alone falls, to the item's number, if the row still holds exactly what was seen.
func Mend(seen Row, want transform.RowMutation, generation uint32, readAt time.Time) (Request, bool, error) {
	if Holds(seen, want) {
		return Request{}, false, nil
	}
	held := seen.HeldBy(want.Owner)
	if held == "" {
		want.Version = loadedAt(want, generation, readAt)
		request, _ := KeepOlder(seen, want)
		request.Refuse.AtLeast = "" // any version refuses
		return request, true, nil
	}
	if IsPhantom(held, want) {
		want.Version = loadedAt(want, generation, readAt)
		request := Guard(want)
		request.Refuse.AtLeast, request.Refuse.Exactly = held, true
		return request, true, nil
	}
	count := held.Count()
	switch {
	case count == transform.CountTimestamped:
		return Request{}, false, ErrPending
	case count == transform.MaxCount:
		return Request{}, false, ErrRepairs
	}
	want.Cells = standing(seen, want, readAt)
	want.Version = held.WithCount(count + 1)
	request, _ := KeepOlder(seen, want)
	return request, true, nil
}

// loadedAt is the version of an image that was read at or after a time.
func loadedAt(want transform.RowMutation, generation uint32, readAt time.Time) transform.Version {
	return want.Version.Rank().At(transform.NewVersion(generation, transform.LoadHop, cdc.SequenceOf(uint64(max(0, readAt.Unix()))), transform.CountExact))
}

// IsPhantom reports whether a row's version is of the application alone, and above the rank of what the item is: the write to
// the source failed, or was never made (H41). Want is the item's image, or the remove of a row that it does not map to.
func IsPhantom(held transform.Version, want transform.RowMutation) bool {
	return held.ByApplication() && want.Version.Rank().Below(held.Rank())
}

// standing are the cells of a repair, those that the row holds already at the times they have there. Of cells that carry
// a time of their own, and of columns that keep what they were, nothing changes.
func standing(seen Row, want transform.RowMutation, readAt time.Time) []transform.Cell {
	if want.Keep {
		return want.Cells
	}
	newest := map[transform.Column]transform.Cell{}
	for _, c := range seen.Cells {
		if at := (transform.Column{Family: c.Family, Qualifier: c.Qualifier}); newest[at].Family == "" {
			newest[at] = c
		}
	}
	stamp := transform.CellTime(readAt)
	cells := slices.Clone(want.Cells)
	for i, c := range cells {
		held, ok := newest[transform.Column{Family: c.Family, Qualifier: c.Qualifier}]
		if ok && !c.Add && c.Timestamp == stamp && string(held.Value) == string(c.Value) {
			cells[i].Timestamp = held.Timestamp
		}
	}
	return cells
}

// Holds tells whether a row is as the mutation would leave it: alive with exactly these cells in what the item owns, or
// without any of it and not alive. Versions and cell times do not matter. Of a column the newest cell counts.
func Holds(seen Row, want transform.RowMutation) bool {
	live, gone, _ := seen.Versions(want.Owner)
	if want.Remove {
		return live == "" && len(Owned(seen, want)) == 0
	}
	if live == "" || gone > live {
		return false
	}
	return len(Compare(seen, want)) == 0
}

// Difference is one column in which a row is not as it should be. Its values are item data.
type Difference struct {
	Family, Qualifier string
	// Want and Have are the values; nil is no such cell.
	Want, Have []byte
}

// Compare returns the columns in which a row differs from the cells of a mutation, by family and qualifier; of a remove, what is
// left of the item.
func Compare(seen Row, want transform.RowMutation) []Difference {
	var found []Difference
	have, wanted := owned(seen, want), map[transform.Column][]transform.Cell{}
	for _, c := range want.Cells {
		at := transform.Column{Family: c.Family, Qualifier: c.Qualifier}
		wanted[at] = append(wanted[at], c)
	}
	for at, cells := range wanted {
		slices.SortFunc(cells, func(a, b transform.Cell) int { return cmp.Compare(b.Timestamp, a.Timestamp) })
		for i, c := range cells { // from newest to oldest; what is older than all is garbage collection's
			if i >= len(have[at]) {
				found = append(found, Difference{c.Family, c.Qualifier, present(c.Value), nil})
				break
			}
			if value := have[at][i]; string(value) != string(c.Value) {
				found = append(found, Difference{c.Family, c.Qualifier, present(c.Value), present(value)})
				break
			}
		}
		delete(have, at)
	}
	for at, values := range have {
		found = append(found, Difference{at.Family, at.Qualifier, nil, present(values[0])})
	}
	slices.SortFunc(found, func(a, b Difference) int {
		if c := strings.Compare(a.Family, b.Family); c != 0 {
			return c
		}
		return strings.Compare(a.Qualifier, b.Qualifier)
	})
	return found
}

// present makes an empty value tell itself from none.
func present(value []byte) []byte {
	if value == nil {
		return []byte{}
	}
	return value
}

// Owned are the newest cells of what a mutation owns in a row.
func Owned(seen Row, want transform.RowMutation) map[transform.Column][]byte {
	newest := map[transform.Column][]byte{}
	for at, values := range owned(seen, want) {
		newest[at] = values[0]
	}
	return newest
}

// owned are all cells of what a mutation owns in a row, from newest to oldest within a column.
func owned(seen Row, want transform.RowMutation) map[transform.Column][][]byte {
	cells := map[transform.Column][][]byte{}
	for _, c := range seen.Cells {
		if at := (transform.Column{Family: c.Family, Qualifier: c.Qualifier}); owns(want, at) {
			cells[at] = append(cells[at], c.Value)
		}
	}
	return cells
}

// owns reports whether a column belongs to what a mutation owns in its row, or removes there.
func owns(m transform.RowMutation, at transform.Column) bool {
	return slices.Contains(m.Families, at.Family) || slices.Contains(m.Columns, at) ||
		slices.Contains(m.InheritedFamilies, at.Family) || slices.Contains(m.InheritedColumns, at)
}
