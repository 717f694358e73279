package status

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

const stateLease = 15 * time.Second

// status returns the status on a machine without a worker, from the ledger alone.
func (s *scene) status(ctx context.Context) *Document {
	s.Helper()
	reader, err := checkpoint.Open(ctx, s.store, "test", checkpoint.Options{ReadOnly: true, Lease: stateLease})
	s.check(err)
	in, err := readTable(ctx, reader, "Orders")
	s.check(err)
	in.Parked = s.parked
	l := &Input{Cfg: testConfig(), Tables: []config.Table{{From: "Orders", To: "orders"}}, Inputs: []TableInput{in}}
	return l.Judge(nothingSet, "", s.world.Now())
}

// golden compares text and document with the expected ones, and validates the document.
func (s *scene) golden(ctx context.Context, name string) *Document {
	s.Helper()
	m := s.status(ctx)
	var text bytes.Buffer
	s.check(m.Render(&text, true))
	s.expect(name+".txt", text.Bytes())
	document, err := json.MarshalIndent(m, "", "  ")
	s.check(err)
	validateStatus(s.T, document)
	if bytes.Contains(document, []byte("secret")) {
		s.Errorf("%s: item data in a status", name)
	}
	shown, err := json.MarshalIndent(told(reflect.ValueOf(*m)), "", "  ")
	s.check(err)
	s.expect(name+".json", append(shown, '\n'))
	return m
}

// told returns a document's value without its zero members. So a golden document shows only what
// its scene is about. The schema, which checks the complete document, requires all members.
func told(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Pointer:
		return told(v.Elem())
	case reflect.Slice:
		list := []any{}
		for i := range v.Len() {
			list = append(list, told(v.Index(i)))
		}
		return list
	case reflect.Struct:
		if v.Type() != reflect.TypeFor[time.Time]() {
			members := map[string]any{}
			tellMembers(v, members)
			return members
		}
	}
	return v.Interface()
}

func tellMembers(v reflect.Value, into map[string]any) {
	for i := range v.NumField() {
		field, member := v.Type().Field(i), v.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case field.Anonymous:
			tellMembers(member, into)
		case name == "" || name == "-" || member.IsZero() || member.Kind() == reflect.Slice && member.Len() == 0:
		default:
			into[name] = told(member)
		}
	}
}

// expect compares a document with its golden file. All golden files are in one archive, so a new
// column changes only that file.
func (s *scene) expect(name string, got []byte) {
	s.Helper()
	const path = "testdata/documents.txtar"
	archive, err := txtar.ParseFile(path)
	s.check(err)
	i := slices.IndexFunc(archive.Files, func(f txtar.File) bool { return f.Name == name })
	if *update {
		if i < 0 {
			i, archive.Files = len(archive.Files), append(archive.Files, txtar.File{Name: name})
		}
		archive.Files[i].Data = got
		s.check(os.WriteFile(path, txtar.Format(archive), 0o644))
	}
	if i < 0 || !bytes.Equal(got, archive.Files[i].Data) {
		s.Errorf("%s of %s differs; got:\n%s", name, path, got)
	}
}

func TestStatusBeforeTheStart(t *testing.T) {
	m := judged(TableInput{})
	document, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	validateStatus(t, document)
	for _, text := range []string{`"lag_seconds":null`, `"changes_per_second":null`, `"verify":null`, `"generation":null`, `"workers":[]`} {
		if !strings.Contains(string(document), text) {
			t.Errorf("no %s in %s", text, document)
		}
	}
}

// TestStatusOfALoadInParts: the figures are the sums of the parts, and the reason why it is slow is
// shown.
func TestStatusOfALoadInParts(t *testing.T) {
	play(t, func(ctx context.Context, s *scene) {
		l := s.worker("a")
		_, err := l.UpdateTable(ctx, "Orders", func(t *checkpoint.TableState) error {
			t.Generation, t.Adopted, t.Listed, t.Label, t.StreamARN = 7, 7, 7, "L", "arn/L"
			t.Load = checkpoint.Load{Generation: 7, Number: 1, Parts: 2, StartedAt: task.Now(ctx), Estimate: 1000}
			return nil
		})
		s.check(err)
		part, err := l.TakePart(ctx, checkpoint.Part{Source: "Orders", Generation: 7, Number: 1, Phase: checkpoint.PhaseCopy, Total: 2})
		s.check(err)
		s.sleep(ctx, 11*time.Second)
		part.Note(checkpoint.Trouble{Step: "copy", Cause: "target CPU 74% > 70%", Since: task.Now(ctx)})
		s.check(part.Commit(ctx, checkpoint.PartProgress{Items: 330, Units: 40}))
		m := s.status(ctx)
		if c := m.Tables[0].Copy; c.State != copyRunning || *c.Items != 330 || *c.ItemsPerSecond != 30 || c.String() != "33%" {
			t.Errorf("%+v", c)
		}
		if notes := m.notes(); len(notes) != 1 || notes[0] != "Load of Orders: target CPU 74% > 70%" {
			t.Errorf("%q", notes)
		}
		_, err = l.PauseLoad(ctx, "Orders", checkpoint.PausedByOperator)
		s.check(err)
		m = s.status(ctx)
		if c := m.Tables[0].Copy; c.ItemsPerSecond != nil || m.NextSteps[len(m.NextSteps)-1].Command != "replicator backfill resume --table Orders" {
			t.Errorf("%+v, %v", c, m.NextSteps)
		}
	})
}

// TestStatusWhileCopying: the copy's progress, rate, remaining time and waits, as the coordinator
// saved them. None is shown once the coordinator has been silent.
func TestStatusWhileCopying(t *testing.T) {
	play(t, func(ctx context.Context, s *scene) {
		l := s.worker("a")
		s.begin(ctx, l, "s1")
		row, err := l.CoordinatorLease(ctx, "Orders")
		s.check(err)
		coordinator, err := l.TakeCoordinatorLease(ctx, row)
		s.check(err)
		lease := s.take(ctx, "a", "s1")
		s.check(lease.Commit(ctx, s.read(ctx, lease, 40, noon.Add(-time.Second), 1.25)))
		part := s.copied(ctx, l, 0)
		for range 12 { // two minutes
			s.sleep(ctx, 10*time.Second)
			now := task.Now(ctx)
			pace := checkpoint.Pace{At: now, Rate: 2.5, Throttled: []checkpoint.Throttled{{Reason: "rows per second", Seconds: 30, Since: noon, Last: now}}}
			s.check(coordinator.SavePace(ctx, pace))
			s.check(part.Commit(ctx, checkpoint.PartProgress{Items: 300, Position: []byte(`{"pk":{"S":"secret"}}`)}))
			s.check(lease.Commit(ctx, s.read(ctx, lease, 40, now.Add(-2*time.Second), 1250)))
		}
		s.sleep(ctx, time.Second)
		m := s.golden(ctx, "copying")
		c := m.Tables[0].Copy
		if m.Phase != PhaseCopy || *c.Items != 300 || c.ETASeconds == nil || int(*c.ETASeconds) != 282 || len(m.Tables[0].Throttled) != 1 {
			t.Errorf("%+v", m.Tables[0])
		}
		coordinator.Note(checkpoint.Trouble{Step: "copy", Cause: "DynamoDB: denied", Since: task.Now(ctx).Add(-time.Minute)})
		s.check(coordinator.SavePace(ctx, checkpoint.Pace{}))
		if notes := s.status(ctx).notes(); len(notes) != 1 || notes[0] != "Trouble: Orders: cannot copy (for 1m00s): DynamoDB: denied" {
			t.Errorf("%q", notes)
		}
		s.sleep(ctx, time.Minute)
		if m := s.status(ctx); m.Tables[0].Copy.ETASeconds != nil || m.Tables[0].ChangesPerSecond != nil || !m.Workers[0].Silent || len(m.Tables[0].Troubles) > 0 {
			t.Errorf("figures of a silent worker: %+v", m.Tables[0])
		}
	})
}

// TestStatusUnderSplitsWithAFrozenWorker: two workers read the children of a split, and one
// freezes. Its figures are shown as old, and the table's as unknown. Then the other worker takes
// over, and all figures are current again.
func TestStatusUnderSplitsWithAFrozenWorker(t *testing.T) {
	play(t, func(ctx context.Context, s *scene) {
		a := s.worker("a")
		s.worker("b")
		s.begin(ctx, a, "s1")
		s.loaded(ctx, a)
		root := s.take(ctx, "a", "s1")
		s.create(ctx, a, "s2", "s1") // rolled
		if m := s.status(ctx); m.Shards[1].Why.Code != WhyParent || !strings.Contains(m.Shards[1].Why.Text, "s1, which is reading") {
			t.Errorf("%+v", m.Shards[1].Why)
		}
		s.check(root.Finish(ctx, s.read(ctx, root, 5, noon.Add(-time.Second), 0)))
		rolled := s.take(ctx, "b", "s2")
		s.check(rolled.Finish(ctx, s.read(ctx, rolled, 9, noon, 0)))
		for _, id := range []string{"s3", "s4"} { // split
			s.create(ctx, a, id, "s2")
		}
		s.create(ctx, a, "s5", "s4")
		if m := s.status(ctx); m.Shards[2].Why.Code != WhyNobody || m.Leases != 0 || m.Tables[0].ChangesPerSecond != nil {
			t.Errorf("%+v %d", m.Shards[2].Why, m.Leases)
		}
		left, right := s.take(ctx, "a", "s3"), s.take(ctx, "b", "s4")
		s.sleep(ctx, time.Second)
		s.check(left.Commit(ctx, s.read(ctx, left, 20, task.Now(ctx), 40)))
		s.check(right.Commit(ctx, s.read(ctx, right, 30, task.Now(ctx), 60)))
		m := s.golden(ctx, "splits")
		if r := m.Tables[0].ChangesPerSecond; r == nil || *r != 100 || m.Phase != PhaseInSync || len(m.Workers) != 2 || m.Leases != 2 {
			t.Errorf("%v %s %+v", r, m.Phase, m.Workers)
		}

		for range 10 { // b is frozen, a continues
			s.sleep(ctx, 5*time.Second)
			s.check(left.Commit(ctx, s.read(ctx, left, 0, time.Time{}, 10)))
		}
		m = s.golden(ctx, "frozen")
		frozen := m.Shards[3]
		if frozen.ID != "s4" || frozen.Why.Code != WhySilent || !frozen.Old || frozen.ChangesPerSecond != nil || !m.Workers[1].Silent || m.Workers[0].Silent {
			t.Errorf("%+v, workers %+v", frozen, m.Workers)
		}
		if table := m.Tables[0]; table.ChangesPerSecond != nil || !table.Old || *table.LagSeconds != 50 || table.LagEstimated {
			t.Errorf("%+v", table)
		}

		lease := s.take(ctx, "a", "s4")
		s.check(lease.Commit(ctx, s.read(ctx, lease, 0, time.Time{}, 0)))
		m = s.status(ctx)
		if table := m.Tables[0]; table.ChangesPerSecond == nil || *table.ChangesPerSecond != 10 || table.Old || len(m.Workers) != 1 || len(m.NextSteps) != 0 {
			t.Errorf("after the takeover: %+v, workers %+v, %+v", table, m.Workers, m.NextSteps)
		}
		if err := right.Commit(ctx, s.read(ctx, right, 31, task.Now(ctx), 0)); !errors.Is(err, checkpoint.ErrLeaseLost) {
			t.Errorf("the frozen worker still writes: %v", err)
		}
	})
}

// TestStatusAfterAGap: a trimmed shard with parked items and a worker in trouble.
func TestStatusAfterAGap(t *testing.T) {
	play(t, func(ctx context.Context, s *scene) {
		a := s.worker("a")
		s.begin(ctx, a, "s1", "s2")
		s.loaded(ctx, a)
		first, second := s.take(ctx, "a", "s1"), s.take(ctx, "a", "s2")
		s.check(first.Commit(ctx, s.read(ctx, first, 5, noon.Add(-time.Second), 1)))
		s.check(second.Commit(ctx, s.read(ctx, second, 5, noon.Add(-time.Second), 1)))
		s.create(ctx, a, "s3", "s1")
		s.sleep(ctx, 20*time.Hour)
		s.check(first.Declare(ctx, checkpoint.Trimmed, "GetRecords: trimmed"))
		if m := s.status(ctx); m.Tables[0].Shards["gap"] != 1 || m.Shards[0].Why.Code != whyGap || m.Shards[2].Why.Code != WhyParent {
			t.Errorf("before it is declared: %+v, %+v", m.Tables[0].Shards, m.Shards)
		}
		_, err := a.Raise(ctx, "Orders", 7, checkpoint.DeclaredGap{Kind: checkpoint.KindStream, Shard: "s1", Reason: "GetRecords: trimmed"}, nil)
		s.check(err)
		s.parked = 2
		second = s.take(ctx, "a", "s2")
		second.Note(checkpoint.Trouble{Step: "read a shard", Cause: "DynamoDB: denied", Since: task.Now(ctx).Add(-3 * time.Minute)})
		s.sleep(ctx, 5*time.Second)
		s.check(second.Commit(ctx, func() checkpoint.Progress { shard := second.Shard(); return shard.Progress() }()))
		m := s.golden(ctx, "gap")
		table := m.Tables[0]
		if m.Phase != PhaseCopy || !table.LoadNeeded || table.Gaps != 1 || table.LastGap == nil || *table.LastGap.Shard != "s1" || table.Parked != 2 {
			t.Errorf("%+v", table)
		}
		if len(table.Troubles) != 1 || m.Shards[1].Why.Code != WhyTrouble || table.Troubles[0].Shards != 1 || !table.Old {
			t.Errorf("%+v %+v", table.Troubles, m.Shards[1].Why)
		}
		s.check(a.Reopen(ctx, s.row(ctx, "s1"), func() checkpoint.TableState { t, _, err := a.Table(ctx, "Orders"); s.check(err); return t }()))
		if m := s.status(ctx); m.Tables[0].Shards["gap"] != 0 || m.Shards[0].Why.Code != WhyNobody || !m.Tables[0].LoadNeeded {
			t.Errorf("reopened: %+v", m.Shards[0])
		}
	})
}

// TestH13_StatusOfAStreamThatNobodyLists: one of two lineages ended, and its children are not
// listed. The ledger has the time at which a listing last showed it open.
func TestH13_StatusOfAStreamThatNobodyLists(t *testing.T) {
	play(t, func(ctx context.Context, s *scene) {
		a := s.worker("a")
		s.begin(ctx, a, "s1", "s2")
		s.loaded(ctx, a)
		first, second := s.take(ctx, "a", "s1"), s.take(ctx, "a", "s2")
		s.check(a.NoteOpen(ctx, "Orders", "L", []string{"s1", "s2"}, noon, map[string]bool{"s1": true, "s2": true}))
		s.sleep(ctx, time.Minute)
		s.check(first.Finish(ctx, s.read(ctx, first, 5, noon.Add(-time.Hour), 0)))
		s.check(second.Commit(ctx, s.read(ctx, second, 0, time.Time{}, 0)))
		if m := s.status(ctx); m.Phase != PhaseInSync || m.Shards[0].Why != nil || *m.Tables[0].LagSeconds != 0 {
			t.Errorf("just now: %s, %+v", m.Phase, m.Tables[0])
		}
		for range 20 * 60 * 6 {
			s.sleep(ctx, 10*time.Second)
			s.check(second.Commit(ctx, s.read(ctx, second, 0, time.Time{}, 0)))
		}
		m := s.golden(ctx, "childless")
		if h := *m.Tables[0].HeadroomSeconds; h != (24*time.Hour-20*time.Hour-time.Minute-checkpoint.Slack).Seconds() || m.Shards[0].Why.Code != WhyChildren {
			t.Errorf("headroom %v, %+v", h, m.Shards[0].Why)
		}
		s.create(ctx, a, "s3", "s1")
		// And no worker has read it.
		if m := s.status(ctx); m.Phase != PhaseCopy || m.Shards[0].Why != nil || len(m.Tables[0].Troubles) > 0 {
			t.Errorf("a child is listed: %s, %+v", m.Phase, m.Tables[0])
		}
	})
}

func TestLineageIsDrawn(t *testing.T) {
	parents := map[string]string{"a": "gone", "b": "a", "c": "b", "d": "c", "e": "b", "f": "e", "g": "", "h": "d"}
	var shards []Shard
	for _, id := range []string{"h", "g", "f", "e", "d", "c", "b", "a"} {
		shards = append(shards, Shard{ID: id, Parent: terminal.Known(parents[id])})
	}
	var got strings.Builder
	for _, d := range drawn(shards) {
		got.WriteString(d.prefix + d.shard.ID + "\n")
	}
	const want = `a
↳ b
├─ c
│  ↳ d
│  ↳ h
└─ e
   ↳ f
g
`
	if got.String() != want {
		t.Errorf("got\n%s", got.String())
	}
}

// TestSchemaNamesEveryMember: a member that the schema lacks, or does not require, is refused, so
// the schema must grow with the document.
func TestSchemaNamesEveryMember(t *testing.T) {
	var schema struct {
		Properties struct {
			Tables, Shards struct {
				Items struct {
					Required   []string
					Properties map[string]any
				}
			}
		}
	}
	if err := json.Unmarshal(Schema, &schema); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		of                  any
		required, described []string
	}{
		{Table{}, schema.Properties.Tables.Items.Required, slices.Sorted(maps.Keys(schema.Properties.Tables.Items.Properties))},
		{Shard{}, schema.Properties.Shards.Items.Required, slices.Sorted(maps.Keys(schema.Properties.Shards.Items.Properties))},
	} {
		document, err := json.Marshal(c.of)
		members := map[string]any{}
		if err == nil {
			err = json.Unmarshal(document, &members)
		}
		want := slices.Sorted(maps.Keys(members))
		if err != nil || !slices.Equal(slices.Sorted(slices.Values(c.required)), want) || !slices.Equal(c.described, want) {
			t.Errorf("%v: %T has %q, the schema requires %q and describes %q", err, c.of, want, c.required, c.described)
		}
	}
}
