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

// A repair writes an item's current image to the rows that should hold it. No stream record
// determines the rank of this write.
//
// The row is read first, then the item, strongly consistently. So the image includes every change
// up to the version read. Every change that it lacks has, or will have, a higher version. The image
// is written at the version read, with its count raised by one, if the row still holds exactly that
// version. No version lies between the version read and the raised count, and a version never falls
// (S1). So the guard at the raised count is this compare-and-set. A change of the stream that
// arrives in between wins, regardless of which of the two writes is executed first.
//
// A row without a version gets a load's version with a time just before the item was read. The
// write requires that the row still has no version. The generation must admit such an image
// (checkpoint.Admissible).
//
// A repair is the only write that takes its version from the row. So it could outrank rows that
// another mapping wrote for the item, and the load that rewrites those rows. Another mapping begins
// a new generation. So a repair does not write a row of a later generation than the last in which
// its own mapping was known to be valid.
//
// Wanted and transform.Sweep decide what the rows of an item should hold, for retries, comparisons
// and sweeps. A sweep writes at its own generation. Retries and comparisons write at the version
// that they read.

// ErrOvertaken is returned when changes of the item arrived during every attempt to repair it. A
// retry may succeed, and the changes may have corrected the row meanwhile.
var ErrOvertaken = errors.New("the item changes faster than it is repaired")

// ErrRepairs is returned for a row that was repaired so often at one version that no higher count
// is left. The item's next change gives the row another version.
var ErrRepairs = errors.New("the row's version allows no further repair")

// repairTries bounds how often a repair starts again because the item or the row changed meanwhile.
const repairTries = 5

// ErrPending is returned for a row at count 0: its image was written once, and its second, exact
// write follows. A repair at a higher count would make the row refuse that second write. Then the
// application's writes in between would stay (H112).
var ErrPending = errors.New("the row's change is not settled yet")

// ErrVersion is returned for a row whose version is not valid, because another program wrote it.
var ErrVersion = errors.New("another program wrote the row's version")

// Repairer repairs the rows of items of one mapping. All fields are required unless their comment
// says otherwise.
type Repairer struct {
	Mapping *transform.Mapping
	Rows    Reader
	Table   Table
	// Item reads an item by its primary key, strongly consistently; false if there is none.
	Item func(ctx context.Context, keys attribute.Item) (attribute.Item, bool, error)
	// Current returns the table's generation, or an error if another mapping now writes the rows.
	// Current is called before the rows are read.
	Current func(ctx context.Context) (uint32, error)
	// Former returns the earlier mappings that are not swept yet. Former is called together with
	// Current; nil means that there are no such mappings.
	Former func(ctx context.Context) ([]Former, error)
	// Prove proves the right to write to target tables, for which it calls Current.
	Prove Prover
	// Generation returns the generation for an image that was read at or after the given time, or
	// an error if no generation admits it. Generation is called only for rows without a version.
	Generation func(ctx context.Context, at time.Time) (uint32, error)
	// Now returns the source's time, which dates rows and cells. If it is nil, this process's time
	// is used.
	Now func(ctx context.Context) time.Time
	// Had reports whether rows of a generation belong to this migration. If it is nil, all rows
	// belong to it. Rows of others are never removed.
	Had func(generation uint32) bool
	// Owned reports that no other program writes to the target tables. Rows without a version then
	// belong to this migration (RepairSeen).
	Owned bool
	// DryRun makes a repair read and decide everything but write nothing.
	DryRun bool
}

// Repaired is the result of a repair.
type Repaired struct {
	// Present reports that the source holds the item.
	Present bool
	// Written is how many rows were put or removed. Correct rows are not written.
	Written int
}

// Repair makes the rows of one item equal to its image in the source. It writes the rows to which
// the image maps, and the rows of former images, which the item may have left. The argument `keys`
// is the item's primary key.
//
// Rows are repaired one after the other. An error ends the repair: rows repaired before it stay
// repaired, and the others stay unchanged. A repeated repair continues with the unchanged rows. The
// item's parked records must stay until a repair has succeeded. If an image cannot be mapped, the
// error is a *BadItem, and nothing was written. A row that the target rejects is a *BadItem too.
// Errors of the target are *Error. After an error of reason Unknown the whole repair may be
// repeated.
//
// The mapping may keep items after TTL deletions (expire: keep). Then live rows are left alone
// while the source does not hold the item. No read shows whether the item has expired. If it was
// deleted instead, the stream delivers that delete.
func (r *Repairer) Repair(ctx context.Context, keys attribute.Item, former ...attribute.Item) (Repaired, error) {
	return r.repair(ctx, keys, "", former)
}

// RepairParked repairs the item of parked records, which must all belong to one item. After it has
// succeeded the records may be deleted. The mapping may keep items after TTL deletions (expire:
// keep). If the source then does not hold the item, rows at least as new as the newest record are
// left alone, because they include the parked changes. Older rows hold an earlier state of the item
// and are removed.
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

// attempt reads the rows of the known images and then the item, and repairs the rows. It returns
// ErrOvertaken and the image if the image maps to a row that was not read. It also does so if a row
// changed before it was written. Rows with versions below `lacking` may lack changes of the item.
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

// proof is the right to write rows: the stamps, and the generation in which the right was proved.
type proof struct {
	stamps  Stamps
	current uint32
	former  []Former
}

func (r *Repairer) prove(ctx context.Context) (p proof, err error) {
	right := func(ctx context.Context) (err error) {
		if p.current, err = r.Current(ctx); err == nil && r.Former != nil {
			p.former, err = r.Former(ctx)
		}
		return err
	}
	if r.DryRun { // a dry run writes nothing, so it needs no stamps
		return p, right(ctx)
	}
	p.stamps, err = r.Prove(ctx, r.Mapping.Tables(), right)
	return p, err
}

// read reads the item. An item that does not exist has an empty image.
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

// address names a row, and by owner the version in the row that belongs to the item.
type address struct{ table, row, owner string }

func addressOf(m transform.RowMutation) address { return address{m.Table, m.Row, m.Owner} }

// holds reports whether a mutation has this address.
func (a address) holds(m transform.RowMutation) bool { return a == addressOf(m) }

func (r *Repairer) look(ctx context.Context, at address) (Row, error) {
	found := Row{Key: at.row}
	err := r.Rows.ReadRows(ctx, at.table, Single(at.row), func(row Row) error { found = row; return nil })
	return found, err
}

// mend writes one row if necessary. It returns ErrOvertaken if the row has changed since it was
// read, another generation began, or the fence's number rose.
func (r *Repairer) mend(ctx context.Context, right proof, seen Row, want transform.RowMutation, readAt time.Time) (bool, error) {
	var generation uint32
	var err error
	if held := seen.HeldBy(want.Owner); held != "" && !seen.CopiedOnly() {
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
	case errors.Is(err, ErrRefenced), errors.Is(err, ErrFenced):
		return false, ErrOvertaken // the next attempt proves the right again
	case Is(err, Rejected) && !want.Remove:
		return false, &BadItem{r.Mapping.Source, "Bigtable rejects the row: " + err.Error()}
	case err != nil:
		return false, err
	case !applied:
		return false, ErrOvertaken
	}
	return true, nil
}

// Mend returns the request that corrects a row that was read; false if the row is already correct.
// It uses only the rank from the version of `want`. A row without a version gets the version of a
// load in the given generation at `readAt`, the moment before the image was read. So does a row
// that only a fast load has copied. The request is refused if the row has a version by then. Any
// other row, live or a tombstone, keeps its version with the count raised by one. Cells with
// correct values keep their times. Otherwise an age rule would keep these cells longer. In a row
// without a version, all cells get new times, because its cells may come from any program, and
// cells with the time of a fast load may be deleted by its sweep. A row at count 0 stays unchanged
// (ErrPending). Mend is pure.
//
// A row is a phantom if the application itself wrote it at a number above the item's. No record of
// the stream will ever outrank it. Only a phantom's version is lowered to the item's number. The
// request requires that the row still holds exactly the version that was read.
func Mend(seen Row, want transform.RowMutation, generation uint32, readAt time.Time) (Request, bool, error) {
	if Holds(seen, want) {
		return Request{}, false, nil
	}
	held := seen.HeldBy(want.Owner)
	if held == "" || seen.CopiedOnly() {
		want.Version = loadedAt(want, generation, readAt)
		request, _ := KeepOlder(seen, want)
		request.Refuse.AtLeast = "" // any version makes the row refuse
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

// loadedAt returns the version of an image that was read at or after a time.
func loadedAt(want transform.RowMutation, generation uint32, readAt time.Time) transform.Version {
	return want.Version.Rank().At(transform.NewVersion(generation, transform.LoadHop, cdc.SequenceOf(uint64(max(0, readAt.Unix()))), transform.CountExact))
}

// IsPhantom reports whether only the application wrote a row's version, and the version is above
// the item's rank. Then the application's write to the source failed or was never made (H41). The
// argument `want` is the item's image, or the remove of a row to which the item does not map.
func IsPhantom(held transform.Version, want transform.RowMutation) bool {
	return held.ByApplication() && want.Version.Rank().Below(held.Rank())
}

// standing returns the cells of a repair. A cell that the row holds already keeps the time that it
// has there. Cells with times of their own, and columns that keep older cells, are unchanged.
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

// Holds reports whether a row is already as the mutation would leave it. After a put it is live,
// with exactly these cells of the item. After a remove it is not live, and has no cells of the
// item. It ignores versions and cell times. Only the newest cell of each column counts.
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

// Difference is one column with a wrong value. Its values are item data.
type Difference struct {
	Family, Qualifier string
	// Want and Have are the expected and the actual value. Nil means that the column has no cell.
	Want, Have []byte
}

// Compare returns the columns in which a row differs from the cells of a mutation, sorted by family
// and qualifier. For a remove it returns the remaining cells of the item.
func Compare(seen Row, want transform.RowMutation) []Difference {
	var found []Difference
	have, wanted := owned(seen, want), map[transform.Column][]transform.Cell{}
	for _, c := range want.Cells {
		at := transform.Column{Family: c.Family, Qualifier: c.Qualifier}
		wanted[at] = append(wanted[at], c)
	}
	for at, cells := range wanted {
		slices.SortFunc(cells, func(a, b transform.Cell) int { return cmp.Compare(b.Timestamp, a.Timestamp) })
		for i, c := range cells { // from newest to oldest; older cells are left to garbage collection
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

// present makes an empty value distinguishable from a missing one.
func present(value []byte) []byte {
	if value == nil {
		return []byte{}
	}
	return value
}

// Owned returns the newest value of each column that a mutation owns in a row.
func Owned(seen Row, want transform.RowMutation) map[transform.Column][]byte {
	newest := map[transform.Column][]byte{}
	for at, values := range owned(seen, want) {
		newest[at] = values[0]
	}
	return newest
}

// owned returns all values of the columns that a mutation owns in a row, from newest to oldest
// within a column.
func owned(seen Row, want transform.RowMutation) map[transform.Column][][]byte {
	cells := map[transform.Column][][]byte{}
	for _, c := range seen.Cells {
		if at := (transform.Column{Family: c.Family, Qualifier: c.Qualifier}); owns(want, at) {
			cells[at] = append(cells[at], c.Value)
		}
	}
	return cells
}

// owns reports whether a mutation owns a column in its row, or removes it there.
func owns(m transform.RowMutation, at transform.Column) bool {
	return slices.Contains(m.Families, at.Family) || slices.Contains(m.Columns, at) ||
		slices.Contains(m.InheritedFamilies, at.Family) || slices.Contains(m.InheritedColumns, at)
}
