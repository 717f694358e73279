package comparison

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	verifies "github.com/dynamodb-bigtable/replicator/internal/verify"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
	"github.com/dynamodb-bigtable/replicator/verify"
)

const (
	// keysAtOnce is how many keys are compared together. Rows that differ wait together for their
	// second check, so a larger number means fewer waits.
	keysAtOnce = 1000
	// placesAtOnce is how many items are looked up concurrently, to find their rows.
	placesAtOnce = 32
	// mostKept is the maximum number of differing rows that the command keeps, to list and repair
	// them. Further ones are counted.
	mostKept = 10_000
	// mostSame is the maximum number of equal keys that the command lists.
	mostSame = 100
)

// The results of a key.
const (
	keySame      = "same"      // every row of the item is correct, or neither side has the item
	keyDiffers   = "differs"   // a row of the item is missing, different or extra
	keyInFlight  = "in_flight" // a row changed at every check, or has a change that is not applied
	keyParked    = "parked"    // the item cannot be stored, so it has no row
	keyFiltered  = "filtered"  // a rule ignores the item, and it has no row
	keyUnlocated = "unlocated" // the item does not exist, and its key does not show its former row
)

// keyed is the result of a comparison of single items.
type keyed struct {
	begun, ended time.Time // on the service's clock
	complete     bool      // every key was compared
	keys, rows   int64     // compared so far
	of           map[string]int64
	counts       checkpoint.VerifyCounts // of rows that differ or stay in flight
	listed       []keyResult
	same         int // how many of listed are equal
}

// keyResult is the result of one key.
type keyResult struct {
	numberedKey
	result string
	reason string // why, without item data; "" if the rows show it
	found  []int  // indices of the table's findings
}

// keysOf compares single items of a table.
type keysOf struct {
	*verify.Comparison
	o       *Operator
	t       *table
	parking *sink.Parking
	shown   time.Duration // when progress was last shown
}

// compareKeys compares the items with the given keys. It writes nothing to the ledger: the result is
// not the result of a verify.
func (o *Operator) compareKeys(ctx context.Context) error {
	if o.Table == "" && (len(o.Cfg.Tables) != 1 || o.Cfg.HasPatterns()) {
		return diag.BadUsage("keys belong to one table, and the configuration has several", "name the table with --table")
	}
	if err := o.checkReport(); err != nil {
		return err
	}
	if err := o.open(ctx, o.command()); err != nil {
		return err
	}
	defer o.migration.Close()
	t := &o.tables[0]
	what := "cannot verify keys of table " + t.config.From
	if err := t.ready(); err != nil {
		return explain(ctx, what, err)
	}
	schema := o.migration.Tables[0].Description.PrimaryKey
	if err := o.checkKeys(schema); err != nil {
		return err
	}
	k := &keysOf{Comparison: o.rowByRow(ctx, t), o: o, t: t, parking: sink.NewParking(o.migration.To.Records(o.Cfg.State.Table), o.Cfg.Name), shown: task.Mono(ctx)}
	k.Bounds = verify.Bounds{Findings: 1 << 30, Candidates: 1 << 30} // a batch of keys bounds them
	t.keyed = &keyed{of: map[string]int64{}, begun: o.now(ctx)}
	left := k.all(ctx, schema)
	t.keyed.ended, t.keyed.complete = o.now(ctx), left == nil
	if left != nil { // the results so far are shown first
		var usage *diag.Error
		if left = explain(ctx, what, left); t.keyed.keys == 0 || diag.ExitCode(left) == diag.ExitInterrupted || errors.As(left, &usage) && usage.Code == diag.Usage {
			return left
		}
	} else if err := o.shownValues(ctx, t); err != nil {
		return err
	}
	return o.conclude(ctx, left, func() error { return o.keysVerdict(t) })
}

// rowByRow returns a comparison for single rows of a table, with the configured limits of reads.
func (o *Operator) rowByRow(ctx context.Context, t *table) *verify.Comparison {
	c := verifies.OfRows(ctx, verifies.Options{
		Ledger: o.ledger, Database: o.ends.source, Rows: o.ends.target, Open: o.ends.stream, Patience: o.patience(),
		Table: engine.Spec{Mapping: t.mapping, MappingHash: o.Cfg.Hash(t.config), Settle: o.Cfg.Verify.Settle, Late: o.Cfg.Late(t.config), Owned: t.config.Owned},
	}, t.state)
	limits := o.readLimits(t)
	c.Retry = o.retries(t)
	c.Pace = func(ctx context.Context, items int, units float64, rows int) error {
		_, _, err := limits.Take(ctx, ctx, max(items, rows), units)
		return err
	}
	return c
}

// all compares all keys, in batches.
func (k *keysOf) all(ctx context.Context, schema []transform.KeyAttribute) error {
	var batch []numberedKey
	err := k.o.readKeys(schema, func(key numberedKey) error {
		if batch = append(batch, key); len(batch) < keysAtOnce {
			return nil
		}
		err := k.traced(ctx, batch)
		batch = nil
		return err
	})
	if err == nil && len(batch) > 0 {
		err = k.traced(ctx, batch)
	}
	return err
}

// traced compares some keys in a span.
func (k *keysOf) traced(ctx context.Context, batch []numberedKey) error {
	return engine.Traced(ctx, k.o.tracer, engine.SpanVerifyKeys, k.t.config.From, func(ctx context.Context) (engine.SpanFacts, error) {
		before := k.t.keyed.rows
		err := k.batch(ctx, batch)
		return engine.SpanFacts{Items: int64(len(batch)), Rows: int(k.t.keyed.rows - before)}, err
	})
}

// located is an item with all rows that may hold it.
type located struct {
	keys   attribute.Item
	places []verify.Place
	absent bool
	// unmapped is why the item cannot be stored; ignored reports that its rule does not copy it.
	unmapped string
	ignored  bool
}

// batch compares some keys. A key that is given twice is compared once.
func (k *keysOf) batch(ctx context.Context, batch []numberedKey) error {
	index := map[string]int{}
	var items []located
	for _, key := range batch {
		name := k.Mapping.ItemKey(key.keys)
		if _, known := index[name]; !known {
			index[name] = len(items)
			items = append(items, located{keys: key.keys})
		}
	}
	g := task.NewGroup(ctx, placesAtOnce)
	for i := range items {
		g.Go(fmt.Sprintf("find the rows of item %d", i), func(ctx context.Context) error { return k.locate(ctx, &items[i]) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if err := k.Pace(ctx, len(items), float64(len(items)), 0); err != nil {
		return err
	}
	var places []verify.Place
	for _, item := range items {
		places = append(places, item.places...)
	}
	places = merge(places)
	checked, err := k.Check(ctx, ctx, places...)
	if err != nil {
		return err
	}
	k.t.keyed.rows += int64(len(places))
	results := newKeyResults(k.Mapping, checked)
	judged := make([]keyResult, len(items))
	for i := range items {
		judged[i] = k.keep(results.of(&items[i]))
	}
	for _, key := range batch {
		r := judged[index[k.Mapping.ItemKey(key.keys)]]
		r.numberedKey = key
		k.t.keyed.add(r)
	}
	if now := task.Mono(ctx); now-k.shown >= reportEvery {
		k.shown = now
		_, _ = fmt.Fprintf(k.o.Stderr, "%s  %s, %d differ\n", k.t.config.From, terminal.Plural(int(k.t.keyed.keys), "key"), k.t.keyed.of[keyDiffers])
	}
	return nil
}

// locate finds the rows to which an item and its parked changes map. Without an image, the key must
// show the row.
func (k *keysOf) locate(ctx context.Context, item *located) error {
	var images []attribute.Item
	err := k.Retry(ctx, func(ctx context.Context) error {
		images = nil
		err := k.parking.OfItem(ctx, k.Mapping.Source, k.Mapping.ItemKey(item.keys), func(_ sink.Ref, record transform.Parked) error {
			images = append(images, record.Change.Old, record.Change.New)
			return nil
		})
		if err != nil {
			return err
		}
		image, present, err := k.Source.Get(ctx, k.Mapping.Source, item.keys)
		if item.absent = !present; present {
			images = append(images, image)
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, row := range sink.Removals(k.Mapping, item.keys, images) {
		item.places = append(item.places, verify.Place{Table: row.Table, Row: row.Row, Keys: []attribute.Item{item.keys}})
	}
	if item.absent {
		return nil
	}
	placed, err := k.Mapping.Map(images[len(images)-1], k.Now(ctx))
	if item.ignored = placed.Ignored; err != nil {
		item.unmapped = err.Error()
	}
	return nil
}

// keyResults has the outcome of a comparison by row.
type keyResults struct {
	m     *transform.Mapping
	found map[[2]string][]verify.Finding
	equal map[[2]string]bool
}

func newKeyResults(m *transform.Mapping, c verify.Checked) *keyResults {
	r := &keyResults{m: m, found: map[[2]string][]verify.Finding{}, equal: map[[2]string]bool{}}
	for _, f := range slices.Concat(c.Findings, c.Pending) {
		at := [2]string{f.Table, f.Row}
		r.found[at] = append(r.found[at], f)
	}
	for _, p := range c.Equal {
		r.equal[[2]string{p.Table, p.Row}] = true
	}
	return r
}

// of returns the result of an item, with its findings. In a row that several items share, differences
// of other items do not count.
func (r *keyResults) of(item *located) (result, reason string, found []verify.Finding) {
	result = keySame
	for _, p := range item.places {
		at := [2]string{p.Table, p.Row}
		if len(r.found[at]) == 0 && !r.equal[at] {
			result, reason = keyInFlight, "the row changed at every check"
		}
		for _, f := range r.found[at] {
			if !f.Keys.Exists() || r.m.ItemKey(f.Keys) == r.m.ItemKey(item.keys) {
				found = append(found, f)
			}
		}
	}
	differs := func(f verify.Finding) bool { return f.Kind != verify.InFlight }
	switch {
	case item.unmapped != "":
		return keyParked, item.unmapped, found
	case slices.ContainsFunc(found, differs):
		return keyDiffers, "", found
	case len(found) > 0 || result == keyInFlight:
		return keyInFlight, reason, found
	case item.absent && len(item.places) == 0:
		return keyUnlocated, "", nil
	case item.ignored:
		return keyFiltered, "", nil
	case item.absent: // so that a mistyped key is noticed
		return keySame, "neither side has the item", nil
	}
	return keySame, "", nil
}

// keep keeps the findings of an item for the list and the repair, if there is room.
func (k *keysOf) keep(result, reason string, found []verify.Finding) keyResult {
	r := keyResult{result: result, reason: reason}
	counts := &k.t.keyed.counts
	for _, f := range found {
		verify.Count(counts, f.Kind)
		if len(k.t.list) >= mostKept {
			counts.LeftOut++
			continue
		}
		r.found = append(r.found, len(k.t.list))
		k.t.list = append(k.t.list, f)
	}
	return r
}

// add counts the result of a key, and lists it if there is room.
func (k *keyed) add(r keyResult) {
	k.keys++
	k.of[r.result]++
	if r.result == keySame {
		if k.same++; k.same > mostSame {
			return
		}
	}
	if len(k.listed) < mostListed {
		k.listed = append(k.listed, r)
	}
}
