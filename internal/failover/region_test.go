package failover_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/failover"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/transform"
)

const (
	tableThere  = "arn:aws:dynamodb:eu-west-1:111122223333:table/Orders"
	streamHere  = "arn:aws:dynamodb:us-east-1:111122223333:table/Orders/stream/L"
	streamThere = tableThere + "/stream/M"
)

// there returns Orders as it is in region eu-west-1: a replica of the followed table.
func there() failover.RegionTable {
	return failover.RegionTable{
		Mapping: &transform.Mapping{Source: "Orders", PrimaryKey: []transform.KeyAttribute{{Name: "pk"}}},
		Description: backfill.Description{Name: "Orders", ARN: tableThere, Status: "ACTIVE", PrimaryKey: []transform.KeyAttribute{{Name: "pk"}},
			StreamARN: streamThere, StreamLabel: "M", StreamEnabled: true, ViewType: "NEW_AND_OLD_IMAGES", Replicas: []string{"ap-south-1", "us-east-1"}},
	}
}

// moves runs a failover to region eu-west-1. The ledger follows the table in us-east-1.
func (w *world) moves(p failover.Plan, tables ...failover.RegionTable) (failover.Result, error) {
	w.Helper()
	p.Still = still
	return failover.RunRegion(w.ctx, w.ledger, p, failover.Region{Name: "eu-west-1", Tables: tables})
}

// inRegion runs a test in which the ledger follows Orders in us-east-1.
func inRegion(t *testing.T, play func(w *world)) {
	t.Helper()
	in(t, func(w *world) {
		if _, err := w.ledger.UpdateTable(w.ctx, "Orders", func(s *checkpoint.TableState) error { s.StreamARN = streamHere; return nil }); err != nil {
			t.Fatal(err)
		}
		play(w)
	})
}

// H148: the tables follow the streams of the other region in a new generation, and need a load. An
// interrupted failover is continued; one that is complete changes nothing.
func TestH148_TheSourceMoves(t *testing.T) {
	inRegion(t, func(w *world) {
		began := task.Now(w.ctx)
		r, err := w.moves(failover.Plan{Rehearsal: true}, there())
		if err != nil || r.Outcome != failover.Loads || w.table().StreamARN != streamHere || w.table().NeedsLoad {
			t.Fatalf("a rehearsal: %+v, %v", r, err)
		}
		r, err = w.moves(failover.Plan{}, there())
		s := w.table()
		if err != nil || r.From != "us-east-1" || r.To != "eu-west-1" || !slices.Equal(r.Loads, []string{"Orders"}) || task.Now(w.ctx).Sub(began) != 2*still {
			t.Errorf("%+v, %v after %s", r, err, task.Now(w.ctx).Sub(began))
		}
		if s.StreamARN != streamThere || s.Label != "M" || s.Listed != 0 || s.Generation <= 100 || s.Adopted != s.Generation || !s.NeedsLoad || s.Kind != checkpoint.KindSourceMoved {
			t.Errorf("%+v", s)
		}
		again := there()
		again.Mapping = &transform.Mapping{Source: "Parts"}
		r, err = w.moves(failover.Plan{}, there(), again) // Parts has not begun
		if err != nil || r.Outcome != failover.Loads || w.table().Generation != s.Generation || task.Now(w.ctx).Sub(began) != 2*still {
			t.Errorf("continued: %+v, %v", r, err)
		}
		if _, err := w.ledger.UpdateTable(w.ctx, "Orders", func(s *checkpoint.TableState) error {
			s.NeedsLoad, s.Kind, s.Base = false, "", s.Generation
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if r, err := w.moves(failover.Plan{}, there()); err != nil || r.Outcome != failover.Nothing || r.From != "" {
			t.Errorf("complete: %+v, %v", r, err)
		}
	})
}

// A table that is not shown to be a replica of the followed table, or that cannot be followed, stays
// where it is. The refusal comes before the wait.
func TestH148_WhichTablesMove(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *failover.RegionTable)
		cause  string
	}{
		"no replica":      {func(t *failover.RegionTable) { t.Description.Replicas = []string{"ap-south-1"} }, "is no replica of the followed table"},
		"another account": {func(t *failover.RegionTable) { t.Description.ARN = strings.Replace(tableThere, "1111", "9999", 1) }, "is in another account"},
		"another region": {func(t *failover.RegionTable) {
			t.Description.ARN = strings.Replace(tableThere, "eu-west-1", "eu-west-2", 1)
		}, "was found in region eu-west-2"},
		"still created":    {func(t *failover.RegionTable) { t.Description.Status = "CREATING" }, "is CREATING"},
		"without a stream": {func(t *failover.RegionTable) { t.Description.StreamEnabled = false }, "no enabled stream"},
		"without images":   {func(t *failover.RegionTable) { t.Description.ViewType = "KEYS_ONLY" }, "view type KEYS_ONLY"},
		"another key":      {func(t *failover.RegionTable) { t.Mapping.PrimaryKey = []transform.KeyAttribute{{Name: "id"}} }, "primary key of table Orders has changed"},
	} {
		inRegion(t, func(w *world) {
			began, found := task.Now(w.ctx), there()
			c.change(&found)
			_, err := w.moves(failover.Plan{}, found)
			if err == nil || !strings.Contains(err.Error(), c.cause) || w.table().StreamARN != streamHere || task.Now(w.ctx) != began {
				t.Errorf("%s: %v", name, err)
			}
			var refused *failover.RefusedError
			var stream *engine.StreamError
			var key *engine.KeyError
			if errors.As(err, &refused) && refused.Cure == "" || !errors.As(err, &refused) && !errors.As(err, &stream) && !errors.As(err, &key) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// A running worker refuses the move.
func TestH148_ARunningWorkerIsSeen(t *testing.T) {
	inRegion(t, func(w *world) {
		worker := w.open("worker")
		w.world.Go("write", func(ctx context.Context) {
			_ = task.Sleep(ctx, still/2)
			_, _ = worker.UpdateTable(ctx, "Orders", func(s *checkpoint.TableState) error { s.Listed++; return nil })
		})
		_, err := w.moves(failover.Plan{}, there())
		var refused *failover.RefusedError
		if !errors.As(err, &refused) || !strings.Contains(refused.Cause, "still written by worker") || w.table().StreamARN != streamHere {
			t.Errorf("%v", err)
		}
	})
}

// Before the switch a cutover is cancelled. Whatever reads or freezes the former region refuses the
// move. Once the application has left for good, the other tables may move.
func TestH148_CutoversAndTheOtherRegion(t *testing.T) {
	const refused = "refused"
	for name, c := range map[string]struct {
		step   checkpoint.CutoverStep
		change func(c *checkpoint.Cutover)
		want   checkpoint.CutoverStep
		policy bool
	}{
		"requested":  {checkpoint.CutoverRequested, nil, checkpoint.CutoverCancelled, false},
		"frozen":     {checkpoint.CutoverDrain, nil, checkpoint.CutoverCancelling, false},
		"cancelling": {checkpoint.CutoverCancelling, nil, checkpoint.CutoverCancelling, false},
		"cancelled":  {checkpoint.CutoverCancelled, nil, "", false},
		"done":       {checkpoint.CutoverDone, nil, checkpoint.CutoverDone, false},
		"switching":  {checkpoint.CutoverSwitching, nil, refused, false},
		"watching":   {checkpoint.CutoverWatching, nil, refused, false},
		"a way back": {checkpoint.CutoverWatching, func(c *checkpoint.Cutover) { c.WayBack = true }, refused, false},
		"a rollback": {checkpoint.CutoverWatching, func(c *checkpoint.Cutover) {
			c.WayBack, c.Rollback = true, &checkpoint.Cutover{}
			c.Rollback.Step = checkpoint.CutoverDrain
		}, refused, false},
		"a policy":            {checkpoint.CutoverDrain, func(c *checkpoint.Cutover) { c.Denial.Left = true }, refused, false},
		"a policy, cancelled": {checkpoint.CutoverCancelling, func(c *checkpoint.Cutover) { c.Denial.Left = true }, checkpoint.CutoverCancelling, true},
	} {
		inRegion(t, func(w *world) {
			w.at(c.step)
			if c.change != nil {
				if _, err := w.ledger.UpdateCutover(w.ctx, "", func(r *checkpoint.Cutover) error { c.change(r); return nil }); err != nil {
					t.Fatal(err)
				}
			}
			r, err := w.moves(failover.Plan{}, there())
			var refusal *failover.RefusedError
			if c.want == refused {
				if !errors.As(err, &refusal) || refusal.Cure == "" || w.record().Step != c.step || w.table().StreamARN != streamHere {
					t.Errorf("%s: %+v, %v", name, r, err)
				}
				return
			}
			after := c.want
			if after == "" {
				after = c.step
			}
			if err != nil || r.Cutover != c.want || w.record().Step != after || w.table().StreamARN != streamThere || (len(r.Policies) > 0) != c.policy {
				t.Errorf("%s: %+v, step %s, %v", name, r, w.record().Step, err)
			}
		})
	}
}

// After an hour or a day elsewhere the migration may return to the stream that it left. The shards
// that were not read to their end are read again.
func TestH148_TheSourceReturns(t *testing.T) {
	inRegion(t, func(w *world) {
		if err := w.ledger.CreateShard(w.ctx, checkpoint.Shard{Source: "Orders", StreamARN: streamHere, Label: "L", ID: "s1", State: checkpoint.Waiting, Generation: 100}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.moves(failover.Plan{}, there()); err != nil {
			t.Fatal(err)
		}
		back := there()
		back.Description.ARN, back.Description.StreamARN, back.Description.StreamLabel = strings.TrimSuffix(streamHere, "/stream/L"), streamHere, "L"
		back.Description.Replicas = []string{"eu-west-1"}
		_ = task.Sleep(w.ctx, time.Hour)
		if _, err := failover.RunRegion(w.ctx, w.ledger, failover.Plan{Still: still}, failover.Region{Name: "us-east-1", Tables: []failover.RegionTable{back}}); err != nil {
			t.Fatal(err)
		}
		shards, err := w.ledger.Shards(w.ctx, "Orders")
		if err != nil || len(shards) != 1 || !shards[0].Reopenable(w.table()) || shards[0].Undeclared(w.table()) {
			t.Fatalf("%+v, %v", shards, err)
		}
		if err := w.ledger.Reopen(w.ctx, shards[0], w.table()); err != nil {
			t.Fatal(err)
		}
		if shards, err = w.ledger.Shards(w.ctx, "Orders"); err != nil || shards[0].State != checkpoint.Waiting || shards[0].Generation != w.table().Generation {
			t.Errorf("%+v, %v", shards, err)
		}
	})
}

// A run that was interrupted between two tables is continued, and so is a move to a third region
// before that. Each table moves from the region in which it is followed.
func TestH148_FromSeveralRegions(t *testing.T) {
	inRegion(t, func(w *world) {
		parts := "arn:aws:dynamodb:us-east-1:111122223333:table/Parts"
		if _, err := w.ledger.UpdateTable(w.ctx, "Parts", func(s *checkpoint.TableState) error {
			s.Generation, s.StreamARN, s.Label = 50, parts+"/stream/P", "P"
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		in := func(region, table string) failover.RegionTable {
			found := there()
			found.Mapping = &transform.Mapping{Source: table, PrimaryKey: found.Mapping.PrimaryKey}
			d := &found.Description
			d.Name, d.ARN, d.StreamLabel, d.Replicas = table, "arn:aws:dynamodb:"+region+":111122223333:table/"+table, region, []string{"eu-west-1", "us-east-1"}
			d.StreamARN = d.ARN + "/stream/" + region
			return found
		}
		if _, err := w.moves(failover.Plan{}, in("eu-west-1", "Orders")); err != nil { // and was killed
			t.Fatal(err)
		}
		moved := w.table().Generation
		r, err := w.moves(failover.Plan{Rehearsal: true}, in("eu-west-1", "Orders"), in("eu-west-1", "Parts"))
		if err != nil || r.From != "us-east-1" || !slices.Equal(r.Loads, []string{"Orders", "Parts"}) || w.table().Generation != moved {
			t.Errorf("%+v, %v", r, err)
		}
		third := failover.Region{Name: "ap-south-1", Tables: []failover.RegionTable{in("ap-south-1", "Orders"), in("ap-south-1", "Parts")}}
		r, err = failover.RunRegion(w.ctx, w.ledger, failover.Plan{Still: still}, third)
		if err != nil || r.From != "eu-west-1, us-east-1" || !slices.Equal(r.Loads, []string{"Orders", "Parts"}) {
			t.Errorf("%+v, %v", r, err)
		}
		for _, table := range []string{"Orders", "Parts"} {
			if s, _, err := w.ledger.Table(w.ctx, table); err != nil || s.Label != "ap-south-1" || s.Adopted != s.Generation || !s.NeedsLoad {
				t.Errorf("%+v, %v", s, err)
			}
		}
	})
}

// A table that needed a load before, for another reason, still needs it after the move. A repeated
// run says so.
func TestH148_ALoadWasNeededBefore(t *testing.T) {
	inRegion(t, func(w *world) {
		asked := checkpoint.DeclaredGap{Kind: checkpoint.KindAskedFor, Reason: "for the test"}
		if _, err := w.ledger.Raise(w.ctx, "Orders", 100, asked, nil); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			r, err := w.moves(failover.Plan{}, there())
			if err != nil || r.Outcome != failover.Loads || !slices.Equal(r.Loads, []string{"Orders"}) {
				t.Errorf("%+v, %v", r, err)
			}
		}
	})
}

// Exports that were requested of the former region hold nothing of the new one. Their request would
// keep the load from beginning by itself.
func TestH148_RequestedExportsAreWithdrawn(t *testing.T) {
	for name, request := range map[string]func(s *checkpoint.TableState) error{
		"windows": func(s *checkpoint.TableState) error {
			return s.RequestExport(time.Unix(1, 0), true, checkpoint.ExportRequest{To: "s3://b", Incremental: true})
		},
		"a full export": func(s *checkpoint.TableState) error {
			return s.RequestExport(time.Unix(1, 0), true, checkpoint.ExportRequest{To: "s3://b"})
		},
		"a named export": func(s *checkpoint.TableState) error {
			return s.AskExport(time.Unix(1, 0), true, checkpoint.Export{Address: "s3://b/1", ARN: "a"})
		},
	} {
		inRegion(t, func(w *world) {
			_, err := w.ledger.Raise(w.ctx, "Orders", 100, checkpoint.DeclaredGap{Kind: checkpoint.KindStream, Reason: "for the test", LostFrom: task.Now(w.ctx)}, nil)
			if err == nil {
				_, err = w.ledger.UpdateTable(w.ctx, "Orders", request)
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.moves(failover.Plan{}, there()); err != nil {
				t.Fatal(err)
			}
			s := w.table()
			if asks, waits := s.AsksItself(true, true); !asks || s.Stage() != checkpoint.StageNone || s.Load.Sweep.Approved {
				t.Errorf("%s: %q, %+v", name, waits, s.Load)
			}
		})
	}
}

// A region that has none of the tables is a mistake. Otherwise, tables of patterns that it does not
// have stay behind.
func TestH148_TablesThatTheRegionDoesNotHave(t *testing.T) {
	inRegion(t, func(w *world) {
		move := func(tables ...failover.RegionTable) (failover.Result, error) {
			return failover.RunRegion(w.ctx, w.ledger, failover.Plan{Still: still}, failover.Region{Name: "eu-west-1", Tables: tables, Missing: []string{"Orders"}})
		}
		var refused *failover.RefusedError
		if _, err := move(); !errors.As(err, &refused) || !strings.Contains(refused.Cause, "region eu-west-1 has none of the replicated tables: Orders") {
			t.Errorf("%v", err)
		}
		other := there()
		other.Mapping = &transform.Mapping{Source: "Parts"} // has not begun
		if r, err := move(other); err != nil || r.Outcome != failover.Nothing || !slices.Equal(r.Missing, []string{"Orders"}) || w.table().StreamARN != streamHere {
			t.Errorf("%+v, %v", r, err)
		}
	})
}
