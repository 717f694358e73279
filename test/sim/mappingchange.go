package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// MappingOptions configure a run with mappings that are replaced.
type MappingOptions struct {
	Trace bool
	// Forgets makes the ledger store nothing of a former mapping, as an older version did.
	Forgets bool
	// Fast makes the first load a fast one, if the mapping allows it. There are no neighbours then.
	Fast bool
}

// variant is a possible mapping of a run. A vague one puts cells into families and rows in which
// another mapping put other items' cells, so that old cells cannot be distinguished.
type variant struct {
	name, rules string
	vague       bool
}

// variants are mappings of one source table to orders and further tables.
var variants = []variant{
	{"plain", "families: { d: maxversions=1 }", false},
	{"reversed", `families: { d: maxversions=1 }, rules: [{ row_key: "{sk}#{pk}" }]`, false},
	{"family", "families: { e: maxversions=1 }", false},
	{"renamed", `families: { d: maxversions=1, e: maxversions=1 }, rules: [{ columns: { value: "d:moved", extra0: "d:value", "*": e } }]`, false},
	{"dropped", "families: { d: maxversions=1 }, drop_attributes: [n, extra1]", false},
	{"elsewhere", "families: { d: maxversions=1 }, to: further", false},
	{"moving", `families: { d: maxversions=1 }, rules: [{ row_key: "{value}#{pk}#{sk}" }]`, false},
	{"by kind", `families: { d: maxversions=1, e: maxversions=1 }, rules: [{ when: "kind = 'a'", row_key: "x#{pk}#{sk}", columns: { "*": d } }, { when: "kind = 'b'", to: further, row_key: "{value}#{pk}#{sk}", columns: { "*": e } }, { columns: { "*": e } }]`, false},
	{"twice", `families: { d: maxversions=1, e: maxversions=1 }, rules: [{ write: [{ columns: { "*": d } }, { to: third, row_key: "{sk}#{pk}", columns: { "*": e } }] }]`, false},
	{"ignoring", `families: { d: maxversions=1 }, rules: [{ when: "kind = 'a'", ignore: true }, { columns: { "*": d } }]`, false},
	{"folded", `families: { f: maxversions=1 }, rules: [{ row_key: "{pk}", cell: { to: "f:{sk}", as: json } }]`, false},
	{"folded among", `families: { d: maxversions=1 }, rules: [{ row_key: "{pk}", cell: { to: "d:{sk}", as: json } }]`, true},
	{"folded otherwise", `families: { f: maxversions=1 }, rules: [{ row_key: "{sk}", cell: { to: "f:{pk}", as: json } }]`, true},
}

// changeTables and changeFamilies are the target's schema at the beginning.
var (
	changeTables   = []string{"orders", "further", "third"}
	changeFamilies = []string{"d", "e", "f"}
)

// chapter is the mapping during a part of a run.
type chapter struct {
	variant
	mapping *transform.Mapping
	hash    string
}

// SimulateMappingChanges plays a table whose mapping is replaced repeatedly: during loads and
// sweeps, twice in a row, and back. Meanwhile items change, workers are killed, paused and stopped,
// shards roll and split, the stream loses changes, requests are late, and former target tables and
// families are deleted. In the end every row equals its item under the last mapping. No row, column
// or witness of a former mapping is left (H102), or the table's state says that some cannot be
// attributed.
func SimulateMappingChanges(seed uint64, o MappingOptions) Report {
	c := newChangeRun(seed, o)
	return c.report(seed, c.play, &c.failures)
}

// changeRun is one run.
type changeRun struct {
	*Migration
	options  MappingOptions
	rng      *rand.Rand // of the plan; events draw from the world
	chapters []chapter  // those that have begun; the last is the current one
	crew     []*changeWorker
	hired    int
	slow     float64 // rows per second of loads; 0: no limit
	items    map[string]attribute.Item
	written  int
	deleted  map[string]bool // families, as table/family, that an operator deleted after a change
	failures []string
}

type changeWorker struct {
	*Worker
	hash string
}

func newChangeRun(seed uint64, o MappingOptions) *changeRun {
	rng := stream(seed, "mapping changes")
	w := virtual.NewWorld(seed, simEpoch, o.Trace)
	w.StepLimit = stepLimit
	c := &changeRun{options: o, rng: rng, items: map[string]attribute.Item{}, deleted: map[string]bool{}}
	first := c.draw("")
	c.Migration = NewMigrationBy(w, 1+rng.IntN(3), first.mapping)
	for _, table := range changeTables {
		c.Target.Create(table, slices.Concat(changeFamilies, []string{sink.LiveFamily, sink.GoneFamily})...)
	}
	c.chapters = []chapter{first}
	c.Supersedes = true
	// Checkpoints would be judged by the mapping of their time, which is not stored here.
	c.FromTopic = true
	c.Timing = engine.Timing{Poll: time.Duration(1+rng.IntN(4)) * time.Second}
	if rng.IntN(2) == 0 {
		c.slow = 0.005 + rng.Float64()/10
	}
	c.Target.LoseReply, c.Target.Late, c.Target.Twice = 0.01*rng.Float64(), 0.01*rng.Float64(), 0.01*rng.Float64()
	c.Target.LateBy = 2 * time.Minute
	down := 0.02 * rng.Float64()
	c.Source.Fault = func(string, string) error {
		if w.Chance(down) {
			return model.Fail("GetRecords", cdc.Throttled)
		}
		return nil
	}
	return c
}

// draw returns a mapping other than the named one.
func (c *changeRun) draw(not string) chapter {
	for {
		v := variants[c.rng.IntN(len(variants))]
		if v.name == not || v.vague && c.rng.IntN(4) > 0 {
			continue
		}
		to := "orders"
		if strings.Contains(v.rules, "}, to: further") {
			v.rules, to = strings.Replace(v.rules, ", to: further", "", 1), "further"
		}
		entry := entryOf("{ from: Orders, to: " + to + ", " + v.rules + " }")
		m, err := entry.Mapping([]transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}, {Name: "sk", Type: attribute.KindS}})
		if err != nil {
			panic(fmt.Sprintf("%s: %v", v.name, err))
		}
		return chapter{v, m, "hash of " + v.name + "."}
	}
}

func (c *changeRun) present() chapter { return c.chapters[len(c.chapters)-1] }

// hire starts a worker under the current mapping, with permission to accept it.
func (c *changeRun) hire() {
	c.hired++
	at := c.present()
	c.crew = append(c.crew, &changeWorker{c.Start(fmt.Sprintf("worker%d", c.hired), func(o *engine.Options) {
		t := &o.Tables[0]
		t.Mapping, t.MappingHash, t.AcceptMapping, t.AdoptRows, t.LoadAgain = at.mapping, at.hash, true, true, true
		if c.options.Fast {
			t.LoadMode = checkpoint.AutoLoad
		}
		if c.slow > 0 {
			t.Limits.RowsPerSecond = &c.slow
		}
		if !c.options.Forgets {
			o.Restore = config.RestoreMapping
		}
	}), at.hash})
}

// play is the script.
func (c *changeRun) play(ctx context.Context) {
	for range 3 + c.rng.IntN(12) {
		c.change()
	}
	// Rows of a neighbour, which no mapping may touch.
	for _, key := range []string{"", "a#", "k0#s", "zz"} {
		if !c.options.Fast {
			c.neighbour(key)
		}
	}
	crew := 1 + c.rng.IntN(3)
	for range crew {
		c.hire()
	}
	c.World.Go("faults", c.trouble)
	for n := 1 + c.rng.IntN(4); n > 0 && len(c.failures) == 0; n-- {
		c.live(ctx, c.pause())
		c.replace(ctx)
	}
	c.live(ctx, time.Duration(5+c.rng.IntN(40))*time.Minute)
	c.await(ctx)
}

// pause draws how long a mapping lasts: from seconds, in which its load has hardly begun, to hours.
func (c *changeRun) pause() time.Duration {
	switch c.rng.IntN(4) {
	case 0:
		return time.Duration(c.rng.IntN(60)) * time.Second
	case 1:
		return time.Duration(c.rng.IntN(10)) * time.Minute
	}
	return time.Duration(10+c.rng.IntN(60)) * time.Minute
}

// live lets the application change items for some time.
func (c *changeRun) live(ctx context.Context, d time.Duration) {
	until := c.World.Elapsed() + d
	for c.World.Elapsed() < until {
		if c.rng.IntN(3) > 0 {
			c.change()
		}
		if task.Sleep(ctx, min(c.World.UpTo(time.Minute), until-c.World.Elapsed()+time.Second)) != nil {
			return
		}
	}
}

// change changes an item.
func (c *changeRun) change() {
	rng := c.World.Rand()
	c.written++
	keys := []attribute.Attribute{{Name: "pk", Value: attribute.String(fmt.Sprintf("k%d", rng.IntN(4)))}, {Name: "sk", Value: attribute.String([]string{"s", "t", "k1"}[rng.IntN(3)])}}
	name := keys[0].Value.Text() + "/" + keys[1].Value.Text()
	if c.items[name].Exists() && rng.IntN(4) == 0 {
		delete(c.items, name)
		c.Source.Delete(attribute.NewItem(keys))
		return
	}
	list := append(keys, attribute.Attribute{Name: "value", Value: attribute.String(fmt.Sprintf("v%d", rng.IntN(3)))},
		attribute.Attribute{Name: "n", Value: attribute.String(fmt.Sprint(c.written))}, attribute.Attribute{Name: "kind", Value: attribute.String([]string{"a", "b", "c"}[rng.IntN(3)])})
	if rng.IntN(2) == 0 {
		list = append(list, attribute.Attribute{Name: fmt.Sprintf("extra%d", rng.IntN(3)), Value: attribute.String(fmt.Sprint(c.written))})
	}
	c.items[name] = attribute.NewItem(list)
	c.Source.Put(c.items[name])
}

// replace replaces the mapping: new workers start, and the others end at some time.
func (c *changeRun) replace(ctx context.Context) {
	state, was := c.State(), c.present()
	next := c.draw(was.name)
	if len(c.chapters) > 1 && c.rng.IntN(4) == 0 {
		if next = c.chapters[len(c.chapters)-2]; next.name == was.name {
			return
		}
		c.World.Inject("mapping changed back")
	}
	c.World.Inject("mapping changed")
	switch state.Stage() {
	case checkpoint.StageCopying:
		c.World.Inject("mapping changed while copying")
	case checkpoint.StageSweeping:
		c.World.Inject("mapping changed while sweeping")
	}
	if len(state.Former) > 0 {
		c.World.Inject("mapping changed before a sweep")
	}
	c.World.Tracef("the mapping is %s now, after %s", next.name, was.name)
	for _, table := range next.mapping.Tables() {
		if c.Target.Tables[table] == nil {
			c.Target.Create(table, slices.Concat(changeFamilies, []string{sink.LiveFamily, sink.GoneFamily})...)
		}
		for _, family := range next.mapping.Managed(table) {
			if !slices.Contains(c.Target.Families(table), family) {
				_ = model.Target{Bigtable: c.Target}.CreateFamily(ctx, table, family)
			}
		}
	}
	c.chapters = append(c.chapters, next)
	c.Mapping = next.mapping
	old := slices.Clone(c.crew)
	c.crew = nil
	for range len(old) {
		c.hire()
	}
	for _, w := range old {
		switch c.rng.IntN(4) {
		case 0:
			w.Kill()
		case 1:
			w.Pause(c.World.UpTo(20 * time.Minute))
		case 2:
			c.World.Go("stop", func(ctx context.Context) { _ = w.Stop(ctx) })
		}
	}
	if c.rng.IntN(4) == 0 {
		c.delete(ctx)
	}
}

// delete lets an operator delete a table or family of former mappings.
func (c *changeRun) delete(ctx context.Context) {
	_ = task.Sleep(ctx, c.World.UpTo(15*time.Minute))
	if c.State().MappingHash != c.present().hash {
		return // no worker has accepted the change yet
	}
	for _, table := range changeTables {
		switch {
		case c.Target.Tables[table] == nil:
		case !slices.Contains(c.Mapping.Tables(), table) && c.rng.IntN(2) == 0:
			c.World.Inject("former target table deleted")
			c.Target.Remove(table)
		case slices.Contains(c.Mapping.Tables(), table):
			for _, family := range changeFamilies {
				if slices.Contains(c.Mapping.Managed(table), family) || !slices.Contains(c.Target.Families(table), family) || c.rng.IntN(2) == 0 {
					continue
				}
				c.World.Inject("former family deleted")
				c.deleted[table+"/"+family] = true
				for _, key := range c.Target.Rows(table) {
					_ = model.Target{Bigtable: c.Target}.Write(table, key, false, sink.Op{Kind: sink.DeleteFamily, Family: family})
				}
				_ = model.Target{Bigtable: c.Target}.DropFamily(ctx, table, family)
			}
		}
	}
}

// neighbour writes a row of another source table to every target table.
func (c *changeRun) neighbour(key string) {
	for _, table := range changeTables {
		ops := []sink.Op{
			{Kind: sink.SetCell, Family: sink.LiveFamily, Qualifier: sink.OriginColumn, Value: []byte("Other/S:YQ")},
			{Kind: sink.SetCell, Family: sink.LiveFamily, Qualifier: sink.VersionColumn, Value: []byte(transform.LoadVersion(1, simEpoch))},
			{Kind: sink.SetCell, Family: "d", Qualifier: "theirs", Value: []byte("x")},
		}
		if err := (model.Target{Bigtable: c.Target}).Write(table, "other#"+key, false, ops...); err != nil {
			panic(err)
		}
	}
}

// trouble injects the faults of workers, shards and the stream.
func (c *changeRun) trouble(ctx context.Context) {
	rng := c.World.Rand()
	for len(c.failures) == 0 {
		if task.Sleep(ctx, c.World.UpTo(30*time.Minute)) != nil || len(c.crew) == 0 {
			return
		}
		i := rng.IntN(len(c.crew))
		switch w := c.crew[i]; rng.IntN(7) {
		case 0, 1:
			c.World.Inject("process killed")
			w.Kill()
			c.crew = slices.Delete(c.crew, i, i+1)
			c.hire()
		case 2:
			c.World.Inject("process paused")
			w.Pause(c.World.UpTo(15 * time.Minute))
		case 3:
			c.World.Go("stop", func(ctx context.Context) { _ = w.Stop(ctx) })
			c.crew = slices.Delete(c.crew, i, i+1)
			c.hire()
		case 4:
			c.World.Inject("shard rolled")
			open := c.Source.Stream().Open()
			c.Source.Stream().Roll(open[rng.IntN(len(open))])
		case 5:
			if open := c.Source.Stream().Open(); len(open) < 5 {
				c.World.Inject("shard split")
				c.Source.Stream().Split(open[rng.IntN(len(open))])
			}
		case 6:
			if rng.IntN(3) == 0 && len(c.crew) > 0 {
				c.lose(ctx)
			}
		}
	}
}

// lose stops all readers for some time, and then makes the stream lose its records.
func (c *changeRun) lose(ctx context.Context) {
	old := c.crew
	for _, w := range old {
		w.Kill()
	}
	c.crew = nil
	_ = task.Sleep(ctx, c.World.UpTo(10*time.Minute))
	placed := map[string]bool{}
	for _, s := range c.Shards() {
		placed[s.ID] = s.Finished() || !s.Position.IsZero()
	}
	if !slices.ContainsFunc(c.Source.Stream().Shards, func(sh *model.Shard) bool { return !placed[sh.ID] && !sh.Gone && len(sh.Records) > sh.Trimmed }) {
		c.World.Inject("stream trimmed unread")
		c.Source.Stream().Trim(c.World.Now())
	}
	for range max(1, len(old)-len(c.crew)) {
		c.hire()
	}
}
