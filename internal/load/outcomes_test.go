package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/relay"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// A load begins at the source's time, not at that of this worker, whose clock may be hours ahead.
func TestALoadBeginsAtTheTimeOfTheSource(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		s.shop.behind = 2 * time.Hour
		s.change(ctx, func(state *checkpoint.TableState) { state.Load.AskedAt = task.Now(ctx) })
		began := task.Now(ctx)
		s.check(s.step(ctx))
		want := checkpoint.Load{Generation: 2, Number: 1, Parts: 8, Source: "scan", TableID: "first", AskedAt: began.UTC(), StartedAt: began.Add(-2 * time.Hour).UTC(), Estimate: 12}
		if got := s.state(ctx).Load; fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
			t.Errorf("%+v, want\n%+v", got, want)
		}
	})
}

// A stream that already drops changes that are not applied pauses the load too.
func TestALostHeadroomPausesALoad(t *testing.T) {
	for _, late := range []time.Duration{cdc.Retention, cdc.Retention + time.Hour} {
		loads(t, func(ctx context.Context, s *loadScene) {
			s.sealed(ctx, 1)
			s.Ledger.Heard(ctx, task.Now(ctx).Add(late))
			s.check(s.step(ctx))
			if l := s.state(ctx).Load; l.Paused != checkpoint.PausedForHeadroom {
				t.Errorf("%s late: %+v", late, l)
			}
		})
	}
}

// A saved pace has the rate to a tenth of an item, and the time of the save.
func TestWhatAPaceHolds(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		s.check(task.Sleep(ctx, time.Hour))
		s.sealed(ctx, 1)
		for items := range 3 {
			s.check(s.conductor().pace(ctx, s.state(ctx), checkpoint.Sums{Items: int64(13 * items)}, s))
			s.check(task.Sleep(ctx, 5*time.Second))
		}
		if n := len(s.paces); n != 3 || s.paces[0].Rate != 0 || s.paces[2].Rate != 2.6 || !s.paces[2].At.Equal(task.Now(ctx).Add(-5*time.Second)) {
			t.Errorf("%+v", s.paces)
		}
	})
}

// The end of a copy is reported with the copied items, not with the estimate.
func TestTheEndOfACopyIsReportedWithItsItems(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		s.sealed(ctx, 2)
		s.change(ctx, func(state *checkpoint.TableState) { state.Load.Estimate = 99 })
		s.finish(ctx, checkpoint.PartProgress{Items: 7, Bytes: 5, Units: 3})
		s.check(s.step(ctx))
		if l := s.state(ctx).Load; !slices.Equal(s.told, []string{"done 14"}) || l.Items != 14 || l.Bytes != 10 || l.Units != 6 || l.DoneAt.IsZero() {
			t.Errorf("told %q, %+v", s.told, l)
		}
	})
}

// DynamoDB remembers the token of a request for eight hours. Before that time is over, a request
// without an answer gives way to another attempt, because a repetition might export twice.
func TestATokenEndsBeforeDynamoDBForgetsIt(t *testing.T) {
	if tokenLives >= 8*time.Hour {
		t.Errorf("a token is used for %s", tokenLives)
	}
}

// An attempt whose export would be too old for the load when it is complete is overtaken by another
// attempt. Half of the age of images is left for the copy.
func TestAnOldAttemptIsRequestedAgain(t *testing.T) {
	for age, attempts := range map[time.Duration]uint32{9 * time.Hour: 1, 11 * time.Hour: 2} {
		loads(t, func(ctx context.Context, s *loadScene) {
			s.Writer = sink.NewWriter(sink.Options{Table: s.target, Parking: sink.NewParking(nil, "p"), Floor: s.Floors.Floor, MaxImageAge: 20 * time.Hour})
			s.wishes(ctx, &archive{takes: 100 * time.Hour})
			s.Reset()
			s.check(s.conduct(ctx, time.Minute))
			began := s.state(ctx).Load.Request
			s.pass(ctx, age)
			_, err := s.conductor().request(engine.Until(ctx), engine.View{State: s.state(ctx)})
			s.check(err)
			if r := s.state(ctx).Load.Request; r.Serial != attempts || began.Serial != 1 || began.ARN == "" {
				t.Errorf("after %s: %+v", age, r)
			}
		})
	}
}

// Whoever watches the process hears which export failed, and why.
func TestAFailedExportIsReportedByItsARN(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		var told []string
		s.Events.Exporting = func(table, arn, failed string) { told = append(told, table+" "+arn+": "+failed) }
		s.wishes(ctx, &archive{fails: "S3NoSuchBucket: gone"})
		s.Reset()
		s.check(s.conduct(ctx, time.Minute))
		if want := []string{"Orders " + shopARN + "/export/1: ", "Orders " + shopARN + "/export/1: S3NoSuchBucket: gone"}; !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
	})
}

// The changes of windows are published like the items of a full export.
func TestWindowsArePublished(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		topic := unreachable{published: map[string]relay.Change{}, look: func(context.Context) {}}
		s.Mode, s.Topic, s.PublishLoads = checkpoint.Both, topic, true
		s.change(ctx, func(state *checkpoint.TableState) { state.StreamARN, state.Apply = "arn", checkpoint.Both })
		from := task.Now(ctx).Add(-3 * time.Hour).Truncate(time.Second)
		s.lost(ctx, from, "deleted")
		s.chained(ctx, time.Time{}, nil, window{from.Add(-6 * time.Second), from.Add(150 * time.Minute), []string{"i10", "i11"}, []string{"deleted"}})
		s.Reset()
		s.check(s.work(ctx, 10*time.Minute, true))
		removed := 0
		for _, c := range topic.published {
			if !c.New.Exists() {
				removed++
			}
		}
		if len(topic.published) != 3 || removed != 1 {
			t.Errorf("published %+v", topic.published)
		}
	})
}

// The pass that counts writes nothing, even if an operator approves the sweep while it runs.
func TestACountingPassWritesNothing(t *testing.T) {
	for _, approved := range []bool{false, true} {
		loads(t, func(ctx context.Context, s *loadScene) {
			s.inherited(ctx, "gone")
			s.sealed(ctx, 1)
			s.change(ctx, func(state *checkpoint.TableState) {
				state.Load.DoneAt = task.Now(ctx)
				state.Load.Sweep = checkpoint.Sweep{Pass: 0, Parts: 1, Approved: approved, BegunAt: task.Now(ctx), Ranges: []checkpoint.SweepRange{{Table: "orders"}}}
			})
			s.check(s.work(ctx, time.Minute, false))
			parts, err := s.Ledger.Parts(ctx, s.state(ctx), checkpoint.PhaseSweep(0))
			s.check(err)
			if len(parts) != 1 || parts[0].State != checkpoint.PartDone || parts[0].Counts.Removed != 1 || len(s.live(ctx)) != 1 {
				t.Errorf("approved %v: %+v, rows %q", approved, parts, s.live(ctx))
			}
		})
	}
}

// A stop does not hide that the ledger was replaced while a sweep saved its progress.
func TestAStopHidesNoFatalErrorOfASweep(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		s.sealed(ctx, 1)
		s.change(ctx, func(state *checkpoint.TableState) {
			state.Load.DoneAt = task.Now(ctx)
			state.Load.Sweep = checkpoint.Sweep{Pass: 1, Parts: 1, Approved: true, BegunAt: task.Now(ctx), Ranges: []checkpoint.SweepRange{{Table: "orders"}}}
		})
		lease := s.part(ctx, 0)
		s.store.OnSwap = func(context.Context, string, func() bool) (bool, error) { return false, checkpoint.ErrLedgerExchanged }
		drain, cancel := context.WithCancel(ctx)
		cancel()
		_, err := s.loader().sweep(engine.Lifecycle{Drain: drain, Work: ctx}, s.state(ctx), lease, &engine.Right{Generation: 2})
		s.store.OnSwap = nil
		if !errors.Is(err, checkpoint.ErrLedgerExchanged) {
			t.Errorf("%v", err)
		}
	})
}

// A sweep of several tables has no more parts than one of a single table.
func TestTheRangesOfSeveralTables(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		c := s.conductor()
		var keys []string
		for i := range 200 {
			keys = append(keys, fmt.Sprintf("%03d", i))
		}
		c.target = sampled{s.target, keys}
		for further, each := range map[string]int{"": 32, "a": 16, "a b c": 8} {
			tables := strings.Fields(further)
			ranges, err := c.ranges(ctx, s.sealed(ctx, 1), nil, tables)
			s.check(err)
			count := map[string]int{}
			for _, r := range ranges {
				count[r.Table]++
			}
			for _, table := range append(tables, "orders") {
				if count[table] != each || len(count) != len(tables)+1 {
					t.Errorf("with %q: %v", further, count)
				}
			}
		}
	})
}
