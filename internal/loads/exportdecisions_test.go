package loads

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/exports"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
)

// refusalOf returns the refusal of a start from exports, or nil if the load is requested.
func (s *scene) refusalOf(ctx context.Context, o *desked, r Request) *diag.Error {
	s.Helper()
	r.Action = ActionStart
	err := o.Steer(ctx, r)
	var told *diag.Error
	if err != nil && !errors.As(err, &told) {
		s.Fatal(err)
	}
	return told
}

// DynamoDB forgets exports, and may deny the call that describes them. An operator must then
// confirm that the export shows the whole table, with a flag or in the configuration.
func TestSomebodySaysThatAnExportIsWhole(t *testing.T) {
	for _, whole := range []bool{false, true} {
		play(t, fmt.Sprintf(`{from: "%s{table}", whole_export: %v}`, at, whole), func(ctx context.Context, s *scene) {
			s.begin(ctx)
			s.older(ctx, 48*time.Hour)
			o := s.operator("Orders")
			o.source.unknown = &backfill.ExportRefusal{Code: "ExportNotFoundException"}
			o.source.exports[at+"Orders"] = full(noon.Add(-time.Hour))
			orders, _ := s.cfg.Table("Orders")
			_, err := OfConfiguration(s.cfg, o.source, o.Env).Judge(ctx, orders, s.state(ctx), nil)
			if (err == nil) != whole || !whole && !strings.Contains(Refusal(err), "whole_export: true") {
				t.Errorf("configured %v: %v", whole, err)
			}
			told := s.refusalOf(ctx, o, Request{From: []string{at + "Orders"}, Whole: whole})
			if (told == nil) != whole || !whole && !strings.Contains(told.Fix, "--whole-export") || len(s.state(ctx).Load.Exports()) > 0 != whole {
				t.Errorf("by the flag %v: %+v", whole, told)
			}
		})
	}
}

// A load has at most as many exports as the ledger can hold.
func TestAsManyExportsAsALoadHas(t *testing.T) {
	play(t, "{}", func(ctx context.Context, s *scene) {
		s.begin(ctx)
		s.older(ctx, 48*time.Hour)
		begin := noon.Add(-2 * time.Hour)
		o := s.operator("Orders")
		o.source.exports[at+"full"] = full(begin)
		r := Request{From: []string{at + "full"}}
		for i := range checkpoint.MaxExports - 1 {
			from := begin.Add(time.Duration(i) * time.Minute)
			name := fmt.Sprint(at, "w", i)
			o.source.exports[name] = window(from, from.Add(time.Minute))
			r.From = append(r.From, name)
		}
		if told := s.refusalOf(ctx, o, r); told != nil || len(s.state(ctx).Load.Exports()) != checkpoint.MaxExports {
			t.Errorf("%+v", told)
		}
		r.From = append(r.From, at+"more")
		if told := s.refusalOf(ctx, s.operator("Orders"), r); told == nil || told.Code != diag.Usage {
			t.Errorf("one more: %+v", told)
		}
	})
}

// Every export is requested with the service's name for it, because workers compare that name with
// the export at the address.
func TestTheLedgerHasTheNamesOfExports(t *testing.T) {
	play(t, "{}", func(ctx context.Context, s *scene) {
		s.begin(ctx)
		s.older(ctx, 48*time.Hour)
		o := s.operator("Orders")
		from, to := noon.Add(-2*time.Hour), noon.Add(-time.Hour)
		o.source.exports[at+"full"], o.source.exports[at+"w"] = full(from), window(from, to)
		// In any order.
		if told := s.refusalOf(ctx, o, Request{From: []string{at + "w", at + "full"}}); told != nil {
			t.Fatalf("%+v", told)
		}
		got := s.state(ctx).Load.Exports()
		want := []checkpoint.Export{{Address: at + "full", ARN: ordersARN + "/export/full", At: from, Files: 1}, {Address: at + "w", ARN: ordersARN + "/export/w", From: from, At: to, Files: 1}}
		if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
			t.Errorf("%+v", got)
		}
	})
}

// A repair may also copy a full export. The advice that windows alone need --repair-gap appears
// only for windows without a full export, and not for other mistakes.
func TestWhatMayRepairAGap(t *testing.T) {
	begin := noon.Add(-2 * time.Hour)
	for name, c := range map[string]struct {
		request Request
		refused bool
		advised bool // --repair-gap
	}{
		"a full export":                  {Request{Repair: true, From: []string{at + "full"}}, false, false},
		"a full export and its window":   {Request{Repair: true, From: []string{at + "full", at + "w"}}, false, false},
		"windows alone, for the first":   {Request{From: []string{at + "w"}}, true, true},
		"windows with a hole":            {Request{Repair: true, From: []string{at + "w", at + "far"}}, true, false},
		"a full export after a hole":     {Request{From: []string{at + "full", at + "far"}}, true, false},
		"the same full export and again": {Request{From: []string{at + "full", at + "full"}}, true, false},
	} {
		play(t, "{}", func(ctx context.Context, s *scene) {
			s.begin(ctx)
			s.older(ctx, 48*time.Hour)
			o := s.operator("Orders")
			o.source.exports = map[string]archived{at + "full": full(begin), at + "w": window(begin, begin.Add(time.Minute)), at + "far": window(begin.Add(time.Hour), noon)}
			told := s.refusalOf(ctx, o, c.request)
			if (told != nil) != c.refused || c.refused && strings.Contains(told.Fix, "--repair-gap") != c.advised {
				t.Errorf("%s: %+v", name, told)
			}
		})
	}
}

// Windows for a table that lost nothing, or whose load of this generation is done, are not a gap
// that cannot be repaired. The command answers as for any other load.
func TestWindowsWhereNothingIsToBeMended(t *testing.T) {
	play(t, "{}", func(ctx context.Context, s *scene) {
		s.begin(ctx)
		for _, needed := range []bool{false, true} {
			s.update(ctx, func(t *checkpoint.TableState) {
				t.NeedsLoad, t.Reason, t.Base = needed, "lost", 7
				t.Load = checkpoint.Load{Generation: 7, Number: 1, Parts: 1, DoneAt: noon, SweptAt: noon}
			})
			o := s.operator("Orders")
			o.source.recovery = backfill.Recovery{}
			o.source.exports[at+"w"] = window(noon.Add(-time.Hour), noon)
			err := o.Steer(ctx, Request{Action: ActionStart, Repair: true, From: []string{at + "w"}})
			var said Shown
			if d := o.document(t).Decided[0]; errors.As(err, &said) != needed || (d.Action == actionRefused) != needed || !needed && d.Action != actionNone {
				t.Errorf("needed %v: %v, %+v", needed, err, d)
			}
		}
	})
}

// If waiting is enough, the load is not refused: it is requested, and begins once the stream is
// read. But until the beginning of a generation is known by the service's clock, no existing export
// is admissible.
func TestAnExportIsAskedForBeforeItMayBegin(t *testing.T) {
	for name, c := range map[string]struct {
		edit    func(t *checkpoint.TableState)
		refused bool
	}{
		"not listed yet": {func(t *checkpoint.TableState) { t.Listed = 0 }, false},
		"of a generation whose beginning is not known": {func(t *checkpoint.TableState) { t.AdoptedAt = time.Time{} }, true},
		"the first generation":                         {func(t *checkpoint.TableState) { t.AdoptedAt, t.GapCount, t.Listed = time.Time{}, 0, 0 }, false},
	} {
		play(t, "{}", func(ctx context.Context, s *scene) {
			s.begin(ctx)
			s.older(ctx, 48*time.Hour)
			s.update(ctx, c.edit)
			o := s.operator("Orders")
			o.source.exports[at+"full"] = full(noon.Add(-time.Hour))
			if told := s.refusalOf(ctx, o, Request{From: []string{at + "full"}}); (told != nil) != c.refused {
				t.Errorf("%s: %+v", name, told)
			}
		})
	}
}

// The maximum age of an export is half of the age above which images are parked. The error names
// the first export, which is the oldest: its windows are newer.
func TestTheOldestExportIsNamed(t *testing.T) {
	for late, refused := range map[time.Duration]bool{0: false, time.Second: true} {
		play(t, "{}", func(ctx context.Context, s *scene) {
			s.begin(ctx)
			s.older(ctx, 9*24*time.Hour)
			begin := noon.Add(-ImageAge(s.cfg)/2 - late)
			o := s.operator("Orders")
			o.source.exports[at+"full"], o.source.exports[at+"w"] = full(begin), window(begin, noon.Add(-time.Hour))
			told := s.refusalOf(ctx, o, Request{From: []string{at + "full", at + "w"}})
			if (told != nil) != refused || refused && !strings.Contains(told.What, at+"full") {
				t.Errorf("%s too old: %+v", late, told)
			}
		})
	}
}

// The adoption makes images young: an export that is older than the bound is taken with windows
// up to after the adoption.
func TestAnOldExportWithWindows(t *testing.T) {
	for adopted, refused := range map[time.Duration]bool{time.Hour: false, 9 * 24 * time.Hour: true} {
		play(t, "{}", func(ctx context.Context, s *scene) {
			s.begin(ctx)
			s.older(ctx, adopted)
			begin := noon.Add(-ImageAge(s.cfg)/2 - time.Minute)
			o := s.operator("Orders")
			o.source.exports[at+"full"], o.source.exports[at+"w"] = full(begin), window(begin, noon)
			if told := s.refusalOf(ctx, o, Request{From: []string{at + "full", at + "w"}}); (told != nil) != refused {
				t.Errorf("adopted %s ago: %+v", adopted, told)
			}
		})
	}
}

// The cost of a future export is shown, and no scan is estimated instead. If an export cannot be
// made, the error names the table and the fix.
func TestADryRunOfAnExportThatIsToBeMade(t *testing.T) {
	play(t, "{}", func(ctx context.Context, s *scene) {
		s.begin(ctx)
		s.lose(ctx)
		o := s.operator("Orders")
		o.DryRun = true
		s.check(o.Steer(ctx, Request{Action: ActionStart, From: []string{"s3://bucket/p"}, Wish: true}))
		if d := o.document(t).Decided[0]; d.Action != ActionStart || d.Estimate != nil || s.state(ctx).Load.Request.Wanted() {
			t.Errorf("%+v", d)
		}
		o = s.operator("Orders")
		o.source.recovery.On = false
		if told := s.refusalOf(ctx, o, Request{From: []string{"s3://bucket/p"}, Wish: true}); !strings.Contains(told.What, "Orders") || !strings.Contains(told.Fix, preflight.RecoveryCommand("Orders")) {
			t.Errorf("%+v", told)
		}
	})
}

// If the application also writes a table, an export waits until all earlier writes have arrived. If
// waiting is enough, the configuration's export is not refused.
func TestANamedExportWaitsForDualWrites(t *testing.T) {
	play(t, `{from: "`+at+`{table}"}`, func(ctx context.Context, s *scene) {
		s.begin(ctx)
		s.older(ctx, time.Hour)
		source := s.operator("Orders").source
		source.exports[at+"Orders"] = full(noon.Add(-time.Minute))
		s.cfg.DualWrites = config.DualWrites{Settle: 2 * time.Hour}
		orders, _ := s.cfg.Table("Orders")
		_, err := OfConfiguration(s.cfg, source, s.operator("Orders").Env).Judge(ctx, orders, s.state(ctx), nil)
		var hole *checkpoint.NotAdmissible
		if !errors.As(err, &hole) || !hole.Yet || Refusal(err) != "" {
			t.Errorf("%v", err)
		}
		orders.DualWrites = "off"
		if e, err := OfConfiguration(s.cfg, source, s.operator("Orders").Env).Judge(ctx, orders, s.state(ctx), nil); err != nil || e.Address != at+"Orders" {
			t.Errorf("%+v, %v", e, err)
		}
	})
}

// Problems that an operator must fix are refusals, whichever service reports them. The cause comes
// before the wrapped error.
func TestWhoRefusesAnExport(t *testing.T) {
	wrapped := func(cause string, err error) error {
		return &diag.Error{Code: diag.LoadRefused, What: "w", Cause: cause, Err: err, Fix: "fix"}
	}
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"DynamoDB does not know it":  {wrapped("", &backfill.ExportRefusal{Code: "ExportNotFoundException", Message: "m"}), "ExportNotFoundException: m; fix"},
		"the identity may not ask":   {wrapped("cause", &cdc.Error{Op: "DescribeExport", Reason: cdc.Denied, Err: errors.New("no")}), "cause; fix"},
		"the table is not there":     {wrapped("cause", &cdc.Error{Op: "DescribeExport", Reason: cdc.NotFound, Err: errors.New("no")}), "cause; fix"},
		"DynamoDB does not answer":   {wrapped("cause", &cdc.Error{Op: "DescribeExport", Reason: cdc.Unavailable, Err: errors.New("no")}), ""},
		"DynamoDB throttles":         {wrapped("cause", &cdc.Error{Op: "DescribeExport", Reason: cdc.Throttled, Err: errors.New("no")}), ""},
		"nothing but what to do":     {wrapped("", nil), "; fix"},
		"it is not about the export": {&diag.Error{Code: diag.SourceDenied, Err: &exports.Error{Place: "x", What: "torn"}}, ""},
	} {
		if got := Refusal(c.err); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
