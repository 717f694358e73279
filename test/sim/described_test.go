package sim

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
)

// mistaken answers DescribeTable with another table's description while that is set.
type mistaken struct {
	engine.Database
	as *backfill.Description
}

func (m *mistaken) Describe(ctx context.Context, table string) (backfill.Description, error) {
	d, err := m.Database.Describe(ctx, table)
	if err == nil && m.as != nil {
		d.StreamARN, d.StreamLabel, d.StreamEnabled, d.ViewType = m.as.StreamARN, m.as.StreamLabel, m.as.StreamEnabled, m.as.ViewType
	}
	return d, err
}

func (s *scene) mistaken() (*mistaken, func(*engine.Options)) {
	m := &mistaken{}
	return m, func(o *engine.Options) { m.Database, o.Database = o.Database, m }
}

// TestH24_OldDescription: DescribeTable is eventually consistent. An answer from before the current
// stream must not lead workers back to an ended stream, nor end the current one.
func TestH24_OldDescription(t *testing.T) {
	play(t, 4, 2, func(s *scene) {
		m, option := s.mistaken()
		s.Start("a", option)
		s.until(5*time.Minute, "loaded", func() bool { return s.State().Loaded() })
		old, err := m.Database.Describe(s.ctx, s.Source.Name)
		if err != nil {
			s.failf("%v", err)
		}
		s.Source.EnableStream(2)
		s.gap(5*time.Minute, "the table has a new stream")
		s.readsOn(time.Minute, "1", "2", "3")
		gaps := len(s.Gaps)
		for _, as := range []backfill.Description{old, {}, {StreamARN: old.StreamARN, StreamLabel: old.StreamLabel}} {
			m.as = &as
			s.sleep(8 * time.Minute)
			m.as = nil
			s.sleep(8 * time.Minute)
		}
		if state := s.State(); len(s.Gaps) > gaps || state.StreamEnded || state.Label != s.Source.Stream().Label {
			s.failf("gaps %q, followed %s, ended %v", s.Gaps, state.Label, state.StreamEnded)
		}
		s.readsOn(time.Minute, "1", "2", "3")
		m.as = &old // when the newer one has ended as well
		s.Source.DisableStream()
		s.sleep(8 * time.Minute)
		m.as = nil
		s.until(5*time.Minute, "the end is told", func() bool { return s.State().StreamEnded })
		if state := s.State(); state.Label != s.Source.Stream().Label {
			s.failf("followed %s, gaps %q", state.Label, s.Gaps)
		}
	})
}

// TestH24_DescriptionAgainstStream: if the table's description shows a change for long enough, it
// is trusted, although the stream does not show it.
func TestH24_DescriptionAgainstStream(t *testing.T) {
	play(t, 10, 1, func(s *scene) {
		m, option := s.mistaken()
		s.Start("a", option)
		s.until(5*time.Minute, "loaded", func() bool { return s.State().Loaded() })
		m.as = &backfill.Description{}
		s.gap(15*time.Minute, "the stream is disabled")
	})
}

// TestH24_CalledGoneByMistake: a stream that is listed again after a "not found" is followed again.
// The wrong answer costs a load.
func TestH24_CalledGoneByMistake(t *testing.T) {
	play(t, 10, 1, func(s *scene) {
		s.running("a")
		listings := 0
		s.Source.Fault = func(op, _ string) error {
			if op == "DescribeStream" && listings == 0 {
				listings++
				return model.Fail(op, cdc.NotFound)
			}
			return nil
		}
		s.gap(5*time.Minute, "the stream is gone")
		s.until(5*time.Minute, "followed again", func() bool { return !s.State().StreamEnded })
		s.Source.Stream().Roll(s.only())
		s.readsOn(10*time.Minute, "1", "2")
	})
}

// TestH24_GoneBeforeTheNextIsSeen: a stream was replaced while no worker ran, and no longer exists
// when its table cannot be described. The workers report its end, and its successor once the table
// can be described.
func TestH24_GoneBeforeTheNextIsSeen(t *testing.T) {
	play(t, 10, 1, func(s *scene) {
		s.stop(s.running("a"))
		s.Source.EnableStream(1)
		s.put("k", "unseen")
		s.sleep(25 * time.Hour)
		s.Source.MissingUntil = s.World.Now().Add(time.Hour)
		s.Start("b")
		s.gap(30*time.Minute, "the stream is gone")
		s.until(2*time.Hour, "the new stream is followed", func() bool { return s.State().Label == s.Source.Stream().Label })
		s.gap(time.Minute, "the table has a new stream")
		s.readsOn(time.Hour, "k", "1")
	})
}

// TestAnotherAccount: a worker that finds a table of the same name in another account ends, at its
// start or as soon as it notices, and changes nothing.
func TestAnotherAccount(t *testing.T) {
	play(t, 10, 1, func(s *scene) {
		a := s.running("a")
		s.put("k", "v")
		s.equal(time.Minute)
		foreign := backfill.Description{
			StreamARN: strings.Replace(s.Source.Stream().ARN, ":eu-west-1:", ":us-east-1:", 1), StreamLabel: "2026-01-01T00:00:00.000", StreamEnabled: true,
			ViewType: "NEW_AND_OLD_IMAGES",
		}
		before := s.State()
		m, option := s.mistaken()
		m.as = &foreign
		b := s.Start("b", option)
		var refused *checkpoint.SourceError
		if s.until(time.Minute, "who is elsewhere ends, beside the keeper", func() bool { return b.Over }); !b.Over {
			return
		}
		if err := b.Wait(s.ctx); !errors.As(err, &refused) || refused.Followed != s.Source.Stream().ARN || refused.Found != foreign.StreamARN {
			s.failf("ended with %v", err)
		}
		if state := s.State(); state.Generation != before.Generation || state.StreamARN != before.StreamARN || len(s.Gaps) > 0 {
			s.failf("%+v, gaps %q", state, s.Gaps)
		}
		s.stop(a)
		m, option = s.mistaken()
		c := s.Start("c", option)
		s.put("k", "w")
		s.equal(time.Minute)
		m.as = &foreign
		if s.until(time.Hour, "who finds itself elsewhere ends", func() bool { return c.Over }); !c.Over {
			return
		}
		if err := c.Wait(s.ctx); !errors.As(err, &refused) || len(s.Gaps) > 0 {
			s.failf("ended with %v, gaps %q", err, s.Gaps)
		}
	})
}

// elsewhere is the table in another region: a replica with a stream of its own.
type elsewhere struct {
	engine.Database
	scans int
	fails bool // of scans
}

func (e *elsewhere) arn(here string) string {
	return strings.Replace(here, ":eu-west-1:", ":us-east-1:", 1)
}

func (e *elsewhere) Describe(ctx context.Context, table string) (backfill.Description, error) {
	d, err := e.Database.Describe(ctx, table)
	d.StreamARN, d.StreamLabel = e.arn(d.StreamARN), "there "+d.StreamLabel
	return d, err
}

func (e *elsewhere) Scan(ctx context.Context, table string, segment, total int, after attribute.Item, limit int) (backfill.ScanPage, error) {
	e.scans++
	if e.fails {
		return backfill.ScanPage{}, &cdc.Error{Op: "Scan", Reason: cdc.Unavailable}
	}
	return e.Database.Scan(ctx, table, segment, total, after, limit)
}

// in makes a worker use the region.
func (e *elsewhere) in(o *engine.Options) {
	e.Database, o.Database = o.Database, e
	open := o.Open
	o.Open = func(arn string) cdc.Source {
		return open(strings.Replace(arn, ":us-east-1:", ":eu-west-1:", 1))
	}
}

// TestH148_AWorkerSleepsThroughAMoveToAnotherRegion: a worker is suspended while an operator moves
// the migration to another region, where another worker begins a load and dies. The first wakes up
// with clients of the former region. It ends, copies no items of the former region, and changes
// nothing. Then the other region is followed.
func TestH148_AWorkerSleepsThroughAMoveToAnotherRegion(t *testing.T) {
	play(t, 10, 1, func(s *scene) {
		scans := 0 // of the former region
		a := s.Start("a", func(o *engine.Options) {
			o.Tables[0].ARN = strings.SplitAfter(s.Source.Stream().ARN, "table/Orders")[0]
			o.Database = formerRegion{o.Database, &scans}
		})
		s.put("k", "v")
		s.until(5*time.Minute, "loaded", func() bool { return s.State().Loaded() })
		s.equal(time.Minute)
		a.Pause(10*time.Minute + s.upTo(time.Minute))
		s.sleep(5 * time.Minute)
		ledger, err := s.Migration.Ledger(s.ctx)
		if err != nil {
			s.failf("%v", err)
			return
		}
		there := &elsewhere{fails: true}
		gap := checkpoint.DeclaredGap{Kind: checkpoint.KindSourceMoved, Reason: "for the test"}
		_, err = ledger.Raise(s.ctx, "Orders", s.State().Generation, gap, func(state *checkpoint.TableState) {
			state.Follow(there.arn(state.StreamARN), "there "+state.Label)
		})
		if err != nil {
			s.failf("%v", err)
		}
		again := func(o *engine.Options) { o.Tables[0].LoadAgain = true }
		b := s.Start("b", there.in, again)
		s.until(2*time.Minute, "a load begins in the other region", func() bool { return there.scans > 0 })
		b.Kill()
		before, scanned := s.State(), scans
		s.until(30*time.Minute, "the worker ends", func() bool { return a.Over })
		if !a.Over {
			return
		}
		var refused *checkpoint.SourceError
		if err := a.Wait(s.ctx); !errors.As(err, &refused) {
			s.failf("ended with %v", err)
		}
		if now := s.State(); now.Generation != before.Generation || now.StreamARN != before.StreamARN || scans != scanned {
			s.failf("%d scans of the former region, %+v", scans-scanned, now)
		}
		there.fails = false
		s.Start("c", there.in, again)
		s.put("k", "w")
		s.until(10*time.Minute, "loaded", func() bool { return s.State().Loaded() })
		s.equal(time.Minute)
	})
}

// TestH148_AMigrationReturnsToTheStreamThatItLeft: a worker ends while parents are unread and their
// children wait. The migration follows another region and returns, twice. The shards that were left
// are read on, parents first, and no return loses a change.
func TestH148_AMigrationReturnsToTheStreamThatItLeft(t *testing.T) {
	play(t, 10, 2, func(s *scene) {
		s.Source.PageSize = 1 + s.World.Rand().IntN(5)
		again := func(o *engine.Options) { o.Tables[0].LoadAgain = true }
		write := func(n int) {
			for i := range n {
				s.put(fmt.Sprint(i%7), fmt.Sprint("v", s.World.Steps(), " ", i))
			}
		}
		s.stop(s.running("a"))
		ledger, err := s.Migration.Ledger(s.ctx)
		if err != nil {
			s.failf("%v", err)
			return
		}
		here, there, moves := s.State(), &elsewhere{}, 0
		move := func(arn, label string) {
			moves++
			gap := checkpoint.DeclaredGap{Kind: checkpoint.KindSourceMoved, Reason: fmt.Sprint("move ", moves)}
			if _, err := ledger.Raise(s.ctx, "Orders", s.State().Generation, gap, func(state *checkpoint.TableState) { state.Follow(arn, label) }); err != nil {
				s.failf("%v", err)
			}
		}
		for trip := range 2 {
			write(20)
			s.Source.Stream().Split(s.only())
			write(20)
			a := s.Start(fmt.Sprint("a", trip), again)
			s.sleep(s.upTo(5 * time.Second))
			a.Kill()
			s.sleep(time.Minute)
			move(there.arn(here.StreamARN), "there "+here.Label)
			b := s.Start(fmt.Sprint("b", trip), there.in, again)
			write(20)
			s.sleep(s.upTo(time.Hour))
			b.Kill()
			s.sleep(time.Minute)
			move(here.StreamARN, here.Label)
		}
		generation := s.State().Generation
		s.Start("c", again)
		write(20)
		s.until(20*time.Minute, "loaded", func() bool { return s.State().Loaded() })
		s.equal(5 * time.Minute)
		if now := s.State(); now.Generation != generation {
			s.failf("another gap: %+v", now.Gaps)
		}
	})
}

// formerRegion counts the scans of a worker.
type formerRegion struct {
	engine.Database
	scans *int
}

func (f formerRegion) Scan(ctx context.Context, table string, segment, total int, after attribute.Item, limit int) (backfill.ScanPage, error) {
	*f.scans++
	return f.Database.Scan(ctx, table, segment, total, after, limit)
}

// TestH18_OnceBesideOthers: another worker's shards count as drained when the ledger shows it. So a
// run with --once ends beside a worker that continues and beside one that also ends, and all
// earlier writes are applied.
func TestH18_OnceBesideOthers(t *testing.T) {
	t.Parallel()
	once := func(o *engine.Options) { o.Once = true }
	play(t, 8, 4, func(s *scene) {
		s.running("a")
		s.put("k", "v")
		b := s.Start("b", once)
		s.until(10*time.Minute, "the run beside another ends", func() bool { return b.Over })
		s.equal(0)
	})
	play(t, 8, 8, func(s *scene) {
		a, b := s.Start("a", once), s.Start("b", once)
		for i := range 20 {
			for _, shard := range s.Source.Stream().Open() {
				s.Source.Stream().Roll(shard)
			}
			s.put("k", string(rune('a'+i)))
			s.sleep(4 * time.Second)
		}
		s.until(20*time.Minute, "both end", func() bool { return a.Over && b.Over })
		s.equal(0)
	})
}

// TestH18_OnceBesideAnotherThatStands: a shard is not drained if its reader no longer reports
// anything.
func TestH18_OnceBesideAnotherThatStands(t *testing.T) {
	play(t, 10, 1, func(s *scene) {
		a := s.running("a")
		s.sleep(time.Minute)
		b := s.Start("b", func(o *engine.Options) { o.Once = true })
		s.sleep(time.Second)
		a.Kill()
		s.put("k", "v")
		s.until(20*time.Minute, "the run ends", func() bool { return b.Over })
		s.equal(0)
	})
}
