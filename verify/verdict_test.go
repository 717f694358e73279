package verify

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// told returns a verdict as text: each finding with the row's content for the item, the owner and
// the reason.
func told(v Verdict) string {
	var all []string
	for _, f := range v.Findings {
		state := "gone"
		if f.Version == "" {
			state = "none"
		} else if f.Live {
			state = "live"
		}
		id, _ := f.Keys.Get("id")
		line := strings.Join([]string{brief([]Finding{f})[0], state, "of " + id.Text()}, " ")
		if f.Reason != "" {
			line += ": " + f.Reason
		}
		all = append(all, line)
	}
	for text, is := range map[string]bool{"in flight": v.InFlight, "leaving": v.Leaving, fmt.Sprint("kept ", v.Kept): v.Kept > 0, "unmapped": v.Unmapped} {
		if is {
			all = append(all, text)
		}
	}
	slices.Sort(all)
	return strings.Join(all, "; ")
}

// look checks a row of table t once.
func (w *world) look(c *Comparison, row string) string {
	w.Helper()
	looks, err := c.Look(context.Background(), Place{Table: "t", Row: row})
	if err != nil || looks[0].At.IsZero() {
		w.Fatal(looks, err)
	}
	return told(looks[0].Verdict)
}

// timed writes the image of an item without its second assertion.
func (w *world) timed(i attribute.Item) {
	w.Helper()
	row := transform.Load(w.m, []attribute.Item{i}, 7, noon).Rows[0]
	row.Version = row.Version.WithoutCount()
	w.apply(row)
}

// held returns the version of a row.
func (w *world) held(row string) transform.Version {
	w.Helper()
	var held transform.Version
	if err := w.target.ReadSet(context.Background(), "t", []string{row}, func(r sink.Row) error { held = r.Held(); return nil }); err != nil {
		w.Fatal(err)
	}
	return held
}

// Each state of a row and its item has one verdict.
func TestVerdicts(t *testing.T) {
	one, two := item("a", "v=1"), item("a", "v=2")
	cells := func(w *world, value string) { w.damage("t", "a", set("d", "id", "a"), set("d", "v", value)) }
	removed := func(w *world) { w.load(noon, one); w.change(5, one, attribute.Item{}) }
	for name, c := range map[string]struct {
		expire transform.Expire
		owned  bool
		late   time.Duration
		source []attribute.Item
		target func(w *world)
		want   string
	}{
		"as it should be":                  {source: []attribute.Item{one}, target: func(w *world) { w.load(noon, one) }},
		"nothing on either side":           {},
		"never written":                    {source: []attribute.Item{one}, want: "missing a d:id,d:v none of a"},
		"never written, dual writes":       {source: []attribute.Item{one}, late: time.Minute, want: "missing a d:id,d:v none of a: the application deleted or wrote the whole row later than dual_writes.settle, 1m0s after its commit"},
		"removed, though the item is":      {source: []attribute.Item{one}, target: removed, want: "missing a d:id,d:v gone of a"},
		"removed, and cells are there":     {source: []attribute.Item{one}, target: func(w *world) { removed(w); cells(w, "2") }, want: "different a d:v gone of a: the row has a tombstone, although the item exists"},
		"removed, and the cells are right": {source: []attribute.Item{one}, target: func(w *world) { removed(w); cells(w, "1") }, want: "different a gone of a: the row has a tombstone, although the item exists"},
		"right cells without a version":    {source: []attribute.Item{one}, target: func(w *world) { cells(w, "1") }, want: "different a none of a: the row has no version"},
		"a version without cells":          {source: []attribute.Item{one}, target: func(w *world) { w.load(noon, one); w.damage("t", "a", sink.Op{Kind: sink.DeleteFamily, Family: "d"}) }, want: "different a d:id,d:v live of a"},
		"an older image":                   {source: []attribute.Item{two}, target: func(w *world) { w.load(noon, one) }, want: "different a d:v live of a"},
		"a tombstone at its very version": {source: []attribute.Item{two}, target: func(w *world) {
			w.load(noon, one)
			w.damage("t", "a", set(sink.GoneFamily, "v", string(w.held("a"))))
		}, want: "different a d:v live of a"},
		"an older image at count 0": {source: []attribute.Item{two}, target: func(w *world) { w.timed(one) }, want: "in flight"},
		"no item":                   {target: func(w *world) { w.load(noon, one) }, want: "extra a d:id,d:v live of a"},
		"no item, at count 0":       {target: func(w *world) { w.timed(one) }, want: "leaving"},
		"a tombstone":               {target: removed},
		"a tombstone, and cells":    {target: func(w *world) { removed(w); cells(w, "2") }, want: "extra a d:id,d:v gone of a: cells were written after the item was removed"},
		"cells of nobody":           {target: func(w *world) { cells(w, "1") }, want: "foreign a d:id,d:v none of : replicator did not write these cells"},
		"cells of a table of ours":  {owned: true, target: func(w *world) { cells(w, "1") }, want: "extra a d:id,d:v none of a: the row has no version"},
		"a family of others":        {source: []attribute.Item{one}, target: func(w *world) { w.load(noon, one); w.damage("t", "a", set("x", "v", "1")) }},
		"kept":                      {expire: transform.KeepExpired, target: func(w *world) { w.load(noon, one) }, want: "kept 1"},
		"kept without a version":    {expire: transform.KeepExpired, owned: true, target: func(w *world) { cells(w, "1") }, want: "kept 1"},
		"kept, but removed by a change": {expire: transform.KeepExpired, target: func(w *world) { removed(w); cells(w, "2") },
			want: "extra a d:id,d:v gone of a: cells were written after the item was removed"},
	} {
		w := newWorld(t, mapping(t, func(s *transform.Spec) {
			if c.expire != 0 {
				s.TTL = transform.TTL{Attribute: "ttl", Expire: c.expire}
			}
		}, "{id} > d"))
		w.source.put(c.source...)
		if c.target != nil {
			c.target(w)
		}
		comparison := w.comparison()
		comparison.Owned, comparison.Late = c.owned, c.late
		if got := w.look(comparison, "a"); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// H54: an item that expires within five minutes counts as expired on both sides. An item that
// expires later, or differs, does not.
func TestH54_WhatIsAboutToExpire(t *testing.T) {
	for after, soon := range map[time.Duration]bool{-time.Hour: true, 4 * time.Minute: true, 6 * time.Minute: false} {
		i := item("a", fmt.Sprintf("ttl#%d", noon.Add(after).Unix()), "v=1")
		bare := item("a", fmt.Sprintf("ttl#%d", noon.Add(after).Unix()))
		for _, expire := range []transform.Expire{transform.ExpireByGC, transform.FollowDeletes} {
			look := func(target ...attribute.Item) string {
				w := newWorld(t, mapping(t, func(s *transform.Spec) {
					s.TTL = transform.TTL{Attribute: "ttl", Expire: expire}
					s.Families[0].GC.Age = 1000 * time.Hour
				}, "{id} > d"))
				w.source.put(i)
				w.load(noon, target...)
				c := w.comparison()
				c.Now = func(context.Context) time.Time { return noon }
				return w.look(c, "a")
			}
			if got := look(); (got == "") != soon {
				t.Errorf("absent, %s, %v: %s", after, expire, got)
			}
			if got := look(bare); (got == "") != (soon && expire == transform.ExpireByGC) {
				t.Errorf("a cell is absent, %s, %v: %s", after, expire, got)
			}
			if got := look(item("a", fmt.Sprintf("ttl#%d", noon.Add(after).Unix()), "v=2")); !strings.HasPrefix(got, "different a d:v") {
				t.Errorf("a cell differs, %s, %v: %s", after, expire, got)
			}
		}
	}
}

// A write of the application under its own number, without a stream record, is reported as such,
// whatever happened to the row.
func TestH41_WritesOfTheApplicationAreNamed(t *testing.T) {
	m := ranked(t)
	i := item("a", "rev#7", "v=1")
	for _, remove := range []bool{false, true} {
		w := newWorld(t, m)
		w.source.put(item("a", "rev#6", "v=0"))
		row := transform.Load(m, []attribute.Item{i}, 7, noon).Rows[0]
		row.Version = row.Version.Rank().AppliedBy()
		if remove {
			row.Remove, row.Cells = true, nil
		}
		w.apply(row)
		if got := w.look(w.comparison(), "a"); !strings.Contains(got, "the application wrote the row, and no stream record followed") {
			t.Errorf("removed %t: %s", remove, got)
		}
	}
}

// ranked returns the mapping of a table whose items carry an application's number.
func ranked(t *testing.T) *transform.Mapping {
	t.Helper()
	cfg, err := config.Parse("r.yaml", []byte("version: 1\nsource: { region: us-east-1 }\ntarget: { project: p, instance: i }\n"+
		"tables: [{ from: Orders, to: t, families: { d: maxversions=1 } }]\ndual_writes: { version_attribute: rev }\n"), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	m, err := cfg.Tables[0].Mapping([]transform.KeyAttribute{{Name: "id", Type: attribute.KindS}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Beside shares of another source, nothing shows whose the other cells are, and foreign cells are
// reported. The row's own share is still judged. An item that can no longer be mapped is recorded.
func TestRowsOfTwoSources(t *testing.T) {
	merged := func(source, rule string) *transform.Mapping {
		return mapping(t, func(s *transform.Spec) { s.Source, s.Merged = source, true }, rule)
	}
	w := newWorld(t, merged("S", "s{c} > e:{id}"))
	other := &world{T: t, source: w.source, target: w.target, m: merged("Other", "s{c} > d:{id}")}
	w.source.put(item("a", "c=1", "v=2"))
	w.load(noon, item("a", "c=1", "v=1"))
	other.load(noon, item("o", "c=1"))
	w.damage("t", "s1", set("e", "stray", "1"))
	if got, want := w.look(w.comparison(), "s1"), "different s1/a e:a live of a"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	w.source.put(item("a", "v=2")) // it has no address
	if got, want := w.look(w.comparison(), "s1"), "extra s1/a e:a live of a; unmapped"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// denying is a source that returns images together with the answer that there is no item.
type denying struct{ *source }

func (d denying) Get(ctx context.Context, table string, keys attribute.Item) (attribute.Item, bool, error) {
	i, _, err := d.source.Get(ctx, table, keys)
	return i, false, err
}

// Only the source's answer decides whether an item exists, whatever else it returns.
func TestAnAbsentItemHasNoImage(t *testing.T) {
	w := newWorld(t, mapping(t, nil, "{id} > d"))
	w.source.put(item("a", "v=1"))
	w.load(noon, item("a", "v=1"))
	c := w.comparison()
	c.Source = denying{w.source}
	if got := w.look(c, "a"); got != "extra a d:id,d:v live of a" {
		t.Error(got)
	}
}
