package verify

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

const (
	// saveEvery is the least time between two saves of a part's progress.
	saveEvery = 2 * time.Second
	// sumsRate is the approximate number of bytes of sums that a part stores per second. At this
	// rate, the sums of a large part are stored every five minutes.
	sumsRate = 128 << 10
	// confirmEvery is the longest time for which rows wait for their second check while a part
	// continues. So differences are known long before the end of the part.
	confirmEvery = 5 * time.Minute
)

// ErrDrained is returned for a part that ended early because its worker was asked to stop. The part
// resumes at its last save.
var ErrDrained = backfill.ErrDrained

// Work is one part of a comparison: a segment of the source, or a range of a target table. It
// computes sums, checks rows, or does both.
type Work struct {
	*Comparison
	// Sums collects the part's sums; nil if it computes none. If Addresses is true, the sums leave
	// out cells. Then Picked must also come from sums without cells.
	Sums      *Sums
	Addresses bool
	// Look makes the part check rows. If Picked is set, only rows in its buckets are checked. Key
	// is the key of the sums from which Picked was computed.
	Look   bool
	Picked *Picked
	// Key is the key of the run's sums.
	Key []byte
	// Save stores the progress durably, in one write with the news since the previous save (V3). If
	// Save is nil, only the end of the part is stored. The part may repeat a call of Save.
	Save func(ctx context.Context, p Progress, since News) error
	// Drain, if not nil, ends the part between two pages with ErrDrained.
	Drain context.Context
}

// Progress is how far a part has come.
type Progress struct {
	// Position is where the part resumes, in the part's own form. It is nil at the beginning and at
	// the end. It contains keys.
	Position json.RawMessage
	Counts
	// Read reports that every page was read. Then only waiting rows need another check.
	Read bool
	// Waiting are the rows that wait for another check when the part resumes.
	Waiting []Candidate
}

// News is what a part has found since its previous save.
type News struct {
	Found []Finding
	// Waiting are rows that wait for another check. They are added to the waiting rows of earlier
	// saves. If Instead is true, they replace them.
	Waiting []Candidate
	Instead bool
	// Sums are all sums of the part; nil if they have not changed.
	Sums *Sums
}

// working is a run of a part.
type working struct {
	*Work
	at      Progress // the progress, including rows that are not judged yet
	waiting []Candidate
	stored  int         // how many rows of waiting are saved; the saved rows come first
	instead bool        // rows of an earlier save no longer wait
	moving  []Candidate // rows whose version rose at every check
	found   []Finding   // findings since the last save
	summed  bool        // the sums changed since the last save
	kept    int         // total number of findings
	savedAt time.Duration
	oldest  time.Duration // when the first waiting row was seen
	buckets *Sums         // used only for their hashes
}

func (w *Work) begin(ctx context.Context, from Progress) *working {
	now := task.Mono(ctx)
	r := &working{Work: w, at: from, savedAt: now, buckets: w.Sums, waiting: from.Waiting, stored: len(from.Waiting), oldest: now}
	r.at.Waiting = nil
	if r.buckets == nil && w.Picked != nil {
		r.buckets = NewSums(w.Key)
	}
	r.kept = int(from.Differing() + from.InFlight - from.LeftOut)
	return r
}

// source processes a segment of the source, from the part's progress to its end. It returns the
// progress and the findings since the last save.
func (w *Work) source(ctx context.Context, index, total int, from Progress) (Progress, []Finding, error) {
	r := w.begin(ctx, from)
	segments := backfill.Segments{Table: w.Mapping.Source, Source: w.Comparison.Source}
	for !r.at.Read {
		if err := r.leave(ctx); err != nil {
			return r.at, nil, err
		}
		var page backfill.Page
		readAt := w.now(ctx)
		err := w.retry(ctx, func(ctx context.Context) (err error) {
			readAt = w.now(ctx) // this must be before the read
			page, err = segments.Read(ctx, index, total, r.at.Position, 0)
			return err
		})
		if err != nil {
			return r.at, nil, err // V2: the segment was not read to its end
		}
		if err := r.page(ctx, page, readAt); err != nil {
			return r.at, nil, err
		}
		r.at.Position = page.Next
		r.at.Units += page.Consumed
		r.at.Bytes += page.Bytes
		if err := w.pace(ctx, len(page.Items), page.Consumed, 0); err != nil {
			return r.at, nil, err
		}
		if r.at.Read = page.Next == nil; r.at.Read {
			break
		}
		if err := r.save(ctx); err != nil {
			return r.at, nil, err
		}
	}
	return r.finish(ctx)
}

// page maps the items of a page, and compares their rows.
func (r *working) page(ctx context.Context, page backfill.Page, readAt time.Time) error {
	items := page.Items
	if r.Scope.Sample > 0 {
		items = slices.DeleteFunc(slices.Clone(items), func(item attribute.Item) bool { return !r.sampled(r.Mapping.ItemKey(item)) })
	}
	first := r.Sums != nil || r.Picked == nil // count items once, in the first phase
	b := transform.Load(r.Mapping, items, 0, readAt)
	if first {
		r.at.Items += int64(len(items))
		r.at.Unmapped += int64(len(b.Parked))
	}
	var wanted []Wanted
	for i := range b.Rows {
		row := &b.Rows[i]
		if row.Remove {
			continue
		}
		if first {
			r.at.Compared++
		}
		if r.Sums != nil {
			r.Sums.put(row, r.Addresses)
			r.summed = true
		}
		if r.Look && r.picked(row.Table, row.Row) {
			wanted = append(wanted, Wanted{*row, items[row.Change]})
		}
	}
	return r.forward(ctx, wanted, readAt)
}

// forward compares rows with the mutations of the items that map to them. If a row differs, it is
// checked again at once. The page was read before the rows, so a row may be newer than its item.
func (r *working) forward(ctx context.Context, wanted []Wanted, readAt time.Time) error {
	places := make([]Place, len(wanted))
	for i, w := range wanted {
		places[i] = Place{w.Table, w.Row, []attribute.Item{r.Mapping.Keys(w.Image)}}
	}
	return r.pages(ctx, places, r.Bounds.orDefault().PageRows, func(page []Place, rows []sink.Row) error {
		var differ []Place
		for i := range page {
			j := judgement{m: r.Mapping, table: page[i].Table, row: rows[i], at: readAt}
			j.wanted(wanted[i])
			if len(j.Findings) > 0 || j.InFlight {
				differ = append(differ, page[i])
			}
		}
		wanted = wanted[len(page):]
		return r.look(ctx, differ, forwards)
	})
}

// look checks rows for the first time, and keeps those that differ for a second check.
func (r *working) look(ctx context.Context, places []Place, wants direction) error {
	return r.looks(ctx, places, func(look Look) error {
		if wants != forwards {
			r.at.Kept += int64(look.Kept)
		}
		c := Candidate{Look: look, wants: wants}
		if r.narrow(&c.Verdict, c); !c.differs() {
			return nil
		}
		return r.suspect(ctx, c)
	})
}

// position is where a range of the target resumes.
type position struct {
	From []byte `json:"from"`
}

// target processes a range of a target table, from the part's progress to its end.
func (w *Work) target(ctx context.Context, table string, rows sink.Range, from Progress) (Progress, []Finding, error) {
	r := w.begin(ctx, from)
	if from.Position != nil {
		var p position
		if json.Unmarshal(from.Position, &p) != nil {
			return r.at, nil, backfill.ErrProgress
		}
		rows.From = string(p.From)
	}
	for !r.at.Read {
		if err := r.leave(ctx); err != nil {
			return r.at, nil, err
		}
		places, done, err := r.targetPage(ctx, table, &rows)
		if err != nil {
			return r.at, nil, err // V2: the range was not read to its end
		}
		if err := r.backward(ctx, places); err != nil {
			return r.at, nil, err
		}
		if done {
			r.at.Position, r.at.Read = nil, true
			break
		}
		if r.at.Position, err = json.Marshal(position{[]byte(rows.From)}); err != nil {
			return r.at, nil, err
		}
		if err := r.save(ctx); err != nil {
			return r.at, nil, err
		}
	}
	return r.finish(ctx)
}

// targetPage reads rows until it has a full page of rows to check, or has read 50 times as many
// rows. It processes each row once, because a repeated read continues after the last row.
func (r *working) targetPage(ctx context.Context, table string, rows *sink.Range) (places []Place, done bool, err error) {
	most, seen := r.Bounds.orDefault().PageRows, 0
	managed := r.Mapping.Managed(table)
	sweeping := r.sweeping(table)
	step := func(key string, look bool) error {
		rows.From = key + "\x00"
		seen++
		if look {
			places = append(places, Place{Table: table, Row: key})
		}
		if len(places) >= most || seen >= 50*most {
			return errPageFull
		}
		return nil
	}
	read := func(ctx context.Context) error {
		switch {
		case !r.Scope.Since.IsZero():
			return r.Comparison.Target.ReadSince(ctx, table, *rows, max(r.Scope.Since.UnixMicro()/1000*1000, 0), func(key string) error {
				r.at.Rows++
				return step(key, true)
			})
		case r.Sums != nil:
			return r.Comparison.Target.ReadRows(ctx, table, *rows, func(row sink.Row) error {
				r.at.Rows++
				return step(row.Key, r.sum(sweeping, managed, &row))
			})
		}
		return r.Comparison.Target.ReadMarks(ctx, table, *rows, true, 0, func(row sink.Row) error {
			return step(row.Key, r.picked(table, row.Key))
		})
	}
	err = r.retry(ctx, func(ctx context.Context) error {
		err := read(ctx)
		if done = err == nil; err == errPageFull {
			return nil
		}
		return err
	})
	if err == nil {
		err = r.pace(ctx, 0, 0, seen)
	}
	return places, done, err
}

// sum adds a row of the target to the sums. It returns true if the row must be checked in any case,
// because sums of addresses do not detect cells that belong to no live item.
func (r *working) sum(sweeping sink.Sweeping, managed []string, row *sink.Row) bool {
	r.summed = true
	if !r.Addresses && r.Scope.Sample == 0 && !r.Mapping.Merged() {
		if !isWitness(row.Key) {
			r.Sums.held(sweeping.Table, row, sink.Alive(*row), managed, r.Mapping.KeepsVersions(), false)
		}
		return false
	}
	shares, strangers := sweeping.Shares(*row)
	if strangers > 0 && len(shares) == 0 {
		return false
	}
	var owners []string
	for _, s := range shares {
		if s.Alive() && r.inSample(s.Items, sweeping.Table, row.Key) {
			owners = append(owners, s.Owner)
		}
	}
	r.Sums.held(sweeping.Table, row, owners, managed, r.Mapping.KeepsVersions(), r.Addresses)
	if !r.Look || strangers > 0 {
		return false
	}
	return slices.ContainsFunc(row.Cells, func(c transform.Cell) bool {
		at := transform.Column{Family: c.Family, Qualifier: c.Qualifier}
		return slices.Contains(managed, c.Family) && !slices.ContainsFunc(shares, func(s sink.Share) bool {
			return s.Alive() && (len(s.Items) == 0 || Wanted{RowMutation: s.Claim}.owns(at))
		})
	})
}

func isWitness(row string) bool {
	return len(row) >= len(transform.WitnessPrefix) && row[:len(transform.WitnessPrefix)] == transform.WitnessPrefix
}

// backward checks rows of the target that may be extra.
func (r *working) backward(ctx context.Context, places []Place) error {
	wants := backwards
	switch {
	case !r.Scope.Since.IsZero():
		wants = everything
		r.at.Compared += int64(len(places))
	case r.Sums != nil:
		wants = loose
	case r.Addresses:
		wants = living
	}
	return r.look(ctx, places, wants)
}

// picked reports whether a row is in one of the buckets that are checked.
func (r *working) picked(table, row string) bool {
	return r.Picked == nil || r.Picked.has(r.buckets.row(table, row).bucket())
}

// sampled reports whether an item is in the sample, by a hash of its key.
func (c *Comparison) sampled(name string) bool {
	if c.Scope.Sample == 0 {
		return true
	}
	h := sha256.Sum256([]byte(name))
	return float64(binary.BigEndian.Uint64(h[:8])) < c.Scope.Sample*math.MaxUint64
}

// inSample reports whether one of the items is in the sample. For a row without items, it reports
// whether the row is.
func (c *Comparison) inSample(items []attribute.Item, table, row string) bool {
	if len(items) == 0 {
		return c.sampled(table + "\x00" + row)
	}
	return slices.ContainsFunc(items, func(keys attribute.Item) bool { return c.sampled(c.Mapping.ItemKey(keys)) })
}

// leave returns why the part must stop; nil if the part continues.
func (r *working) leave(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if r.Drain != nil && r.Drain.Err() != nil {
		return ErrDrained
	}
	return nil
}

// save stores the progress at intervals, after a page.
func (r *working) save(ctx context.Context) error {
	if len(r.waiting) > 0 && task.Mono(ctx)-r.oldest >= confirmEvery {
		if err := r.confirm(ctx, between); err != nil {
			return err
		}
	}
	every := saveEvery
	if r.Sums != nil {
		every += time.Duration(min(r.at.Compared+r.at.Rows, Buckets)*entryBytes) * time.Second / sumsRate
	}
	if task.Mono(ctx)-r.savedAt < every {
		return nil
	}
	return r.store(ctx)
}

// store saves the progress and the news since the previous save.
func (r *working) store(ctx context.Context) error {
	if r.Save == nil {
		return nil
	}
	since := News{Found: r.found, Waiting: r.waiting[r.stored:], Instead: r.instead}
	if r.summed {
		since.Sums = r.Sums
	}
	if err := r.retry(ctx, func(ctx context.Context) error { return r.Save(ctx, r.at, since) }); err != nil {
		return err
	}
	r.savedAt, r.found, r.stored, r.instead, r.summed = task.Mono(ctx), nil, len(r.waiting), false, false
	return nil
}

// finish judges the waiting rows. The caller stores the end of the part.
func (r *working) finish(ctx context.Context) (Progress, []Finding, error) {
	if err := r.confirm(ctx, between); err != nil {
		return r.at, nil, err
	}
	return r.at, r.found, nil
}
