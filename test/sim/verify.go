package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"
	verifying "github.com/dynamodb-bigtable/replicator/internal/verify"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
	"github.com/dynamodb-bigtable/replicator/transform"
	"github.com/dynamodb-bigtable/replicator/verify"
)

// From time to time an operator verifies beside the load, and his machine works on the parts as the
// workers do. After the faults he verifies again, with damaged rows. The result is compared with a
// naive comparison (I9).

// shaky is the verifier's view of the target: some reads fail in the middle.
type shaky struct {
	model.Target
	s   *simulation
	rng *rand.Rand
}

func (k shaky) fails(op string) error {
	if k.rng.IntN(8) > 0 {
		return nil
	}
	k.s.World.Inject("read of a verify broken off")
	return model.Fail(op, cdc.Unavailable)
}

// broken makes a read return some of its rows and then fail.
func broken[T any](k shaky, f func(T) error) func(T) error {
	after := -1
	if k.rng.IntN(8) == 0 {
		after = k.rng.IntN(6)
	}
	return func(one T) error {
		if after == 0 {
			k.s.World.Inject("read of a verify broken off")
			return &sink.Error{Op: "ReadRows", Reason: sink.Unknown, Code: "Unavailable"}
		}
		after--
		return f(one)
	}
}

// ReadRows implements sink.Reader.
func (k shaky) ReadRows(ctx context.Context, table string, r sink.Range, f func(sink.Row) error) error {
	return k.Target.ReadRows(ctx, table, r, broken(k, f))
}

// ReadSet implements sink.SetReader.
func (k shaky) ReadSet(ctx context.Context, table string, rows []string, f func(sink.Row) error) error {
	return k.Target.ReadSet(ctx, table, rows, broken(k, f))
}

// ReadMarks implements sink.MarkReader.
func (k shaky) ReadMarks(ctx context.Context, table string, r sink.Range, unmarked bool, limit int, f func(sink.Row) error) error {
	return k.Target.ReadMarks(ctx, table, r, unmarked, limit, broken(k, f))
}

// shakyDatabase does the same for the source.
type shakyDatabase struct {
	database
	shaky
}

// Scan implements backfill.ScanSource. It is slow, so that positions are saved.
func (k shakyDatabase) Scan(ctx context.Context, table string, segment, total int, after attribute.Item, limit int) (backfill.ScanPage, error) {
	if err := k.fails("Scan"); err != nil {
		return backfill.ScanPage{}, err
	}
	if err := task.Sleep(ctx, time.Duration(k.rng.IntN(8))*time.Second); err != nil {
		return backfill.ScanPage{}, err
	}
	return k.database.Scan(ctx, table, segment, total, after, limit)
}

// Get implements backfill.ItemSource.
func (k shakyDatabase) Get(ctx context.Context, table string, keys attribute.Item) (attribute.Item, bool, error) {
	if err := k.fails("GetItem"); err != nil {
		return attribute.Item{}, false, err
	}
	return k.database.Get(ctx, table, keys)
}

// Describe implements pipeline.Database.
func (k shakyDatabase) Describe(ctx context.Context, table string) (backfill.Description, error) {
	return k.database.Describe(ctx, table)
}

// verifies lets an operator verify the table from time to time, until the faults are over.
func (s *simulation) verifies(ctx context.Context) {
	if !s.options.Verifies {
		return
	}
	rng := stream(s.plan.seed, "verifier")
	for task.Sleep(ctx, time.Duration((0.5+5*rng.Float64())*float64(time.Hour))) == nil && !s.peaceful {
		// An abandoned verify is resumed later.
		patience := []time.Duration{20 * time.Minute, 6 * time.Hour}[rng.IntN(2)]
		limited, cancel := task.WithTimeout(ctx, time.Duration((0.1+rng.Float64())*float64(patience)))
		found, result, err := s.verifyOnce(limited, rng)
		cancel()
		if err != nil {
			s.World.Tracef("the verifier gives up: %v", err)
			continue
		}
		s.World.Inject("verify beside the load")
		s.checkFound(found, result)
	}
}

// verifyOnce begins a verify, or resumes an abandoned one, and works on it until it is done.
func (s *simulation) verifyOnce(ctx context.Context, rng *rand.Rand) ([]verify.Finding, checkpoint.VerifyResult, error) {
	none := checkpoint.VerifyResult{}
	s.verifiers++
	ledger, err := checkpoint.Open(ctx, s.Store(), "default", checkpoint.Options{Worker: fmt.Sprintf("verifier%d", s.verifiers), Lease: s.Lease, ReadOnly: true})
	if err != nil {
		return nil, none, err
	}
	state, _, err := ledger.Table(ctx, s.Source.Name)
	switch {
	case err != nil:
		return nil, none, err
	case state.Generation == 0 || state.MappingHash != s.hash || state.Suspended.Reason != "":
		return nil, none, fmt.Errorf("the table is not followed")
	case state.Verify.Running() && rng.IntN(4) == 0:
		s.World.Inject("verify cancelled")
		_, err := ledger.CancelVerify(ctx, s.Source.Name)
		return nil, none, err
	}
	k := shaky{model.Target{Bigtable: s.Target}, s, rng}
	source := shakyDatabase{database{s.Source}, k}
	if !state.Verify.Running() {
		way := []verify.Way{verify.Quiet, verify.Live}[rng.IntN(2)]
		c := &verify.Comparison{Mapping: s.Mapping, Source: database{s.Source}, Target: model.Target{Bigtable: s.Target}}
		if rng.IntN(6) == 0 && !s.peaceful {
			way, c.Scope = verify.Live, []verify.Scope{{Sample: 0.5}, {Since: s.World.Now().Add(-time.Hour)}}[rng.IntN(2)]
		}
		plan, err := c.NewPlan(ctx, way, "", int64(rng.IntN(1<<20)), []byte{byte(rng.IntN(256))})
		if err != nil {
			return nil, none, err
		}
		data, err := json.Marshal(plan)
		if err != nil {
			return nil, none, err
		}
		if err := ledger.RemoveVerify(ctx, s.Source.Name); err != nil {
			return nil, none, err
		}
		state, err = ledger.BeginVerify(ctx, state, checkpoint.VerifyPlan{Plan: data, Phase: 1, Parts: plan.Parts(1, 0), MappingHash: s.hash, BegunAt: s.World.Now()})
		if err != nil {
			return nil, none, err
		}
	}
	number := state.Verify.Number
	s.World.Tracef("verify %d", number)
	err = verifying.Run(ctx, verifying.Options{
		Ledger: ledger, Database: source, Rows: k, Patience: 12 * time.Hour, Timing: s.Timing,
		Table:  engine.Spec{Mapping: s.Mapping, MappingHash: s.hash, Segments: 2, Settle: 30 * time.Second},
		Events: engine.Events{Retry: func(_, step string, _ time.Duration, err error) { s.World.Tracef("%s: %v", step, err) }},
	})
	if err != nil {
		return nil, none, err
	}
	state, _, err = ledger.Table(ctx, s.Source.Name)
	if err != nil || state.Verify.Result.Number != number {
		return nil, none, fmt.Errorf("verify %d has no result: %v", number, err)
	}
	found, err := verify.Findings(ctx, ledger, s.Source.Name, state.Verify.Result)
	return found, state.Verify.Result, err
}

// checkFound: rows that a verify beside the load found to differ still differ, if they have not
// changed.
func (s *simulation) checkFound(found []verify.Finding, result checkpoint.VerifyResult) {
	if n := result.Differing() + result.InFlight - result.LeftOut; int64(len(found)) != n {
		s.fail("I9", "a verify found %d rows, and keeps %d", n, len(found))
	}
	if s.targetLost().After(result.BegunAt) {
		return // nothing is left to compare the findings with
	}
	wrong := s.wrongRows()
	for _, f := range found {
		row := s.Target.Row(f.Table, f.Row)
		if held := heldBy(row, f.Owner); held != string(f.Version) || f.Kind == verify.InFlight || wrong[f.Table+"/"+f.Row] || s.doubtful(f.Table, f.Row) {
			continue
		}
		if f.Keys.Exists() {
			if _, id := s.Source.KeyOf(f.Keys); s.rec.latest[id].At.After(result.BegunAt) {
				continue // its item changed meanwhile
			}
		}
		s.fail("I9", "a verify found row %q %s (%s), which is as it should be", f.Row, f.Kind, f.Reason)
	}
}

// heldBy returns the higher version of an owner in a row.
func heldBy(row *model.Row, owner string) string {
	column := ownColumn(sink.VersionColumn, owner)
	live, _ := row.Value(sink.LiveFamily, column)
	gone, _ := row.Value(sink.GoneFamily, column)
	return max(live, gone)
}

// verifyInPeace verifies with damaged rows, when nothing changes any more. The verify must find
// exactly what a naive comparison finds. If only a few items an hour are read, the test does not
// wait for it.
func (s *simulation) verifyInPeace() {
	state := s.State()
	stage := state.Stage() // a sweep removes damaged rows
	busy := state.NeedsLoad || stage == checkpoint.StageCopying || stage == checkpoint.StageSweeping
	if !s.options.Verifies || s.copyRate > 0 || busy || s.bad() || s.Source.Stream().Ended || state.Generation == 0 || state.Suspended.Reason != "" || state.MappingHash != s.hash {
		return
	}
	rng := stream(s.plan.seed, "verifier in peace")
	var undo []func()
	for range rng.IntN(6) {
		if f := s.hurt(rng); f != nil {
			undo = append(undo, f)
		}
	}
	defer func() {
		slices.Reverse(undo)
		for _, f := range undo {
			f()
		}
	}()
	p, done := s.World.NewProcess("verifier in peace"), s.World.NewEvent()
	var found []verify.Finding
	var result checkpoint.VerifyResult
	var err error
	p.Go("verify", func() {
		defer done.Set()
		for {
			before := s.State().Verify
			if before.Running() {
				ledger, failed := s.Ledger(p.Context())
				if failed == nil {
					_, failed = ledger.CancelVerify(p.Context(), s.Source.Name)
				}
				if err = failed; err != nil {
					return
				}
			}
			if found, result, err = s.verifyOnce(p.Context(), rng); err == nil || p.Context().Err() != nil {
				return
			}
			s.World.Tracef("the verifier tries again: %v", err)
			if task.Sleep(p.Context(), time.Minute) != nil {
				return
			}
		}
	})
	limited, cancel := task.WithTimeout(s.ctx, 24*time.Hour)
	defer cancel()
	if waited := done.Wait(limited); waited != nil || err != nil {
		p.Kill()
		// Otherwise the worker that found the exchanged target has ended, and rows wait for
		// changes.
		followed := slices.ContainsFunc(s.crew, (*member).works)
		if followed && s.State().Generation == state.Generation {
			s.fail("I9", "a verify in peace does not end: %v, %v", waited, err)
		}
		return
	}
	s.World.Inject("verify in peace")
	if result.InFlight > 0 {
		s.fail("I9", "%d rows are in flight in peace", result.InFlight)
	}
	wrong, reported := s.wrongRows(), map[string]bool{}
	for _, f := range found {
		at := f.Table + "/" + f.Row
		reported[at] = true
		s.World.Inject("verify finds: " + string(f.Kind))
		if !wrong[at] && !s.doubtful(f.Table, f.Row) {
			s.fail("I9", "a verify in peace found row %q %s (%s), which is as it should be", f.Row, f.Kind, f.Reason)
		}
	}
	for at := range inOrder(wrong) {
		table, row, _ := strings.Cut(at, "/")
		s.World.Inject("row is wrong in peace")
		if !reported[at] && !s.doubtful(table, row) {
			s.fail("I9", "a verify in peace, the %s way, did not find row %q", result.Way, row)
		}
	}
	s.repairInPeace(found)
}

// hurt damages a row as no request would.
func (s *simulation) hurt(rng *rand.Rand) (undo func()) {
	tables := s.Mapping.Tables()
	table := tables[rng.IntN(len(tables))]
	keys := slices.DeleteFunc(slices.Clone(s.Target.Rows(table)), func(key string) bool { return strings.HasPrefix(key, transform.WitnessPrefix) })
	managed := s.Mapping.Managed(table)
	if len(keys) == 0 || len(managed) == 0 {
		return nil
	}
	key := keys[rng.IntN(len(keys))]
	if s.expiring(table, key, 48*time.Hour) || s.rec.keepsOutlived(rowID{table, key}) {
		return nil // nothing would repair it
	}
	row := s.Target.Row(table, key).Clone()
	drop := func(what func(c model.Column) bool) { row.Cols = slices.DeleteFunc(row.Cols, what) }
	family := managed[rng.IntN(len(managed))]
	switch kind := rng.IntN(5); kind {
	case 0:
		row = nil
	case 1:
		drop(func(c model.Column) bool { return c.Family == family })
	case 2:
		drop(func(c model.Column) bool { return c.Family == sink.LiveFamily })
	case 3:
		for i := range row.Cols {
			if c := &row.Cols[i]; slices.Contains(managed, c.Family) {
				c.Cells[0].Value += "hurt"
				break
			}
		}
	case 4:
		key += "hurt"
		row.Cols = slices.DeleteFunc(row.Cols, func(c model.Column) bool { return c.Family == sink.GoneFamily })
		if len(row.Cols) == 0 {
			return nil
		}
	}
	s.World.Inject("row hurt")
	s.World.Tracef("row %q is hurt", key)
	return s.Target.Hurt(table, key, row)
}

// rowContent is the wanted or actual content of a row.
type rowContent struct {
	owners map[string]bool
	cells  map[[2]string][]string // by family and qualifier, the newest first
}

func newRowContent() *rowContent {
	return &rowContent{map[string]bool{}, map[[2]string][]string{}}
}

// wantedRows returns the rows of all items, by table and key.
func (s *simulation) wantedRows() map[string]*rowContent {
	want := map[string]*rowContent{}
	for _, item := range s.Source.Items() {
		placed, err := s.Mapping.Map(item, s.World.Now())
		if err != nil {
			continue
		}
		for _, r := range placed.Rows {
			at := r.Table + "/" + r.Row
			if want[at] == nil {
				want[at] = newRowContent()
			}
			want[at].owners[r.Owner] = true
			for _, c := range r.Cells {
				column := [2]string{c.Family, c.Qualifier}
				// Lists are ordered from the oldest to the newest.
				want[at].cells[column] = append([]string{string(c.Value)}, want[at].cells[column]...)
			}
		}
	}
	return want
}

// wrongRows returns the rows, by table and key, that differ from the items, found naively.
func (s *simulation) wrongRows() map[string]bool {
	want, wrong := s.wantedRows(), map[string]bool{}
	for _, table := range s.Mapping.Tables() {
		managed := s.Mapping.Managed(table)
		for _, key := range s.Target.Rows(table) {
			if strings.HasPrefix(key, transform.WitnessPrefix) || !strings.HasPrefix(key, s.Mapping.RowPrefix(table)) {
				continue // no item can have it
			}
			at := table + "/" + key
			origin, _ := s.Target.Row(table, key).Value(sink.LiveFamily, sink.OriginColumn)
			if origin != "" && !strings.HasPrefix(origin, s.Source.Name+"/") {
				continue // of another source table
			}
			if !s.contentOf(s.Target.Row(table, key), managed).is(want[at]) {
				wrong[at] = true
			}
			delete(want, at)
		}
	}
	for at := range want {
		wrong[at] = true
	}
	return wrong
}

// contentOf returns a row's content in the managed families.
func (s *simulation) contentOf(row *model.Row, managed []string) *rowContent {
	have := newRowContent()
	for _, c := range row.Cols {
		owner, versions := strings.CutPrefix(c.Qualifier, sink.VersionColumn+":")
		switch {
		case c.Family == sink.LiveFamily && (versions || c.Qualifier == sink.VersionColumn):
			if !versions {
				owner = ""
			}
			gone, _ := row.Value(sink.GoneFamily, c.Qualifier)
			if live, _ := row.Value(sink.LiveFamily, c.Qualifier); gone <= live {
				have.owners[owner] = true
			}
		case slices.Contains(managed, c.Family):
			cells := c.Cells
			if s.Mapping.KeepsVersions() {
				cells = cells[:1]
			}
			for _, cell := range cells {
				at := [2]string{c.Family, c.Qualifier}
				have.cells[at] = append(have.cells[at], cell.Value)
			}
		}
	}
	return have
}

// is reports whether a row holds exactly the wanted content. Older cells are left to garbage
// collection.
func (c *rowContent) is(want *rowContent) bool {
	if want == nil {
		want = newRowContent()
	}
	return len(c.owners) == len(want.owners) && len(c.cells) == len(want.cells) && c.has(want)
}

// has reports whether a row holds the wanted content, possibly with more.
func (c *rowContent) has(want *rowContent) bool {
	for owner := range want.owners {
		if !c.owners[owner] {
			return false
		}
	}
	for at, wanted := range want.cells {
		values := c.cells[at]
		if len(values) < len(wanted) || !slices.Equal(values[:len(wanted)], wanted) {
			return false
		}
	}
	return true
}

// doubtful reports rows that a naive comparison cannot judge: of items whose time to live may be
// over on one side, and that hold more than they should if expired items are kept.
func (s *simulation) doubtful(table, row string) bool {
	if s.expiring(table, row, time.Hour) {
		return true
	}
	want := s.wantedRows()[table+"/"+row]
	if want == nil {
		want = newRowContent()
	}
	held := s.Target.Row(table, row)
	return s.Mapping.Outlives() && (held == nil && len(want.owners) == 0 || held != nil && s.contentOf(held, s.Mapping.Managed(table)).has(want))
}

// expiring reports rows of items that expire within a time.
func (s *simulation) expiring(table, row string, within time.Duration) bool {
	for _, item := range s.Source.Items() {
		if live, _ := s.Mapping.Unexpired([]attribute.Item{item}, s.World.Now().Add(within)); len(live) > 0 {
			continue
		}
		placed, err := s.Mapping.Map(item, s.World.Now())
		if err == nil && slices.ContainsFunc(placed.Rows, func(r transform.RowMutation) bool { return r.Table == table && r.Row == row }) {
			return true
		}
	}
	return false
}
