package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// neighbours are two pipelines with separate sources that write one target table. Their row keys
// look alike, so each sees rows of the other as orphan rows. In half of the runs the target is
// declared shared. In the others the second pipeline is refused.
type neighbours struct {
	rng      *rand.Rand
	shared   bool
	both     [2]*Migration
	workers  [2]*Worker
	hired    int
	removed  bool // a row was removed
	peaceful bool // no more kills and no more loads
	failures []string
}

// neighbourItems is the number of items in each source. Some of them stay and are never deleted.
const neighbourItems = 6

// simulateNeighbours plays two pipelines under one seed: repeated loads with their sweeps, changes,
// and killed workers.
func simulateNeighbours(seed uint64, trace bool) Report {
	w := virtual.NewWorld(seed, simEpoch, trace)
	w.StepLimit = stepLimit
	n := &neighbours{rng: stream(seed, "neighbours")}
	n.shared = n.rng.IntN(2) == 0
	for i, name := range []string{"north", "south"} {
		m := NewMigrationBy(w, 1, n.mapping(name), "d")
		m.name = name
		m.Lease = 6 * time.Minute
		m.Timing = engine.Timing{Poll: time.Duration(1+n.rng.IntN(4)) * time.Minute, Soon: 10 * time.Second, Pass: 3 * time.Minute, List: 8 * time.Minute}
		if n.both[i] = m; i > 0 {
			m.Target = n.both[0].Target
		}
	}
	target := n.both[0].Target
	target.Executed = n.look
	target.LoseReply, target.Twice = 0.02*n.rng.Float64(), 0.02*n.rng.Float64()
	return n.both[0].report(seed, n.play, &n.failures)
}

func (n *neighbours) mapping(name string) *transform.Mapping {
	return mapping(transform.Spec{
		Source: name, Table: "both", PrimaryKey: []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}, {Name: "sk", Type: attribute.KindS}},
		Families: []transform.Family{{Name: "d"}}, Merged: n.shared,
		Rules: []transform.Rule{{Writes: []transform.Write{{RowKey: template("{pk}#{sk}"), Columns: []transform.ColumnRule{{Attribute: "*", To: "d"}}}}}},
	})
}

func (n *neighbours) fail(format string, args ...any) {
	n.failures = append(n.failures, "T6: "+fmt.Sprintf(format, args...))
}

// look checks every write: the row of an item that stays is never removed.
func (n *neighbours) look(table, key string, before, after *model.Row) {
	if table != "both" {
		return
	}
	_, had := before.Value(sink.LiveFamily, sink.VersionColumn)
	if _, has := after.Value(sink.LiveFamily, sink.VersionColumn); !had || has {
		return
	}
	n.removed = true
	for _, m := range n.both {
		for _, item := range m.Source.Items() {
			if sk, _ := item.Get("sk"); sk.Text() == "stays" && rowOf(item) == key {
				n.fail("row %q of an item of %s that was never deleted is removed", key, m.name)
			}
		}
	}
}

func rowOf(item attribute.Item) string {
	pk, _ := item.Get("pk")
	sk, _ := item.Get("sk")
	return pk.Text() + "#" + sk.Text()
}

// write changes an item of a source.
func (n *neighbours) write(of int) {
	m := n.both[of]
	key := []attribute.Attribute{{Name: "pk", Value: attribute.String(fmt.Sprint(m.name, n.rng.IntN(neighbourItems)))},
		{Name: "sk", Value: attribute.String([]string{"stays", "goes"}[n.rng.IntN(2)])}}
	if key[1].Value.Text() == "goes" && n.rng.IntN(2) == 0 {
		m.Source.Delete(attribute.NewItem(key))
		return
	}
	m.Source.Put(attribute.NewItem(append(key, attribute.Attribute{Name: "value", Value: attribute.String(fmt.Sprint(n.rng.IntN(1000)))})))
}

// hire starts a worker of one of the pipelines.
func (n *neighbours) hire(of int) {
	n.hired++
	n.workers[of] = n.both[of].Start(fmt.Sprintf("%s-worker%d", n.both[of].name, n.hired), func(o *engine.Options) {
		t := &o.Tables[0]
		t.Shared, t.AdoptRows, t.LoadAgain = n.shared, true, true
	})
}

// ask approves a sweep of one pipeline, or requests another load and sweep.
func (n *neighbours) ask(ctx context.Context, of int) {
	m := n.both[of]
	ledger, err := m.Ledger(ctx)
	if err != nil {
		return
	}
	switch state := m.State(); {
	case state.Load.Sweep.Waiting:
		_, err = ledger.ApproveSweep(ctx, m.Source.Name)
		m.World.Inject("sweep approved")
	case state.Loaded() && state.Stage() != checkpoint.StageSweeping && !n.peaceful:
		_, err = ledger.AskLoad(ctx, m.Source.Name, n.rng.IntN(2) == 0)
	}
	if err != nil {
		m.World.Tracef("nobody can ask for a load of %s: %v", m.name, err)
	}
}

func (n *neighbours) play(ctx context.Context) {
	w := n.both[0].World
	for range 40 {
		n.write(0)
		n.write(1)
	}
	n.hire(0)
	second := time.Duration(n.rng.IntN(3)) * time.Hour
	for end := w.Elapsed() + 10*time.Hour; w.Elapsed() < end && len(n.failures) == 0; {
		if task.Sleep(ctx, time.Duration(1+n.rng.IntN(15))*time.Minute) != nil {
			return
		}
		of := n.rng.IntN(2)
		n.write(of)
		switch at := n.workers[of]; {
		case of == 1 && at == nil:
			if w.Elapsed() >= second {
				n.hire(1)
			}
		case at.Over || at.Dead():
			n.hire(of)
		case n.rng.IntN(12) == 0:
			w.Inject("process killed")
			at.Kill()
		case n.rng.IntN(4) == 0:
			n.ask(ctx, of)
		}
	}
	n.judge(ctx)
}

// judge waits until each target row equals its item. If the target is not declared shared, at least
// one pipeline was refused and reports this.
func (n *neighbours) judge(ctx context.Context) {
	target := n.both[0].Target
	target.LoseReply, target.Twice = 0, 0
	n.peaceful = true
	refused := 0
	for i, m := range n.both {
		if at := n.workers[i]; at == nil || at.Dead() {
			n.hire(i)
		}
		err := m.Until(ctx, 4*time.Hour, func() error {
			n.ask(ctx, i)
			var stranger *engine.StrangerError
			switch state := m.State(); {
			case !n.shared && (state.Load.PausedForStranger() || errors.As(n.workers[i].Err, &stranger)):
				return nil
			case !state.Loaded() || state.Stage() == checkpoint.StageSweeping || state.Stage() == checkpoint.StageCopying:
				return fmt.Errorf("%s is not loaded and swept: %s, %v", m.name, state.Stage(), n.workers[i].Err)
			}
			return n.unequal(m)
		})
		if err != nil && len(n.failures) == 0 {
			n.fail("%v", err)
		}
		var stranger *engine.StrangerError
		if m.State().Load.PausedForStranger() || errors.As(n.workers[i].Err, &stranger) {
			refused++
			m.World.Inject("pipeline refused beside another")
		}
	}
	if n.removed {
		n.both[0].World.Inject("row removed beside another pipeline")
	}
	if (refused > 0) == n.shared {
		n.fail("%d pipelines are refused, shared: %v", refused, n.shared)
	}
}

// unequal returns how the rows of a source's items differ from them.
func (n *neighbours) unequal(m *Migration) error {
	want := map[string]string{}
	for i := range neighbourItems {
		for _, sk := range []string{"stays", "goes"} {
			want[fmt.Sprintf("%s%d#%s", m.name, i, sk)] = ""
		}
	}
	for _, item := range m.Source.Items() {
		value, _ := item.Get("value")
		want[rowOf(item)] = value.Text()
	}
	for key, value := range inOrder(want) {
		if have, _ := m.Target.Row("both", key).Value("d", "value"); have != value {
			return fmt.Errorf("row %q has value %q, want %q", key, have, value)
		}
	}
	return nil
}

// template and mapping parse templates and mappings of this file, which are valid.
func template(text string) *transform.Template { return must(transform.ParseTemplate(text)) }

func mapping(spec transform.Spec) *transform.Mapping { return must(transform.New(spec)) }

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
