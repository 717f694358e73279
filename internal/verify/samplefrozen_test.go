package verify

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/kit"
	"github.com/dynamodb-bigtable/replicator/verify"
)

// failing is a source whose scans fail from one on, and which counts segments.
type failing struct {
	engine.Database
	from     int // the first scan that fails, from 1; 0 for none
	err      error
	scans    int
	segments map[int]bool
	totals   map[int]bool
}

func (f *failing) Scan(ctx context.Context, table string, segment, total int, after attribute.Item, limit int) (backfill.ScanPage, error) {
	f.scans++
	f.segments[segment], f.totals[total] = true, true
	if f.from > 0 && f.scans >= f.from || segment < 0 || segment >= total || limit != 1 {
		return backfill.ScanPage{}, f.err
	}
	return f.Database.Scan(ctx, table, segment, total, after, limit)
}

// mute is a target that answers no read.
type mute struct {
	verify.Target
	err error
}

func (m mute) ReadRows(context.Context, string, sink.Range, func(sink.Row) error) error { return m.err }

func (m mute) ReadSet(context.Context, string, []string, func(sink.Row) error) error { return m.err }

func (m mute) SampleKeys(context.Context, string) ([]string, error) { return nil, m.err }

// A sample of a table with frozen writes compares items that it read, each once, and finds those
// whose row is missing or differs.
func TestASampleOfATableWithFrozenWrites(t *testing.T) {
	playScene(t, "abcdefgh", func(s *scene) {
		state := s.Table("Orders")
		began := s.Now()
		for name, c := range map[string]struct {
			items   int64
			asked   int
			segment int // the number of segments
		}{"few items": {2, 50, 1}, "many items": {400, 5, 100}, "more than segments": {8_000_000, 3, mostSegments}} {
			source := &failing{Database: s.pages, segments: map[int]bool{}, totals: map[int]bool{}}
			o := s.options()
			o.Database = source
			r, err := SampleFrozen(s.Ctx, o, state, c.items, c.asked)
			s.Must(err)
			if r.Items > 8 || c.items == 2 && r.Items == 0 || !r.Stored().Clean() || source.scans != c.asked || len(source.totals) != 1 || !source.totals[c.segment] || r.Source != "Orders" || r.Began.Before(began) || r.Ended.Before(r.Began) {
				t.Errorf("%s: %+v after %d scans of %v segments", name, r, source.scans, source.totals)
			}
			if c.asked == 3 && len(source.segments) < 2 {
				t.Errorf("every scan is of the same segment")
			}
		}
		s.Sleep(time.Minute)
		s.StopWorker()
		s.Must(s.Source.Put(s.Ctx, "Orders", kit.Item("a", "total=1"))) // never applied
		r, err := SampleFrozen(s.Ctx, s.options(), state, 2, 200)
		s.Must(err)
		if r.Different != 1 || r.Differing() != 1 || len(r.Findings) != 1 || r.Findings[0].Row != "a" || !r.Findings[0].Keys.Exists() {
			t.Errorf("%+v: %+v", r.Counts, r.Findings)
		}
	})
}

// A comparison with frozen writes fails with the database. It never calls a table clean that it did
// not read.
func TestAFrozenComparisonFailsWithTheDatabase(t *testing.T) {
	playScene(t, "abc", func(s *scene) {
		state := s.Table("Orders")
		away := &cdc.Error{Op: "Scan", Reason: cdc.Denied, Err: errors.New("denied")}
		for _, from := range []int{1, 3} {
			o := s.options()
			o.Database = &failing{Database: s.pages, from: from, err: away, segments: map[int]bool{}, totals: map[int]bool{}}
			if _, err := SampleFrozen(s.Ctx, o, state, 400, 4); !errors.Is(err, away) {
				t.Errorf("a sample whose scan %d fails: %v", from, err)
			}
			if _, err := CompareFrozen(s.Ctx, o, state, 100, []byte("key")); !errors.Is(err, away) {
				t.Errorf("a comparison whose scan %d fails: %v", from, err)
			}
		}
		o := s.options()
		o.Rows = mute{s.Target, away}
		_, sampled := SampleFrozen(s.Ctx, o, state, 2, 4)
		_, compared := CompareFrozen(s.Ctx, o, state, 100, []byte("key"))
		if !errors.Is(sampled, away) || !errors.Is(compared, away) {
			t.Errorf("a target that does not answer: %v, %v", sampled, compared)
		}
		ended, end := context.WithCancel(s.Ctx)
		end()
		if _, err := SampleFrozen(ended, s.options(), state, 2, 4); err == nil {
			t.Error("a sample that was interrupted has a result")
		}
	})
}

// A tail that cannot be read to its end explains no row: the error is returned, and nothing is kept
// for later rows.
func TestATailThatCannotBeRead(t *testing.T) {
	for name, c := range map[string]struct {
		stream  tailed
		drained bool
	}{
		"a drain":  {tailed{listed: []string{"s"}}, true},
		"a denial": {tailed{listed: []string{"s"}, denied: true}, false},
	} {
		stream := c.stream
		stream.shards = map[string][]cdc.Change{"s": changed("a", "b")}
		tailScene(t, &stream, func(ctx context.Context, v *Verifier) {
			drain, end := context.WithCancel(ctx)
			if c.drained {
				end()
			}
			defer end()
			minute := func() engine.Lifecycle {
				work, cancel := task.WithTimeout(ctx, time.Minute)
				t.Cleanup(cancel)
				return engine.Lifecycle{Drain: drain, Work: work}
			}
			if _, err := v.readTail(minute(), checkpoint.TableState{Source: "Orders", Label: "L"}, nil); err == nil {
				t.Errorf("%s: the tail is read", name)
			}
			waits, err := v.unapplied(minute(), task.Now(ctx))
			if err == nil || waits != nil || v.tail.names != nil {
				t.Errorf("%s: %v, %v", name, waits != nil, err)
			}
		})
	}
}

// A verify is not worked on while its record cannot be read, and no change counts as applied.
func TestALookFailsWithTheLedger(t *testing.T) {
	playScene(t, "a", func(s *scene) {
		s.begin(verify.Quiet, verify.Scope{})
		v := s.options().verifier(nil)
		away := errors.New("away")
		s.Store.OnRead = func(context.Context, string) error { return away }
		state, of, err := (kind{v}).Look(s.Ctx)
		applied, unread := v.applied(s.Ctx, s.Now().Add(-time.Hour))
		s.Store.OnRead = nil
		if !errors.Is(unread, away) || applied {
			t.Errorf("applied %v, %v", applied, unread)
		}
		if !errors.Is(err, away) || of.Total != 0 {
			t.Errorf("%+v, %+v, %v", state.Verify, of, err)
		}
	})
}
