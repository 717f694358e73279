package loads

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/exports/exportstest"
	"github.com/dynamodb-bigtable/replicator/internal/cost"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/source"
)

// Every question, refusal and wait names the source table, and leads to a command for it.
func TestQuestionsAndWaitsNameTheTable(t *testing.T) {
	play(t, "{}", func(ctx context.Context, s *scene) {
		s.begin(ctx)
		s.lose(ctx)
		over, err := s.read(ctx).verdict(" -c f")
		var told *diag.Error
		if over || !errors.As(err, &told) || !strings.Contains(told.What, "table Orders") || !strings.Contains(told.Cause, s.state(ctx).Reason) || told.Fix != "replicator backfill repair Orders -c f" {
			t.Errorf("a wait: %+v", told)
		}
		// A request that is carried out, but whose load waits for an operator, fails with --wait.
		o := s.operator("Orders")
		o.Waits = true
		if err := o.Steer(ctx, Request{Action: ActionThrottle, Reset: true}); !diag.Has(err, diag.LoadWaits) {
			t.Errorf("with --wait: %v", err)
		}
		if asked := len(o.source.asked); asked != 0 {
			t.Errorf("limits without a share described the table %d times", asked)
		}
		o = s.operator("Orders")
		s.check(o.Steer(ctx, Request{Action: ActionRedo}))
		if len(o.asked) != 1 || !strings.Contains(o.asked[0], "table Orders") {
			t.Errorf("a redo asks %q", o.asked)
		}
	})
}

// A repair with windows that is refused names the table and reads its settings.
func TestARefusedRepairNamesTheTable(t *testing.T) {
	play(t, "{}", func(ctx context.Context, s *scene) {
		s.begin(ctx)
		s.lose(ctx)
		state := s.state(ctx)
		state.StreamARN, state.Base = "arn", state.Generation
		for name, recovery := range map[string]backfill.Recovery{"off": {}, "on": {On: true, From: noon.Add(-100 * time.Hour)}} {
			o := s.operator("Orders")
			o.source.recovery = recovery
			err := o.mends(ctx, o.source, state, checkpoint.Export{From: noon.Add(-30 * time.Hour)})
			var told *diag.Error
			if errors.As(err, &told) != (name == "off") || told != nil && (!strings.Contains(told.What, "table Orders") || !strings.Contains(told.Fix, "--table Orders")) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// An export of another table, or of a table of the same name that was deleted, is refused. So is an
// export from before the stream of a shard is read.
func TestAnExportOfAnotherTable(t *testing.T) {
	item := attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String("a")}})
	of := func(table exportstest.Table) archived {
		return func(o *exportstest.Objects, name string) error {
			return o.Full(table, name, noon.Add(-time.Hour), []attribute.Item{item})
		}
	}
	for name, c := range map[string]struct {
		table   exportstest.Table
		refused bool
	}{
		"the table": {ordersTable, false},
		"another":   {exportstest.Table{ARN: strings.Replace(ordersARN, "Orders", "Parts", 1), ID: "id"}, true},
		"deleted":   {exportstest.Table{ARN: ordersARN, ID: "older"}, true},
	} {
		play(t, "{}", func(ctx context.Context, s *scene) {
			s.begin(ctx)
			s.older(ctx, 48*time.Hour)
			o := s.operator("Orders")
			o.source.exports[at+"full"] = of(c.table)
			if told := s.refusalOf(ctx, o, Request{From: []string{at + "full"}}); (told != nil) != c.refused {
				t.Errorf("%s: %+v", name, told)
			}
			orders, _ := s.cfg.Table("Orders")
			x := OfConfiguration(s.cfg, o.source, o.Env)
			x.Cfg.Backfill.From = at + "full"
			read, d, err := x.Read(ctx, orders)
			if (err != nil) != c.refused || err == nil && (read.Address != at+"full" || read.Items != 1 || d.Name != "Orders") {
				t.Errorf("%s, configured: %+v, %v", name, read, err)
			}
		})
	}
}

// The last of the windows that are missing ends after the generation's begin, even if the source's
// clock shows an earlier time.
func TestMissingWindowsEndAfterTheBeginning(t *testing.T) {
	play(t, "{}", func(ctx context.Context, s *scene) {
		s.begin(ctx)
		s.older(ctx, 0)
		begin := noon.Add(-2 * time.Hour)
		o := s.operator("Orders")
		o.source.exports[at+"full"], o.source.exports[at+"w"] = full(begin), window(begin, noon.Add(-time.Hour))
		told := s.refusalOf(ctx, o, Request{From: []string{at + "full", at + "w"}})
		if until := fmt.Sprintf("ExportToTime=%d,", noon.Add(checkpoint.Slack).Unix()); told == nil || !strings.Contains(told.Fix, until) {
			t.Errorf("%q, want %s", told.Fix, until)
		}
	})
}

// A proof that an export is whole fails with the place of the export, or as the error says.
func TestAProofThatFails(t *testing.T) {
	away := &cdc.Error{Op: "DescribeExport", Reason: cdc.Unavailable, Err: errors.New("away")}
	told := &diag.Error{Code: diag.LoadRefused, What: "part of it"}
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"the service":   {&source.OpenError{Address: at + "full", Err: away}, at + "full contains the whole table"},
		"its own words": {told, "part of it"},
		"both":          {&source.OpenError{Address: at + "full", Err: told}, "part of it"},
		"neither":       {errors.New("other"), "other"},
	} {
		if err := unproven(c.err); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A failed request for an export waits for an operator only while its load is requested.
func TestAFailedExportWaitsWhileItsLoadIsRequested(t *testing.T) {
	s := checkpoint.TableState{Source: "Orders", Generation: 7, Adopted: 7, Load: checkpoint.Load{AskedAt: noon, Request: checkpoint.ExportRequest{To: "s3://b", Failed: "no"}}}
	if NoExport(s) == "" {
		t.Error("it is requested")
	}
	s.Load = checkpoint.Load{Generation: 7, Number: 1, Parts: 1, StartedAt: noon, Request: s.Load.Request}
	if why := NoExport(s); why != "" {
		t.Errorf("it is copied: %q", why)
	}
}

// A sweep has a rate, and only a copy has a remaining time.
func TestOnlyACopyHasARemainingTime(t *testing.T) {
	part := checkpoint.Part{Generation: 7, Number: 1, Total: 2, Begun: noon.Add(-time.Minute)}
	part.WrittenAt, part.Owner, part.Items = noon, "w", 60
	state := checkpoint.TableState{Source: "Orders", Generation: 7, Adopted: 7, Load: checkpoint.Load{Generation: 7, Number: 1, Parts: 2, StartedAt: noon.Add(-time.Minute), Estimate: 120}}
	for _, sweeping := range []bool{false, true} {
		if sweeping {
			state.Load.DoneAt, state.Load.Sweep = noon, checkpoint.Sweep{BegunAt: noon, Pass: 1, Parts: 2}
		}
		p := ProgressOf(state, []checkpoint.Part{part}, noon, testLease)
		l := load(state, nil, p, cost.Default())
		if !p.RateKnown || p.ETAKnown == sweeping || l.ItemsPerSecond == nil || (l.ETASeconds == nil) != sweeping || !sweeping && p.ETA != time.Minute {
			t.Errorf("sweeping %v: %+v", sweeping, p)
		}
	}
}
