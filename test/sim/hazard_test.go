package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"

	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
)

// scene is one hazard under one seed: a migration, and a script that runs as a task of the world.
// Each scenario in these files injects one fault at the critical place, and fails without the code
// that handles it.
type scene struct {
	*Migration
	ctx      context.Context
	failures []string
}

// longest is the most virtual time that a scenario may take.
const longest = 100 * time.Hour

// play runs a scenario under a number of seeds, on a stream with a number of shards. Afterwards it
// reports what the checkers found.
func play(t *testing.T, seeds uint64, shards int, script func(s *scene)) {
	t.Helper()
	playWith(t, seeds, func(w *virtual.World) *Migration { return NewMigration(w, shards) }, script)
}

func playWith(t *testing.T, seeds uint64, build func(w *virtual.World) *Migration, script func(s *scene)) {
	t.Helper()
	if brief() {
		seeds = max(1, seeds/brieflyOf)
	}
	for seed := range seeds {
		if s := perform(seed, false, build, script); len(s.failures) > 0 {
			again := perform(seed, true, build, script)
			t.Fatalf("seed %d:\n%s\n%s", seed, strings.Join(s.failures, "\n"), tail(again.World.Trace(), 60))
		}
	}
}

func perform(seed uint64, trace bool, build func(w *virtual.World) *Migration, script func(s *scene)) *scene {
	w := virtual.NewWorld(seed, start, trace)
	s := &scene{Migration: build(w)}
	err := w.Run(longest, func(ctx context.Context) {
		s.ctx = ctx
		script(s)
	})
	if err != nil {
		s.failf("%v", err)
	}
	s.failures = append(s.failures, s.Broken()...)
	return s
}

// tail returns the end of a trace, without lines that only say that a task continued.
func tail(text string, lines int) string {
	all := slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool { return strings.HasSuffix(line, " goes on") })
	all = all[max(0, len(all)-lines):]
	for i, line := range all {
		all[i] = line[:min(len(line), 200)] // the key of a witness has thousands of bytes
	}
	return strings.Join(all, "\n")
}

func (s *scene) failf(format string, args ...any) {
	s.failures = append(s.failures, fmt.Sprintf(format, args...))
}

func (s *scene) sleep(d time.Duration) { _ = task.Sleep(s.ctx, d) }

// upTo returns a random duration in (0, d].
func (s *scene) upTo(d time.Duration) time.Duration { return s.World.UpTo(d) }

// equal waits until both stores are equal.
func (s *scene) equal(within time.Duration) {
	if err := s.Equal(s.ctx, within); err != nil {
		s.failf("%v", err)
	}
}

// until waits for a condition.
func (s *scene) until(within time.Duration, what string, ok func() bool) {
	err := s.Until(s.ctx, within, func() error {
		if ok() {
			return nil
		}
		return fmt.Errorf("never: %s", what)
	})
	if err != nil {
		s.failf("%v", err)
	}
}

// inSync waits until the table is loaded and both stores are equal, and expects no gap.
func (s *scene) inSync(within time.Duration) {
	s.until(within, "loaded", func() bool { return s.State().Loaded() })
	s.equal(within)
	if len(s.Gaps) > 0 {
		s.failf("gaps %q", s.Gaps)
	}
}

// gap waits until a gap is declared whose reason contains text, and expects that the table no
// longer counts as in sync (I5).
func (s *scene) gap(within time.Duration, text string) {
	s.until(within, "a gap about "+text, func() bool { return strings.Contains(strings.Join(s.Gaps, "\n"), text) })
	if state := s.State(); !state.NeedsLoad || state.Loaded() || state.Reason == "" {
		s.failf("after a gap: needs load %v, loaded %v, reason %q", state.NeedsLoad, state.Loaded(), state.Reason)
	}
}

// readsOn expects that a worker is alive and that later changes of every given key are applied,
// whatever the rows hold, even after a gap.
func (s *scene) readsOn(within time.Duration, keys ...string) {
	for _, key := range keys {
		value := fmt.Sprintf("on %d", s.World.Steps())
		s.put(key, value)
		s.until(within, "a later change of "+key, func() bool { return s.value(key) == value })
	}
}

// stop stops a worker cleanly.
func (s *scene) stop(w *Worker) {
	if err := w.Stop(s.ctx); err != nil {
		s.failf("%s ended with %v", w.Name(), err)
	}
}

// running starts a worker and waits until the table is loaded.
func (s *scene) running(name string) *Worker {
	w := s.Start(name)
	s.until(5*time.Minute, "loaded", func() bool { return s.State().Loaded() })
	return w
}

// put stores an item whose partition key and sort key are the given key.
func (s *scene) put(key, value string) { s.Source.Put(item(key, key, value)) }

// putWith stores an item with further attributes: names and values.
func (s *scene) putWith(key string, more ...string) {
	attributes := []attribute.Attribute{{Name: "pk", Value: attribute.String(key)}, {Name: "sk", Value: attribute.String(key)}}
	for i := 0; i < len(more); i += 2 {
		attributes = append(attributes, attribute.Attribute{Name: more[i], Value: attribute.String(more[i+1])})
	}
	s.Source.Put(attribute.NewItem(attributes))
}

func (s *scene) del(key string) { s.Source.Delete(item(key, key, "")) }

// row returns the target's row of a key.
func (s *scene) row(key string) *model.Row { return s.Target.Row("orders", key+"#"+key) }

// value returns the value of put in the target.
func (s *scene) value(key string) string {
	v, _ := s.row(key).Value("d", "value")
	return v
}

// only returns the open shard of a stream that has one.
func (s *scene) only() *model.Shard {
	open := s.Source.Stream().Open()
	return open[len(open)-1]
}

// state returns the state of a shard in the ledger.
func (s *scene) state(shard *model.Shard) string {
	for _, row := range s.Shards() {
		if row.ID == shard.ID {
			return string(row.State)
		}
	}
	return "unknown"
}

// onWrite calls f with a count for each later executed write of a key's row.
func (s *scene) onWrite(key string, f func(n int)) {
	n := 0
	s.Watch = func(table, row string, _, _ *model.Row) {
		if table == "orders" && row == key+"#"+key {
			n++
			f(n)
		}
	}
}

// route sets the network's fates for the next writes of a key's row, one after the other.
func (s *scene) route(key string, fates ...*model.Fate) {
	s.Target.Route = func(c model.Call) *model.Fate {
		if c.Op != "CheckAndMutateRow" || c.Row != key+"#"+key || len(fates) == 0 {
			return nil
		}
		fate := fates[0]
		fates = fates[1:]
		return fate
	}
}

// routeLedger decides the fates of compare-and-sets of ledger rows whose keys begin with prefix, by
// their count.
func (s *scene) routeLedger(prefix string, f func(n int) *model.Fate) {
	n := 0
	s.Target.Route = func(c model.Call) *model.Fate {
		if c.Op != "Swap" || c.Table != model.StateTable || !strings.HasPrefix(c.Row, "default/"+prefix) {
			return nil
		}
		n++
		return f(n)
	}
}
