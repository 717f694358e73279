package loads

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/cost"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Each way that is not possible says why, and the cheapest of the others is taken. Prices that
// differ by less than a hundredth count as equal.
func TestTheCheapestWay(t *testing.T) {
	why := "no"
	way := func(by string, total float64) Way { return Way{By: by, Total: total} }
	never := func(by string) Way { return Way{By: by, Impossible: &why} }
	for name, c := range map[string]struct {
		ways []Way
		by   string
		want int
	}{
		"windows":            {[]Way{way(byWindows, 1), way(byExport, 2), way(byScan, 3)}, "", 0},
		"export":             {[]Way{way(byWindows, 2), way(byExport, 1), way(byScan, 3)}, "", 1},
		"scan":               {[]Way{way(byWindows, 2), way(byExport, 1), way(byScan, 0.98)}, "", 2},
		"equal":              {[]Way{way(byWindows, 0.004), way(byExport, 0.001), way(byScan, 0)}, "", 0},
		"no windows":         {[]Way{never(byWindows), way(byExport, 1), way(byScan, 1)}, "", 1},
		"only a scan":        {[]Way{never(byWindows), never(byExport), way(byScan, 9)}, "", 2},
		"given":              {[]Way{way(byWindows, 1), way(byExport, 2), way(byScan, 3)}, byScan, 2},
		"given, but refused": {[]Way{never(byWindows), way(byExport, 2), way(byScan, 3)}, byWindows, -1},
	} {
		got, refusal := cheapest(c.ways, c.by)
		if got != c.want || (refusal != "") != (c.want < 0) || refusal != "" && !strings.Contains(refusal, "by windows is not possible: no") {
			t.Errorf("%s: %d %q, want %d", name, got, refusal, c.want)
		}
	}
}

// The ways say what they need: recovery since before the loss, a bucket, the permission, workers of
// this version.
func TestWaysThatAreNotPossible(t *testing.T) {
	lostAt := noon.Add(-25 * time.Hour)
	for name, c := range map[string]struct {
		edit            func(d *damage)
		windows, export string // why not; "" if possible
		exports         int
	}{
		"all are possible":      {func(*damage) {}, "", "", 2},
		"no bucket":             {func(d *damage) { d.to = "" }, "backfill.exports_to", "backfill.exports_to", 0},
		"recovery is off":       {func(d *damage) { d.recovery.On = false }, "aws dynamodb update-continuous-backups --table-name Orders", "is off", 0},
		"denied":                {func(d *damage) { d.denied = errors.New("denied") }, "dynamodb:DescribeContinuousBackups", "permission", 0},
		"recovery began at the": {func(d *damage) { d.recovery.From = d.state.WindowsBy() }, "", "", 2},
		"recovery began later":  {func(d *damage) { d.recovery.From = d.state.WindowsBy().Add(time.Second) }, "holds nothing from before", "", 0},
		"older than 35 days": {func(d *damage) {
			d.state.LostFrom, d.recovery.From = noon.AddDate(0, 0, -36), noon.AddDate(0, 0, -35)
		}, "its data is too old", "", 0},
		"35 days":         {func(d *damage) { d.state.LostFrom, d.recovery.From = noon.AddDate(0, 0, -35), noon.AddDate(0, 0, -36) }, "", "", 35},
		"never loaded":    {func(d *damage) { d.state.Base = 0 }, "never loaded", "", 0},
		"the target lost": {func(d *damage) { d.state.Kind = checkpoint.KindTargetLost }, "target_lost", "", 0},
		"an older worker": {func(d *damage) {
			d.shards = append(d.shards, checkpoint.Shard{Owner: "w", Heartbeat: checkpoint.Heartbeat{Holder: checkpoint.About{Version: "0.9"}, Reads: 6}})
		}, "older version", "", 0},
		"an old generation": {func(d *damage) {
			d.state.AdoptedAt, d.state.LostFrom, d.recovery.From = noon.AddDate(0, 0, -8), noon.AddDate(0, 0, -9), noon.AddDate(0, 0, -12)
		}, "the first window is", "", 0},
	} {
		play(t, "{}", func(context.Context, *scene) {
			d := damage{state: checkpoint.TableState{Source: "Orders", Base: 7, NeedsLoad: true, Kind: checkpoint.KindStream, LostFrom: lostAt, AdoptedAt: noon.Add(-time.Hour)},
				of: backfill.Description{At: noon, Items: 1000, Bytes: 1 << 20}, table: cost.Table{Items: 1000, Bytes: 1 << 20}, mapping: &transform.Mapping{}, to: "s3://b", oldest: 6 * 24 * time.Hour,
				recovery: backfill.Recovery{On: true, From: noon.Add(-72 * time.Hour)}}
			c.edit(&d)
			ways := d.ways(cost.Default())
			for i, want := range []string{c.windows, c.export, ""} {
				if got := ways[i].Impossible; (got != nil) != (want != "") || got != nil && !strings.Contains(*got, want) {
					t.Errorf("%s: %s: %v, want %q", name, ways[i].By, ways[i].text("USD"), want)
				}
			}
			if ways[0].Exports != c.exports {
				t.Errorf("%s: %d exports, want %d", name, ways[0].Exports, c.exports)
			}
		})
	}
}

// repaired runs backfill repair for Orders.
func (s *scene) repaired(ctx context.Context, o *desked, how Repair) Document {
	s.Helper()
	if err := o.Repair(ctx, how); err != nil {
		s.Fatal(err)
	}
	return o.document(s.T)
}

// The command requests what it has shown. It changes nothing in a dry run, without an answer, or
// where nothing was lost, and does not replace a request that is waited for.
func TestARepair(t *testing.T) {
	play(t, "{exports_to: s3://exports/x}", func(ctx context.Context, s *scene) {
		s.begin(ctx)
		if d := s.repaired(ctx, s.operator("Orders"), Repair{}); d.Decided[0].Action != actionNone || d.Decided[0].Ways != nil {
			t.Errorf("nothing was lost: %+v", d.Decided)
		}
		s.update(ctx, func(t *checkpoint.TableState) { t.Base = 7 })
		s.lose(ctx)
		s.update(ctx, func(t *checkpoint.TableState) { t.Adopted, t.AdoptedAt = t.Generation, noon })
		o := s.operator("Orders")
		o.DryRun = true
		if d := s.repaired(ctx, o, Repair{By: byWindows}); len(d.Decided[0].Ways) != 3 || !d.Decided[0].Ways[0].Chosen || s.state(ctx).Load.Request.Wanted() || len(o.asked) > 0 {
			t.Errorf("a dry run: %+v", d.Decided)
		}
		o = s.operator("Orders")
		o.Confirm = func(context.Context, string) error { return errors.New("not confirmed") }
		if err := o.Repair(ctx, Repair{}); err == nil || s.state(ctx).Load.Request.Wanted() || !strings.Contains(o.stderr.String(), "scan") {
			t.Errorf("not confirmed: %v, %s", err, &o.stderr)
		}
		o = s.operator("Orders")
		o.Confirm = nil
		if err := o.Repair(ctx, Repair{}); err == nil || !strings.Contains(err.Error(), "no terminal") {
			t.Errorf("no terminal: %v", err)
		}
		o = s.operator("Orders")
		s.repaired(ctx, o, Repair{By: byWindows})
		if r := s.state(ctx).Load.Request; !r.Incremental || r.To != "s3://exports/x" || len(o.asked) != 1 || !strings.Contains(o.asked[0], "by windows, for about") {
			t.Errorf("asked %q, %+v", o.asked, r)
		}
		if d := s.repaired(ctx, s.operator("Orders"), Repair{By: byScan}); d.Decided[0].Action != actionNone || !s.state(ctx).Load.Request.Incremental {
			t.Errorf("it is requested already: %+v", d.Decided)
		}
		s.update(ctx, func(t *checkpoint.TableState) { t.Load.Request.Failed = "no" })
		if step, ok := Next(s.state(ctx), false, ""); !ok || step.Command != "replicator backfill repair Orders --export s3://exports/x" {
			t.Errorf("after a failure: %+v", step)
		}
		s.repaired(ctx, s.operator("Orders"), Repair{By: byExport, To: "s3://other"})
		if r := s.state(ctx).Load.Request; r.Incremental || r.To != "s3://other" {
			t.Errorf("an export: %+v", r)
		}
	})
}

// While an operator looks at the prices, another one requests a load, or its exports are requested from
// DynamoDB. The first operator's answer does not replace that.
func TestTwoRepairsAtOnce(t *testing.T) {
	for _, by := range wayNames {
		play(t, "{exports_to: s3://exports/x}", func(ctx context.Context, s *scene) {
			s.begin(ctx)
			s.update(ctx, func(t *checkpoint.TableState) { t.Base = 7 })
			s.lose(ctx)
			s.update(ctx, func(t *checkpoint.TableState) { t.Adopted, t.AdoptedAt = t.Generation, noon })
			running := checkpoint.WindowRequest{From: noon, To: noon.Add(time.Hour), AskedAt: noon, ARN: "paid"}
			o := s.operator("Orders")
			o.Confirm = func(context.Context, string) error {
				s.repaired(ctx, s.operator("Orders"), Repair{By: byWindows})
				s.update(ctx, func(t *checkpoint.TableState) { t.Load.Request.Windows = []checkpoint.WindowRequest{running} })
				return nil
			}
			err := o.Repair(ctx, Repair{By: by})
			if !diag.Has(err, diag.LoadRefused) || !strings.Contains(err.Error(), "has changed meanwhile: a load is already requested") && !strings.Contains(err.Error(), "it replaces the load") {
				t.Errorf("%s: %v", by, err)
			}
			if r := s.state(ctx).Load.Request; !r.Incremental || len(r.Windows) != 1 || r.Windows[0].ARN != "paid" {
				t.Errorf("%s: %+v", by, r)
			}
		})
	}
}

// Without the permission to read the state of recovery, a scan is still possible. Other failures end
// the command.
func TestARepairWithoutAPermission(t *testing.T) {
	for reason, want := range map[cdc.Reason]bool{cdc.Denied: true, cdc.Unavailable: false} {
		play(t, "{exports_to: s3://exports}", func(ctx context.Context, s *scene) {
			s.begin(ctx)
			s.lose(ctx)
			o := s.operator("Orders")
			o.source.unrecovered = &cdc.Error{Op: "DescribeContinuousBackups", Reason: reason, Err: errors.New("no")}
			err := o.Repair(ctx, Repair{})
			if (err == nil) != want || want != (s.state(ctx).Stage() == checkpoint.StageAsked) || want && s.state(ctx).Load.Request.Wanted() {
				t.Errorf("%v: %v", reason, err)
			}
		})
	}
}

// Each export of a load has a line: its time, its state, and how many of its files are copied.
func TestStatesOfExports(t *testing.T) {
	from := noon.Add(-4 * time.Hour)
	asked := checkpoint.ExportRequest{To: "s3://b", Incremental: true, Serial: 1, Windows: []checkpoint.WindowRequest{
		{From: from, To: from.Add(time.Hour), Export: checkpoint.Export{Address: "s3://b/1", ARN: "a", From: from, At: from.Add(time.Hour), Files: 3}}, {From: from, To: noon, ARN: "b"},
		{From: from, To: noon, AskedAt: noon}, {From: from, To: noon}, {From: from, To: noon, Failed: "no bucket"}}}
	two := checkpoint.Load{Parts: 3, Export: checkpoint.Export{Address: "s3://b/1", From: from, At: noon, Files: 3}, Windows: []checkpoint.Export{{Address: "s3://b/2", From: noon, At: noon.Add(time.Hour), Files: 2}}}
	done := func(indices ...int) (parts []checkpoint.Part) {
		for _, i := range indices {
			parts = append(parts, checkpoint.Part{Index: i, Total: 3, State: checkpoint.PartDone})
		}
		return append(parts, checkpoint.Part{Index: 2, Total: 3})
	}
	older := two
	older.Export.Files = 0
	over := two
	over.DoneAt = noon
	for name, c := range map[string]struct {
		load  checkpoint.Load
		parts []checkpoint.Part
		want  string
	}{
		"a scan":          {checkpoint.Load{}, nil, ""},
		"requested":       {checkpoint.Load{Request: asked}, nil, "completed|in progress|requested|planned|failed: no bucket"},
		"nothing is read": {two, nil, "completed, 0 of 3 files read|completed, 0 of 2 files read"},
		"a part of two":   {two, done(0), "completed, 2 of 3 files read|completed, 0 of 2 files read"},
		"a last part":     {two, done(1), "completed, 1 of 3 files read|completed, 0 of 2 files read"},
		"another export":  {two, append(done(0, 1), checkpoint.Part{Index: 2, State: checkpoint.PartDone}), "completed, 3 of 3 files read|completed, 2 of 2 files read"},
		"all are read":    {over, nil, "completed, 3 of 3 files read|completed, 2 of 2 files read"},
		"an older record": {older, done(0), "completed|completed"},
		"a full export":   {checkpoint.Load{Request: checkpoint.ExportRequest{To: "s3://b", Serial: 1, At: noon, ARN: "a"}}, nil, "in progress"},
	} {
		var got []string
		for _, e := range exportStates(c.load, c.parts) {
			_, state, _ := strings.Cut(e.String(), "  ")
			got = append(got, state)
		}
		if strings.Join(got, "|") != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if text := exportText(checkpoint.Load{Request: asked}); text != "1 of 5 windows from 2026-11-24T08:00:00Z to 2026-11-24T12:00:00Z completed, 1 in progress" {
		t.Errorf("%q", text)
	}
}
