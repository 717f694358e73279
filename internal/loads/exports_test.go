package loads

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// older makes Orders followed since some time before noon, in a generation that a gap began.
func (s *scene) older(ctx context.Context, adopted time.Duration) {
	s.Helper()
	s.lose(ctx)
	s.update(ctx, func(t *checkpoint.TableState) {
		t.Adopted, t.AdoptedAt, t.Listed = t.Generation, noon.Add(-adopted), 7
	})
}

const at = "s3://bucket/AWSDynamoDB/"

// An export that fits the table and the stream is loaded. The ledger has its address, and the
// decision its content.
func TestAnExportIsLoaded(t *testing.T) {
	play(t, "{}", func(ctx context.Context, s *scene) {
		s.begin(ctx)
		s.older(ctx, 48*time.Hour)
		o := s.operator("Orders")
		o.source.exports[at+"full"] = full(noon.Add(-2 * time.Hour))
		o.source.exports[at+"w1"] = window(noon.Add(-2*time.Hour), noon.Add(-time.Hour))
		start := Request{Action: ActionStart, From: []string{at + "full", at + "w1"}}
		o.DryRun = true
		s.check(o.Steer(ctx, start))
		if s.state(ctx).Stage() == checkpoint.StageAsked || o.document(t).Decided[0].Estimate != nil {
			t.Error("a dry run asks for a load, or estimates a scan")
		}
		o.out.Reset()
		o.DryRun = false
		s.check(o.Steer(ctx, start))
		d := o.document(t)
		if why := d.Decided[0].Why; !strings.HasSuffix(why, ", from the export of 2026-11-24T10:00:00Z and 1 window up to 2026-11-24T11:00:00Z: 5 items in 2 files") {
			t.Error(why)
		}
		if got := s.state(ctx).Load.Exports(); len(got) != 2 || got[0].Address != at+"full" || !got[1].From.Equal(noon.Add(-2*time.Hour)) {
			t.Errorf("%+v", got)
		}
		o.out.Reset()
		s.check(o.Steer(ctx, start))
		if d := o.document(t).Decided[0]; d.Action != actionNone {
			t.Errorf("the same again: %+v", d)
		}
		o.out.Reset()
		s.check(o.Steer(ctx, Request{Action: ActionStart}))
		if d := o.document(t).Decided[0]; d.Action != ActionStart || len(s.state(ctx).Load.Exports()) != 0 {
			t.Errorf("a scan in its place: %+v", d)
		}
	})
}

// Exports that no worker could load are refused before anything is requested, each with its fix.
func TestExportsAreRefused(t *testing.T) {
	day := 24 * time.Hour
	for name, c := range map[string]struct {
		adopted time.Duration // before noon
		offered map[string]archived
		request Request
		report  backfill.ExportReport
		text    string
		fix     string
	}{
		"there is none": {day, nil, Request{From: []string{at + "full"}}, backfill.ExportReport{JSON: true}, "there is none", "name another"},
		"no place":      {day, nil, Request{From: []string{"ftp://x"}}, backfill.ExportReport{JSON: true}, "cannot load the export ftp://x", ""},
		"of before the generation": {day, map[string]archived{at + "full": full(noon.Add(-2 * day))}, Request{From: []string{at + "full"}}, backfill.ExportReport{JSON: true},
			"is too old for this generation, which began at 2026-11-23T12:00:00Z", "request a current export: aws dynamodb export-table-to-point-in-time --table-arn " + ordersARN + " --s3-bucket BUCKET"},
		"before a window": {day, map[string]archived{at + "full": full(noon.Add(-3 * day)), at + "w": window(noon.Add(-3*day), noon.Add(-2*day))},
			Request{From: []string{at + "full", at + "w"}}, backfill.ExportReport{JSON: true}, "is too old for this generation", "request 2 incremental exports that follow one another from 2026-11-22T12:00:00Z to 2026-11-24T12:00:00Z, of 15 minutes to 24 hours each, and name them too; the first: aws"},
		"too old": {7 * day, map[string]archived{at + "full": full(noon.Add(-6*day - time.Second))}, Request{From: []string{at + "full"}}, backfill.ExportReport{JSON: true},
			"it may be at most 144h0m0s old", "request a current export"},
		"in part": {day, map[string]archived{at + "full": full(noon.Add(-time.Hour))}, Request{From: []string{at + "full"}}, backfill.ExportReport{JSON: true, Part: "a filter"},
			"the export has a filter", "export the whole table"},
		"windows alone": {day, map[string]archived{at + "w": window(noon.Add(-2*time.Hour), noon)}, Request{From: []string{at + "w"}}, backfill.ExportReport{JSON: true},
			"no full export comes before it", "to repair a gap with incremental exports alone, add --repair-gap"},
		"many": {day, nil, Request{From: make([]string, checkpoint.MaxExports+1)}, backfill.ExportReport{JSON: true}, "exports are named", "request a newer full export"},
	} {
		play(t, "{}", func(ctx context.Context, s *scene) {
			s.begin(ctx)
			s.older(ctx, c.adopted)
			o := s.operator("Orders")
			o.source.exports, o.source.report = c.offered, c.report
			c.request.Action = ActionStart
			err := o.Steer(ctx, c.request)
			var told *diag.Error
			if !errors.As(err, &told) || !strings.Contains(err.Error(), c.text) || !strings.Contains(told.Fix, c.fix) || s.state(ctx).Stage() == checkpoint.StageAsked {
				t.Errorf("%s: %v\n%+v", name, err, told)
			}
		})
	}
	play(t, "{}", func(ctx context.Context, s *scene) { // just recent enough
		s.begin(ctx)
		s.older(ctx, 7*day)
		o := s.operator("Orders")
		o.source.exports[at+"full"] = full(noon.Add(-6*day + time.Second))
		s.check(o.Steer(ctx, Request{Action: ActionStart, From: []string{at + "full"}}))
	})
}

// Windows alone repair a gap that begins after them, if point-in-time recovery was on.
func TestWindowsMendAGap(t *testing.T) {
	for name, c := range map[string]struct {
		from     time.Duration // of the first window, before noon
		base     uint32
		recovery backfill.Recovery
		text     string
		fix      string
	}{
		"in time":          {30 * time.Hour, 7, backfill.Recovery{On: true, From: noon.Add(-72 * time.Hour)}, "", ""},
		"too late":         {20 * time.Hour, 7, backfill.Recovery{On: true, From: noon.Add(-72 * time.Hour)}, "changes may be lost since 2026-11-23T10:59:54Z", "request an incremental export from 2026-11-23T10:59:54Z to 2026-11-23T16:00:00Z, and name it too; or copy"},
		"backups are off":  {30 * time.Hour, 7, backfill.Recovery{From: noon.Add(-72 * time.Hour)}, "point-in-time recovery of the table is off", "copy everything instead of windows"},
		"backups were off": {30 * time.Hour, 7, backfill.Recovery{On: true, From: noon.Add(-29 * time.Hour)}, "holds nothing from before", "copy everything instead of windows"},
		"never loaded":     {30 * time.Hour, 0, backfill.Recovery{On: true, From: noon.Add(-72 * time.Hour)}, "never loaded as a whole", "copy everything instead of windows"},
	} {
		play(t, "{}", func(ctx context.Context, s *scene) {
			s.begin(ctx)
			s.update(ctx, func(t *checkpoint.TableState) { t.Base = c.base })
			s.older(ctx, time.Hour)
			o := s.operator("Orders")
			o.source.recovery = c.recovery
			o.source.exports[at+"w"] = window(noon.Add(-c.from), noon)
			err := o.Steer(ctx, Request{Action: ActionStart, Repair: true, From: []string{at + "w"}})
			if c.text == "" {
				if err != nil || !strings.Contains(o.document(t).Decided[0].Why, "1 window of changes from 2026-11-23T06:00:00Z to 2026-11-24T12:00:00Z: 2 items in 1 file") {
					t.Errorf("%s: %v, %s", name, err, &o.out)
				}
				return
			}
			var told *diag.Error
			if !errors.As(err, &told) || told.Code != diag.LoadRefused || !strings.Contains(told.Cause, c.text) || !strings.HasPrefix(told.Fix, c.fix) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// An export is requested if the service can make one. Its cost is shown. An earlier request is not
// repeated, unless it has another destination or will produce no export.
func TestAnExportIsAskedFor(t *testing.T) {
	play(t, "{}", func(ctx context.Context, s *scene) {
		s.begin(ctx)
		s.lose(ctx)
		steer := func(to string, change func(o *desked)) (Decided, error) {
			t.Helper()
			o := s.operator("Orders")
			change(o)
			if err := o.Steer(ctx, Request{Action: ActionStart, From: []string{to}, Wish: true}); err != nil {
				return Decided{}, err
			}
			return o.document(t).Decided[0], nil
		}
		same := func(*desked) {}
		if _, err := steer("gs://bucket", same); !diag.Has(err, diag.Usage) {
			t.Error(err)
		}
		_, err := steer("s3://bucket", func(o *desked) { o.source.recovery.On = false })
		if !diag.Has(err, diag.LoadRefused) || !strings.Contains(err.Error(), "point-in-time recovery is off") || s.state(ctx).Load.Request.Wanted() {
			t.Error(err)
		}
		d, err := steer("s3://bucket/p/", same)
		if r := s.state(ctx).Load.Request; err != nil || d.Action != ActionStart || !strings.Contains(d.Why, "from an export to s3://bucket/p of about 64 MiB") ||
			r.To != "s3://bucket/p" || !r.NotBefore.Equal(noon.Add(-72*time.Hour)) {
			t.Errorf("%v: %+v, %+v", err, d, r)
		}
		if d, err := steer("s3://bucket/p", same); err != nil || d.Action != actionNone {
			t.Errorf("the same again: %v, %+v", err, d)
		}
		if d, err := steer("s3://other", same); err != nil || d.Action != ActionStart {
			t.Errorf("elsewhere: %v, %+v", err, d)
		}
		s.update(ctx, func(t *checkpoint.TableState) { t.Load.Request.Failed = "denied" })
		if d, err := steer("s3://other", same); err != nil || d.Action != ActionStart || s.state(ctx).Load.Request.Failed != "" {
			t.Errorf("after a failure: %v, %+v", err, d)
		}
		o := s.operator("Orders")
		if s.check(o.Steer(ctx, Request{Action: ActionStart})); o.document(t).Decided[0].Action != ActionStart || s.state(ctx).Load.Request.Wanted() {
			t.Errorf("a scan in its place: %s", &o.out)
		}
	})
}

// For the export in the configuration, the answer distinguishes problems that waiting fixes from
// those that an operator must fix.
func TestTheNamedExportIsJudged(t *testing.T) {
	play(t, `{from: "`+at+`{table}"}`, func(ctx context.Context, s *scene) {
		s.begin(ctx)
		source := s.operator("Orders").source
		x := OfConfiguration(s.cfg, source, func(string) (string, bool) { return "", false })
		orders, _ := s.cfg.Table("Orders")
		judge := func(shown time.Time, change func(*checkpoint.TableState)) error {
			source.exports[at+"Orders"] = full(shown)
			state := s.state(ctx)
			change(&state)
			e, err := x.Judge(ctx, orders, state, nil)
			if err == nil && !e.At.Equal(shown) {
				t.Errorf("%+v", e)
			}
			return err
		}
		same := func(*checkpoint.TableState) {}
		if err := judge(noon.Add(-time.Hour), same); err != nil {
			t.Error(err)
		}
		var hole *checkpoint.NotAdmissible
		if err := judge(noon.Add(-time.Hour), func(s *checkpoint.TableState) { s.Listed = 0 }); !errors.As(err, &hole) || !hole.Yet || Refusal(err) != "" {
			t.Errorf("not listed yet: %v", err)
		}
		if err := judge(noon.Add(time.Hour), same); errors.As(err, &hole) && hole.Yet || Refusal(err) == "" {
			t.Errorf("of the future: %v", err)
		}
		if n, d, err := x.Read(ctx, orders); err != nil || n.Items != 3 || n.Bytes != 30 || n.Parts != 1 || d.ID != "id" {
			t.Errorf("%+v, %v", n, err)
		}
	})
}

// Sources that cannot be combined are refused before anything is read. An empty name does not mean
// a scan.
func TestSourcesThatDoNotGoTogether(t *testing.T) {
	one, two := []string{at + "full"}, []string{at + "full", at + "w"}
	for text, c := range map[string]struct {
		table   string
		request Request
	}{
		"no table is given":                    {"", Request{From: one}},
		"--export names no export":             {"Orders", Request{From: []string{""}}},
		"--request-export needs one table":     {"Orders", Request{Wish: true}},
		"--whole-export needs an existing":     {"Orders", Request{Whole: true}},
		"takes one --export, but several":      {"Orders", Request{From: two, Wish: true}},
		"DynamoDB exports to S3, but \"gs://b": {"Orders", Request{From: []string{"gs://b"}, Wish: true}},
		"":                                     {"Orders", Request{From: two, Whole: true}},
	} {
		if err := c.request.Check(c.table); text == "" && err != nil || text != "" && (!diag.Has(err, diag.Usage) || !strings.Contains(err.Error(), text)) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
