package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/pipeline"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// keptRules keep older cells: of items' own rows, of rows of another table that they move between, of
// cells in rows that many items share. Items go from one to another.
func keptRules() *transform.Mapping {
	cell := transform.Write{RowKey: template("wide#{pk | hash(1)}"), Cell: &transform.CellRule{Family: "c", Qualifier: template("{pk}#{sk}"), As: transform.AsJSON, Only: []string{"a", "b"}}}
	all := func(rowKey, family string) transform.Write {
		return transform.Write{RowKey: template(rowKey), Columns: []transform.ColumnRule{{Attribute: "*", To: family}}}
	}
	moved := all("moved#{place}#{pk}#{sk}", "b")
	moved.Table = "second"
	return mapping(transform.Spec{
		Source: "Orders", Table: "orders", PrimaryKey: []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}, {Name: "sk", Type: attribute.KindS}},
		Families: []transform.Family{{Name: "a"}, {Name: "b"}, {Name: "c"}}, KeepVersions: true,
		Rules: []transform.Rule{
			{Name: "both", When: when(`kind = "both"`), Writes: []transform.Write{cell, moved}},
			{Name: "row", When: when(`kind = "row"`), Writes: []transform.Write{all("own#{pk}#{sk}", "a")}},
			{Name: "ignored", When: when(`kind = "ignored"`), Ignore: true},
		},
	})
}

// history is what every row should hold of its items in the end, from the writes as they were made.
type history struct {
	m      *Migration
	writes []model.Write
}

func (h *history) watch() {
	h.m.Source.Written = func(w model.Write) { h.writes = append(h.writes, w) }
}

// instant is the time of the cells of a change, in microseconds: the latest of its shard and the shards before it so far.
func (h *history) instant(w model.Write) int64 {
	latest := int64(0)
	for shard, upTo := w.Shard, &w.Sequence; shard != nil; shard, upTo = h.m.Source.Shard(shard.Label, shard.Parent), nil {
		for _, r := range shard.Records {
			if upTo == nil || r.Change.Sequence.Compare(*upTo) <= 0 {
				latest = max(latest, r.Change.Time.UnixMicro())
			}
		}
	}
	return latest
}

// cells are the lines that should stand in the target: row, column and cells from newest to oldest.
func (h *history) cells() []string {
	type place struct{ row, column string }
	items := map[string]map[place][]model.Cell{}
	for _, w := range h.writes {
		now := map[place]string{}
		if w.New.Exists() {
			if placed, err := h.m.Mapping.Map(w.New, time.Time{}); err == nil {
				for _, row := range placed.Rows {
					for _, c := range row.Cells {
						now[place{row.Table + "/" + row.Row, c.Family + ":" + c.Qualifier}] = string(c.Value)
					}
				}
			}
		}
		have := items[w.ID]
		if have == nil {
			have = map[place][]model.Cell{}
			items[w.ID] = have
		}
		maps.DeleteFunc(have, func(p place, _ []model.Cell) bool { _, stays := now[p]; return !stays })
		at := h.instant(w)
		for p, value := range now {
			cells := slices.DeleteFunc(have[p], func(c model.Cell) bool { return c.Micros >= at })
			if len(cells) == 0 || cells[len(cells)-1].Value != value {
				cells = append(cells, model.Cell{Micros: at, Value: value})
			}
			have[p] = cells
		}
	}
	var lines []string
	for _, have := range items {
		for p, cells := range have {
			slices.Reverse(cells)
			lines = append(lines, fmt.Sprintf("%s %s %v", p.row, p.column, cells))
		}
	}
	slices.Sort(lines)
	return lines
}

// applied reports whether every shard is applied to its end.
func (h *history) applied() bool {
	rows := h.m.Shards()
	return !slices.ContainsFunc(h.m.Source.Stream().Shards, func(sh *model.Shard) bool {
		n := len(sh.Records)
		return n > 0 && !slices.ContainsFunc(rows, func(row checkpoint.Shard) bool {
			return row.ID == sh.ID && row.Label == sh.Label && row.Position.Compare(sh.Records[n-1].Change.Sequence) >= 0
		})
	})
}

func (h *history) target() []string {
	var lines []string
	for _, table := range h.m.Mapping.Tables() {
		for _, key := range h.m.Target.Rows(table) {
			for _, c := range h.m.Target.Row(table, key).Cols {
				if c.Family != sink.LiveFamily && c.Family != sink.GoneFamily {
					if len(c.Cells) > 1 {
						h.m.World.Inject("history kept")
					}
					lines = append(lines, fmt.Sprintf("%s/%s %s %v", table, key, c.Family+":"+c.Qualifier, c.Cells))
				}
			}
		}
	}
	slices.Sort(lines)
	return lines
}

func keptBuild(w *virtual.World) *Migration {
	m := swarmBuild(w)
	m.Mapping = keptRules()
	m.Source.View = "NEW_AND_OLD_IMAGES"
	if w.Rand().IntN(2) == 0 {
		m.Source.PageSize = 1 + w.Rand().IntN(3) // changes of one second come in several pages
	}
	for _, table := range m.Mapping.Tables() {
		m.Target.Create(table, "a", "b", "c", sink.LiveFamily, sink.GoneFamily)
	}
	return m
}

// keptSwarm is a run like swarm, after which every cell that ever should have been left behind is compared.
func keptSwarm(s *scene) {
	h := &history{m: s.Migration}
	h.watch()
	put := func() {
		pick := func(n int) int { return s.World.Rand().IntN(n) }
		key := fmt.Sprint(pick(3))
		if pick(30) == 0 {
			s.del(key)
			return
		}
		kind := "row" // mostly, as is an item's place: what moves begins anew
		if pick(6) == 0 {
			kind = []string{"both", "both", "both", "ignored", "of no rule"}[pick(5)]
		}
		if key == "0" && kind == "row" {
			kind = "both"
		}
		more := []string{"kind", kind, "place", fmt.Sprint(pick(12) / 11)}
		for _, name := range []string{"a", "b"} {
			if pick(10) > 0 {
				more = append(more, name, fmt.Sprint(pick(2)))
			}
		}
		s.putWith(key, more...)
	}
	s.troubled(3*time.Second, put, func() {
		s.until(10*time.Minute, "applied to the end", h.applied) // rows of few values may be equal before
	})
	want, have := h.cells(), h.target()
	for i := range min(len(want), len(have)) {
		if want[i] != have[i] {
			s.failf("history: have %s\n         want %s", have[i], want[i])
			return
		}
	}
	if len(want) != len(have) {
		s.failf("history: %d columns, want %d", len(have), len(want))
	}
}

// historySeeds is how many whole systems TestH51_H83_SwarmOfKeptVersions plays.
const historySeeds = max(2, 16/fewer)

// H51, H83: whatever goes wrong, the target holds each value that an attribute had since it last appeared, at its time, once: nothing of a
// load that read ahead of the stream, nothing twice after a replay, and nothing of before an absence.
func TestH51_H83_SwarmOfKeptVersions(t *testing.T) {
	kept := 0
	for seed := range uint64(historySeeds) {
		s := perform(seed, false, keptBuild, keptSwarm)
		if len(s.failures) > 0 {
			again := perform(seed, true, keptBuild, keptSwarm)
			t.Fatalf("seed %d:\n%s\n%s", seed, strings.Join(s.failures, "\n"), tail(again.World.Trace(), 300))
		}
		if s.World.Injected()["history kept"] > 0 {
			kept++
		}
	}
	if kept < historySeeds*3/4 {
		t.Errorf("%d of %d runs kept anything", kept, historySeeds)
	}
}

// H70: with the first write of a row in a new generation ends what it kept in the one before, whoever of the older one still writes; rows
// that nothing touches stay as they are.
func TestH70_HistoryEndsWithItsGeneration(t *testing.T) {
	playWith(t, 20, func(w *virtual.World) *Migration {
		m := NewMigration(w, 1)
		m.Mapping = keptRules()
		for _, table := range m.Mapping.Tables() {
			m.Target.Create(table, "a", "b", "c", sink.LiveFamily, sink.GoneFamily)
		}
		m.Target.Late, m.Target.LateBy = 0.3, 20*time.Second
		return m
	}, func(s *scene) {
		cells := func(key string) int { return len(s.Target.Row("orders", "own#"+key+"#"+key).Cells("a", "a")) }
		old := s.running("old")
		for _, value := range []string{"1", "2", "3"} {
			s.putWith("x", "kind", "row", "a", value)
			s.putWith("y", "kind", "row", "a", value)
			s.sleep(2 * time.Second)
		}
		s.until(2*time.Minute, "three values of each", func() bool { return cells("x") == 3 && cells("y") == 3 })
		s.until(2*time.Minute, "a checkpoint behind them", (&history{m: s.Migration}).applied) // what is read again in a new generation is written in it
		s.putWith("x", "kind", "row", "a", "4")                                                // some of it reaches the new generation, some does not
		s.sleep(s.upTo(2 * time.Second))
		s.Start("new", func(o *pipeline.Options) { o.Tables[0].MappingHash, o.Tables[0].AcceptMapping = "h2", true })
		s.until(2*time.Minute, "another generation", func() bool { return s.State().MappingHash == "h2" && s.State().Adopted == s.State().Generation })
		s.sleep(2 * time.Second)
		s.putWith("x", "kind", "row", "a", "5")
		s.until(2*time.Minute, "the newest value", func() bool {
			value, _ := s.Target.Row("orders", "own#x#x").Value("a", "a")
			return value == "5"
		})
		s.sleep(s.Target.LateBy + time.Second)
		if n := cells("x"); n > 2 { // 4 may have been read again in the new generation
			s.failf("%d values of x", n)
		}
		if n := cells("y"); n != 3 {
			s.failf("%d values of y", n)
		}
		if !old.Over {
			s.failf("the worker of the old mapping goes on")
		}
	})
}
