package backfill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

const (
	// sweepRows and sweepBytes bound one read of the target, because a row may hold the versions of
	// very many items.
	sweepRows  = 1000
	sweepBytes = 1 << 20
	// sweepItems is how many items are read concurrently. Each item has at most 400 KB.
	sweepItems = 32
)

// SweepTarget reads the rows of the target for a sweep; see sink.MarkReader.
type SweepTarget interface {
	ReadMarks(ctx context.Context, table string, r sink.Range, unmarked bool, limit int, f func(sink.Row) error) error
	ReadAt(ctx context.Context, table string, rows []string, at int64, f func(sink.Row) error) error
}

// ItemSource reads items; *Tables implements it. Reads must be strongly consistent (B4). A missing
// table is an error.
type ItemSource interface {
	Get(ctx context.Context, table string, key attribute.Item) (attribute.Item, bool, error)
}

// Sweep removes rows that the load of a generation cannot see, in one range of one target table
// (sink.Sweeping). A pass ends when all ranges are swept. The table is swept when a pass has
// written nothing. A sweep must not begin before the load is complete. Late writes of older
// generations must be impossible by then.
type Sweep struct {
	sink.Sweeping
	Range  sink.Range
	Target SweepTarget
	Source ItemSource
	// Write returns nil when every row of the batch is durable in the target or parked. It retries
	// by itself, with the same batch.
	Write func(ctx context.Context, b *transform.Batch) error
	// Clean returns nil when the entries are durable in the target. It retries by itself. It is
	// called only for rows that a fast load has copied (sink.Ghosts).
	Clean func(ctx context.Context, entries []sink.Entry) error
	// Save stores the progress durably. It fails if another worker has taken the range over.
	Save func(ctx context.Context, p SweepProgress) error
	// Retry repeats a read or a save if a retry may help. Nil means one attempt.
	Retry func(ctx context.Context, op func(ctx context.Context) error) error
	// Pace waits until the limit allows reads that cost the given read capacity units. Nil means no
	// limit.
	Pace func(ctx context.Context, units float64) error
	// Now is the source's clock, which dates the cells of images. Nil means this worker's clock.
	Now func(ctx context.Context) time.Time
	// AppliedTo returns the time up to which all committed changes are applied. It is set if an
	// application writes the target too. Rows without a version are then checked a second time. The
	// second check comes when AppliedTo has passed the time of the first check. Nil means that no
	// application writes the target.
	AppliedTo func(ctx context.Context) (time.Time, error)
	// DryRun counts the writes that would be made, and makes none.
	DryRun bool

	pageRows int // replaces sweepRows if set
}

// SweepProgress is the progress of a sweep in a range. From is a row key, which may contain item
// data: it must not reach logs or errors.
type SweepProgress struct {
	// From is the first row that was not checked.
	From []byte           `json:"from,omitempty"`
	Done bool             `json:"done,omitempty"`
	Sums sink.SweepCounts `json:"sums"`
}

// Run sweeps the range from the position from to its end. It returns the progress and the first
// error. Everything before the position is durable. A repeated sweep from an older position is
// harmless.
func (s *Sweep) Run(ctx context.Context, from SweepProgress) (SweepProgress, error) {
	p, savedAt := from, task.Mono(ctx)
	var waiting aside
	save := func(ctx context.Context) error {
		savedAt = task.Mono(ctx)
		return s.retry(ctx, func(ctx context.Context) error { return s.Save(ctx, p) })
	}
	for next := p.From; !p.Done; {
		page, err := s.read(ctx, next)
		if err != nil {
			return p, err
		}
		sums, err := s.settle(ctx, page.suspects)
		if err != nil {
			return p, err
		}
		p.Sums.Add(sums)
		p.Sums.Add(sink.SweepCounts{Seen: page.seen, Unexplained: page.unexplained})
		if s.DryRun { // so that a pass which cleans them follows
			p.Sums.Suspects += int64(len(page.ghostly))
		} else if err := s.clean(ctx, page.ghostly); err != nil {
			return p, err
		}
		next = []byte(page.next)
		seen := s.now(ctx) // after the read
		for _, key := range page.aside {
			waiting.rows = append(waiting.rows, asideRow{key, seen})
		}
		err = s.lookAgain(ctx, &waiting, page.last || len(waiting.rows) > maxAside, &p.Sums, func(ctx context.Context) error {
			p.From = waiting.from(next)
			return save(ctx)
		})
		if err != nil {
			return p, err
		}
		p.From, p.Done = waiting.from(next), page.last
		if !p.Done && task.Mono(ctx)-savedAt < saveEvery {
			continue
		}
		if err := save(ctx); err != nil {
			return p, err
		}
	}
	return p, nil
}

// sweepPage is some rows of the range.
type sweepPage struct {
	seen, unexplained int64
	suspects          []sink.Suspect
	aside             []string // rows that are checked a second time
	ghostly           []sink.Row
	next              string // the first row after the page
	last              bool   // there are no more rows
}

// errPageFull ends the read of a page.
var errPageFull = errors.New("the page is full")

// read checks the rows from a position on. Rows are read before their items, so an image is as new
// as its row or newer.
func (s *Sweep) read(ctx context.Context, from []byte) (page sweepPage, err error) {
	rest := s.Range
	if len(from) > 0 {
		rest.From = string(from)
	}
	limit := cmp.Or(s.pageRows, sweepRows)
	err = s.retry(ctx, func(ctx context.Context) error {
		page = sweepPage{}
		bytes := 0
		err := s.Target.ReadMarks(ctx, s.Table, rest, s.Owned, limit, func(row sink.Row) error {
			suspects, unexplained := s.Suspects(row)
			page.seen++
			if again := s.AppliedTo != nil && sink.Bare(row); again && len(suspects)+int(unexplained) > 0 {
				page.aside = append(page.aside, row.Key)
			} else {
				page.unexplained += unexplained
				page.suspects = append(page.suspects, suspects...)
			}
			if row.MayHoldGhosts() {
				page.ghostly = append(page.ghostly, row)
			}
			page.next = row.Key + "\x00"
			if bytes += markBytes(row); bytes >= sweepBytes {
				return errPageFull
			}
			return nil
		})
		page.last = err == nil && page.seen < int64(limit)
		if err == errPageFull {
			err = nil
		}
		return err
	})
	return page, err
}

// sweepGhosts is how many rows are cleaned at once. Only cells of one time are read.
const sweepGhosts = 100

// clean deletes the cells of a fast load from rows that guarded writes have changed. A row that
// changes meanwhile needs no second look: no request of the load can be executed any more, and a
// guarded write has later cells. So the counts do not include these rows.
func (s *Sweep) clean(ctx context.Context, rows []sink.Row) error {
	for part := range slices.Chunk(rows, sweepGhosts) {
		byTime := map[int64][]string{}
		known := map[string]sink.Row{}
		for _, row := range part {
			byTime[row.Marker.At] = append(byTime[row.Marker.At], row.Key)
			known[row.Key] = row
		}
		var entries []sink.Entry
		for _, at := range slices.Sorted(maps.Keys(byTime)) {
			var found []sink.Entry
			err := s.retry(ctx, func(ctx context.Context) error {
				found = nil
				return s.Target.ReadAt(ctx, s.Table, byTime[at], at, func(row sink.Row) error {
					found = append(found, sink.Ghosts(known[row.Key], slices.Concat(row.Cells, row.Own)))
					return nil
				})
			})
			if err != nil {
				return err
			}
			entries = append(entries, found...)
		}
		if err := s.Clean(ctx, entries); err != nil {
			return err
		}
	}
	return nil
}

// markBytes returns the approximate number of bytes of a row that were read.
func markBytes(row sink.Row) int {
	n := len(row.Key) + 2*transform.VersionSize
	for _, c := range row.Own {
		n += len(row.Key) + len(c.Qualifier) + len(c.Value)
	}
	return n
}

// settle reads the items of suspects and writes the resulting mutations, in groups of a few items.
func (s *Sweep) settle(ctx context.Context, suspects []sink.Suspect) (sink.SweepCounts, error) {
	var sums sink.SweepCounts
	for len(suspects) > 0 {
		n, items := 1, len(suspects[0].Items)
		for n < len(suspects) && items+len(suspects[n].Items) <= sweepItems {
			items += len(suspects[n].Items)
			n++
		}
		readAt := s.now(ctx) // before the reads (B3)
		found, err := s.items(ctx, sink.Items(s.Mapping, suspects[:n]))
		if err != nil {
			return sums, err
		}
		batch, counts := s.Settle(suspects[:n], found, readAt)
		if !s.DryRun {
			if err := s.Write(ctx, &batch); err != nil {
				return sums, err
			}
		}
		counts.Units = readUnits(found)
		sums.Add(counts)
		suspects = suspects[n:]
		if s.Pace == nil {
			continue
		}
		if err := s.Pace(ctx, counts.Units); err != nil {
			return sums, err
		}
	}
	return sums, nil
}

// readUnits returns the approximate cost of consistent reads of items. A read costs one unit for
// each 4 KB, and one unit for a missing item. It measures the item's text. The text is somewhat
// larger than the size that DynamoDB counts.
func readUnits(found []transform.Found) (units float64) {
	var text []byte
	for _, f := range found {
		text = attribute.AppendItem(text[:0], f.Image)
		units += float64(max(1, (len(text)+bytesPerUnit-1)/bytesPerUnit))
	}
	return units
}

// items reads items concurrently.
func (s *Sweep) items(ctx context.Context, keys []attribute.Item) ([]transform.Found, error) {
	found := make([]transform.Found, len(keys))
	g := task.NewGroup(ctx, sweepItems)
	for i := range keys {
		g.Go(fmt.Sprintf("item %d", i), func(ctx context.Context) error {
			return s.retry(ctx, func(ctx context.Context) error {
				image, present, err := s.Source.Get(ctx, s.Mapping.Source, keys[i])
				if !present {
					image = attribute.Item{}
				}
				found[i] = transform.Found{Keys: keys[i], Image: image}
				return err
			})
		})
	}
	return found, g.Wait()
}

func (s *Sweep) now(ctx context.Context) time.Time {
	if s.Now == nil {
		return task.Now(ctx)
	}
	return s.Now(ctx)
}

func (s *Sweep) retry(ctx context.Context, op func(ctx context.Context) error) error {
	if s.Retry == nil {
		return op(ctx)
	}
	return s.Retry(ctx, op)
}

// maxSweepRanges bounds the ranges of a target table, because each range has its own lease.
const maxSweepRanges = 64

// KeySampler returns row keys, in order, that divide a table evenly.
type KeySampler interface {
	SampleKeys(ctx context.Context, table string) ([]string, error)
}

// SweepRanges divides the rows that a sweep checks into ranges. The argument `most` bounds the
// number of ranges, and so does maxSweepRanges. The ranges must not change during a pass.
func SweepRanges(ctx context.Context, target KeySampler, s sink.Sweeping, most int) ([]sink.Range, error) {
	samples, err := target.SampleKeys(ctx, s.Table)
	if err != nil {
		return nil, err
	}
	return sink.Split(s.Range(), samples, max(1, min(most, maxSweepRanges))), nil
}
