package sim

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// moody is a table that begins without a stream, and may be dropped.
type moody struct {
	database
	off, dropped bool
}

func (d *moody) Describe(ctx context.Context, table string) (backfill.Description, error) {
	desc, err := d.Table.Describe(ctx, table)
	switch {
	case err != nil:
	case d.dropped:
		return backfill.Description{}, &cdc.Error{Op: "DescribeTable", Reason: cdc.NotFound, Err: errors.New("dropped")}
	case d.off:
		desc.StreamEnabled, desc.ViewType = false, ""
	}
	return desc, err
}

// lookEvery is the interval of the search for tables.
const lookEvery = 5 * time.Minute

// byPattern makes a worker find its table with discover instead of by name. The table joins when it
// is found.
func byPattern(o *engine.Options, discover func(spec engine.Spec, followed func(string) bool) (engine.Discovery, error)) {
	spec := o.Tables[0]
	spec.Joined = true
	o.Tables, o.DiscoverEvery = nil, lookEvery
	o.Discover = func(_ context.Context, followed func(string) bool) (engine.Discovery, error) {
		return discover(spec, followed)
	}
}

// TestTableJoins: a table that is found while two workers run joins both. Without a stream it is
// suspended, once, and neither worker ends. With a stream it is copied and followed. When dropped,
// the workers report this and apply the remaining changes of its shards.
func TestTableJoins(t *testing.T) { play(t, 10, 1, tableJoins) }

func tableJoins(s *scene) {
	s.Target.LoseReply, s.Target.Late, s.Target.Drop, s.Target.Twice = 0.02, 0.02, 0.02, 0.05
	db := &moody{database: database{s.Source}, off: true}
	exists, joined := false, 0
	told := map[string]int{}
	patterns := func(o *engine.Options) {
		byPattern(o, func(spec engine.Spec, _ func(string) bool) (engine.Discovery, error) {
			switch {
			case !exists:
				return engine.Discovery{}, nil
			case s.World.Rand().IntN(3) == 0:
				return engine.Discovery{}, &cdc.Error{Op: "ListTables", Reason: cdc.Throttled, Err: errors.New("injected")}
			}
			refused := []engine.Refusal{{Table: "Other", Reason: "its key does not fit"}}
			if joined == 2 { // its own coordinator knows better
				refused = append(refused, engine.Refusal{Table: spec.Mapping.Source, Reason: "it is refused now"})
			}
			return engine.Discovery{Tables: []engine.Spec{spec}, Refused: refused}, nil
		})
		o.Database = db
		o.Events.Joined = func(string) { joined++ }
		o.Events.Suspended = func(table, reason string) { told[table+": "+reason]++ }
	}
	aside := func(what, reason string) {
		s.until(2*lookEvery, what, func() bool { return s.State().Suspended.Reason == reason })
	}
	s.put("1", "before")
	a, b := s.Start("a", patterns), s.Start("b", patterns)
	s.sleep(3 * lookEvery)
	if s.State().Generation != 0 || joined != 0 {
		s.failf("a table that is not there joins: %+v", s.State())
	}
	exists = true
	s.until(2*lookEvery, "both look at the table", func() bool { return joined == 2 })
	aside("set aside", "the table has no enabled stream")
	s.sleep(lookEvery)
	db.off = false
	s.equal(2 * lookEvery)
	aside("taken back", "")
	s.put("2", "followed")
	s.equal(time.Minute)
	db.dropped = true
	aside("told that it was dropped", engine.GoneReason)
	s.put("1", "the last change")
	s.equal(lookEvery)
	s.stop(a)
	s.stop(b)
	if len(s.Gaps) > 0 || joined != 2 || told["Other: its key does not fit"] == 0 || told["Orders: it is refused now"] > 0 || told["Orders: "+engine.GoneReason] == 0 {
		s.failf("gaps %v, %d joined, told %v", s.Gaps, joined, told)
	}
	for line, n := range told {
		if n > 2 { // at most one per worker, if an answer was lost
			s.failf("told %d times: %s", n, line)
		}
	}
}

// TestDroppedTableIsLeft: two days after a table of a pattern was dropped, no worker reads its
// ledger rows any more. A new table of the same name joins as a new one, with a gap between the two
// streams.
func TestDroppedTableIsLeft(t *testing.T) { play(t, 3, 2, droppedTableIsLeft) }

func droppedTableIsLeft(s *scene) {
	// So that two days take fewer steps.
	s.Lease, s.Timing = 2*time.Minute, engine.Timing{Pass: 20 * time.Second, List: lookEvery}
	db := &moody{database: database{s.Source}}
	joined, looks, seats := 0, 0, 0
	patterns := func(o *engine.Options) {
		byPattern(o, func(spec engine.Spec, followed func(string) bool) (found engine.Discovery, err error) {
			source := spec.Mapping.Source
			switch {
			case followed(source):
			case db.dropped:
				found.Refused = []engine.Refusal{{Table: source, Reason: engine.GoneReason}}
			default:
				found.Tables = []engine.Spec{spec}
			}
			return found, nil
		})
		o.Database = db
		o.Events.Joined = func(string) { joined++ }
		o.Events.Ledger = func(checkpoint.TableState, map[checkpoint.State]int) { looks++ }
		o.Events.CoordinatorTaken = func(string, uint64) { seats++ }
	}
	s.put("1", "before")
	a, b := s.Start("a", patterns), s.Start("b", patterns)
	s.equal(2 * lookEvery)
	s.put("2", "the last change")
	db.dropped = true
	s.Source.DisableStream()
	s.equal(2 * lookEvery)
	s.sleep(47 * time.Hour)
	before := looks
	s.sleep(time.Minute)
	if joined != 2 || before == looks {
		s.failf("it is left after less than two days; %d joined", joined)
	}
	s.sleep(2 * time.Hour)
	before = looks + seats
	s.sleep(time.Hour)
	if joined != 2 || before != looks+seats || s.State().Suspended.Reason != engine.GoneReason {
		s.failf("%d joined, %d looks and seats in an hour after the table is long gone, set aside for %q", joined, looks+seats-before, s.State().Suspended.Reason)
	}
	db.dropped = false
	s.Source.EnableStream(1)
	s.sleep(2 * lookEvery)
	s.put("2", "of the new table")
	s.equal(2 * lookEvery)
	if state := s.State(); joined != 4 || state.Suspended.Reason != "" || len(s.Gaps) != 1 {
		s.failf("%d joined, set aside for %q, gaps %v", joined, state.Suspended.Reason, s.Gaps)
	}
	s.stop(a)
	s.stop(b)
}

// TestH18_OnceWaitsForWhatCannotBeDescribed: a search finds a table but ends with an error. A run
// with --once replicates the table, and ends only after a search without an error.
func TestH18_OnceWaitsForWhatCannotBeDescribed(t *testing.T) {
	play(t, 1, 1, func(s *scene) {
		failures, looked := 10, false
		s.put("1", "before")
		a := s.Start("a", func(o *engine.Options) {
			byPattern(o, func(spec engine.Spec, followed func(string) bool) (found engine.Discovery, err error) {
				if !followed(spec.Mapping.Source) {
					found.Tables = []engine.Spec{spec}
				}
				if failures--; failures >= 0 {
					return found, &cdc.Error{Op: "DescribeTable", Reason: cdc.Throttled, Err: errors.New("injected")}
				}
				looked = true
				return found, nil
			})
			o.Once, o.DiscoverEvery = true, time.Minute
		})
		s.equal(time.Minute)
		if looked {
			s.failf("the table waited for the others")
		}
		if err := a.Wait(s.ctx); err != nil || !looked {
			s.failf("over after a look without an error: %v, %v", looked, err)
		}
	})
}

// born is a table with a given creation time.
type born struct {
	database
	at time.Time
}

func (b born) Describe(ctx context.Context, table string) (backfill.Description, error) {
	d, err := b.Table.Describe(ctx, table)
	d.CreatedAt = b.at
	return d, err
}

// TestH75_YoungTableFoundADayLater: tables are followed from now on, without a load. A table is
// created while no worker runs, and found when its first changes are already trimmed, which no load
// covers (I5). If it is found within a day, no change is lost.
func TestH75_YoungTableFoundADayLater(t *testing.T) {
	for _, hours := range []int{22, 25} {
		play(t, 10, 1, func(s *scene) {
			db := born{database{s.Source}, s.World.Now()}
			s.put("k", "the first change")
			for range hours {
				s.sleep(time.Hour)
				s.Source.Stream().Roll(s.only())
			}
			s.Start("a", func(o *engine.Options) {
				o.Tables[0].Copy, o.Tables[0].FromNow, o.Tables[0].Young = false, true, true
				byPattern(o, func(spec engine.Spec, _ func(string) bool) (engine.Discovery, error) {
					return engine.Discovery{Tables: []engine.Spec{spec}}, nil
				})
				o.Database = db
			})
			if hours > 24 {
				s.gap(5*time.Minute, "may be lost")
			} else if s.equal(5 * time.Minute); len(s.Gaps) > 0 {
				s.failf("gaps %q after %d hours", s.Gaps, hours)
			}
			s.readsOn(5*time.Minute, "k")
		})
	}
}
