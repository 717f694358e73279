package status

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// The migration is in sync when all of its tables are, whichever is the last.
func TestPhaseOfSeveralTables(t *testing.T) {
	synced, copying := followed(), followed()
	copying.State.Load.DoneAt = time.Time{}
	for _, c := range []struct {
		want   string
		inputs []TableInput
	}{
		{PhaseInSync, []TableInput{synced, synced}}, {PhaseCopy, []TableInput{copying, synced}}, {PhaseCopy, []TableInput{synced, copying}}, {phasePrepare, []TableInput{{}, synced}},
	} {
		l := &Input{Cfg: testConfig(), Tables: []config.Table{{From: "Orders"}, {From: "Billing"}}, Inputs: c.inputs}
		if got := l.Judge(nothingSet, "", noon).Phase; got != c.want {
			t.Errorf("%+v: %s", c.inputs, got)
		}
	}
}

// Of several shards in trouble, the earliest determines the time. The same applies to shards whose
// children are not listed. A silent worker's last report may be outdated, so it is shown as silent.
func TestTroublesOfSeveralShards(t *testing.T) {
	failing := func(id string, since, written time.Duration) checkpoint.Shard {
		s := checkpoint.Shard{ID: id, Label: "L", State: checkpoint.Reading, Owner: "w" + id, ReadAt: ago(written)}
		s.WrittenAt, s.Trouble = ago(written), checkpoint.Trouble{Step: "read a shard", Cause: "DynamoDB: denied", Since: ago(since)}
		return s
	}
	shards := []checkpoint.Shard{failing("1", time.Minute, time.Second), failing("2", time.Hour, time.Second), failing("3", 2*time.Minute, time.Second), failing("4", 3*time.Hour, 2*time.Hour)}
	got := judged(TableInput{Found: true, State: loadedTable(), Shards: shards}).Tables[0]
	if len(got.Troubles) != 1 || got.Troubles[0].Shards != 3 || !got.Troubles[0].Since.Equal(ago(time.Hour)) || got.silent != 1 {
		t.Errorf("%+v, %d silent", got.Troubles, got.silent)
	}
	ended := func(id string, before time.Duration) checkpoint.Shard {
		return checkpoint.Shard{ID: id, Label: "L", State: checkpoint.Done, DoneAt: ago(before), ReadAt: ago(before), FirstRead: ago(before + time.Hour)}
	}
	for _, shards := range [][]checkpoint.Shard{{ended("1", time.Hour), ended("2", 2*time.Hour)}, {ended("1", 2*time.Hour), ended("2", time.Hour)}} {
		if got := judged(TableInput{Found: true, State: loadedTable(), Shards: shards}).Tables[0]; !got.Childless.Equal(ago(2 * time.Hour)) {
			t.Errorf("childless since %s", got.Childless)
		}
	}
}

// A shard that was never read is as far behind as its parent's end. That end may have come long
// before it was read: after an outage, or while the target accepts no writes, hours of changes wait
// in the parent, and the stream is about to drop them.
func TestLagOfAShardThatIsNotReadYet(t *testing.T) {
	parent := checkpoint.Shard{ID: "1", Label: "L", State: checkpoint.Done, DoneAt: ago(time.Minute), ReadAt: ago(time.Minute), FirstRead: ago(23 * time.Hour)}
	child := checkpoint.Shard{ID: "2", Parent: "1", Label: "L", State: checkpoint.Reading, Owner: "w"}
	for _, c := range []struct {
		name        string
		event, open time.Duration // before noon; 0: none
		lag         time.Duration
	}{
		{"it was read as it was written", time.Minute, 2 * time.Minute, time.Minute},
		{"nothing was written to it, and it was listed open until its end", 5 * time.Hour, 2 * time.Minute, time.Minute},
		{"it ended in an outage", 20 * time.Hour, 21 * time.Hour, 20*time.Hour + checkpoint.Slack},
		{"it ended in an outage, and had nothing", 0, 21 * time.Hour, 21*time.Hour + checkpoint.Slack},
	} {
		p, listings := parent, checkpoint.Listings{At: ago(time.Second), Open: map[string]time.Time{"1": ago(c.open)}}
		if c.event > 0 {
			p.EventTime = ago(c.event)
		}
		got := judged(TableInput{Found: true, State: loadedTable(), Shards: []checkpoint.Shard{p, child}, Listings: listings}).Tables[0]
		if got.LagSeconds == nil || *got.LagSeconds != c.lag.Seconds() || *got.HeadroomSeconds != (24*time.Hour-c.lag).Seconds() || !got.LagEstimated {
			t.Errorf("%s: lag %s, headroom %s; want %s", c.name, lagText(got.LagSeconds, got.LagEstimated), got.headroomText(), c.lag)
		}
	}
}

// Of several gaps the last one is shown.
func TestTheLastGapIsTold(t *testing.T) {
	state := loadedTable()
	state.Gaps = []checkpoint.DeclaredGap{{At: ago(time.Hour), Shard: "1", Reason: "the first"}, {At: ago(time.Minute), Shard: "2", Reason: "the last"}}
	if gap := judged(TableInput{Found: true, State: state}).Tables[0].LastGap; gap == nil || gap.Reason != "the last" || *gap.Shard != "2" || !gap.At.Equal(ago(time.Minute)) {
		t.Errorf("%+v", gap)
	}
}

// A gap counts as soon as its shard's row shows it. The worker that found it may have died before
// the table's record shows it. Without any worker, status must still report it.
func TestAGapThatNobodyDeclared(t *testing.T) {
	lost := checkpoint.Shard{ID: "1", Label: "L", State: checkpoint.Gap, Loss: checkpoint.NotFound, Reason: "the shard is gone", Generation: 7, DoneAt: ago(time.Minute)}
	declared := lost
	declared.Generation = 6
	for _, c := range []struct {
		shard checkpoint.Shard
		want  bool
	}{{lost, true}, {declared, false}} {
		in := followed()
		in.Shards = append(in.Shards, c.shard)
		m := judged(in)
		got := m.Tables[0]
		if got.LoadNeeded != c.want || (got.Phase == PhaseInSync) == c.want || (got.Gaps == 1) != c.want || (m.Verdict() != nil) != c.want {
			t.Errorf("of generation %d: %s, needs a load %v, %d gaps", c.shard.Generation, got.Phase, got.LoadNeeded, got.Gaps)
		}
		if c.want && (*got.NeedsLoadReason != lost.Reason || got.LastGap == nil || *got.LastGap.Shard != "1" || !got.LastGap.At.Equal(lost.DoneAt)) {
			t.Errorf("%s, %+v", *got.NeedsLoadReason, got.LastGap)
		}
	}
}

// A table of a pattern without known figures may be the one that is closest to losing changes, or
// the furthest behind.
func TestFiguresOfAPatternAreBounds(t *testing.T) {
	headroom, lag := 70000.0, 0.3
	known, idle := &Table{HeadroomSeconds: &headroom, LagSeconds: &lag}, &Table{HeadroomSeconds: &headroom, LagSeconds: &lag, LagEstimated: true}
	unknown, aside := &Table{}, &Table{Suspended: "the table has no enabled stream"}
	for want, tables := range map[string][]*Table{
		">0.3s <19h26m": {unknown, idle, unknown},
		"~0.3s 19h26m":  {idle, aside},
		"0.3s 19h26m":   {known, aside},
		"- -":           {unknown, unknown},
	} {
		l := together("Log_*", tables)
		if got := l.lagText() + " " + l.headroomText(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// A table is not in sync if lost changes cannot be excluded: it was not read for longer than the
// stream keeps changes, or cannot be followed. A dropped table is not in sync either, even if its
// stream was read to its end before the drop.
func TestWhatIsNotInSync(t *testing.T) {
	for _, c := range []struct {
		name   string
		read   time.Duration // ago, when its only shard was found empty
		aside  string
		since  time.Duration // ago, when it was set aside
		want   string
		untold bool // no figures of the stream are shown any more
	}{
		{"read just now", time.Second, "", 0, PhaseInSync, false},
		{"not read for most of a day", cdc.Retention - time.Minute, "", 0, PhaseCopy, false},
		{"not read for a day", cdc.Retention, "", 0, PhaseCopy, false},
		{"not read for days", 60 * time.Hour, "", 0, PhaseCopy, false},
		{"its stream cannot be followed", time.Second, "the stream's view type KEYS_ONLY does not show every new row and every removal", time.Minute, PhaseCopy, false},
		{"dropped, and read", time.Second, engine.GoneReason, time.Hour, PhaseCopy, false},
		{"dropped long ago, and read after that", 46 * time.Hour, engine.GoneReason, 48 * time.Hour, PhaseCopy, true},
		{"dropped long ago, and not read after that", 49 * time.Hour, engine.GoneReason, 48 * time.Hour, PhaseCopy, false},
	} {
		state := loadedTable()
		if c.aside != "" {
			state.Suspended = checkpoint.Suspension{Reason: c.aside, Since: ago(c.since)}
		}
		shard := checkpoint.Shard{Source: "Orders", Label: "L", ID: "s", State: checkpoint.Reading, CaughtUp: true, ReadAt: ago(c.read), AppliedTo: ago(c.read), FirstRead: ago(100 * time.Hour)}
		m := judged(TableInput{Found: true, State: state, Shards: []checkpoint.Shard{shard}})
		if m.Phase != c.want || (m.Tables[0].HeadroomSeconds == nil) != c.untold {
			t.Errorf("%s: %s, headroom %s", c.name, m.Phase, m.Tables[0].headroomText())
		}
		told := slices.ContainsFunc(m.NextSteps, func(s standing.NextStep) bool { return strings.Contains(s.Why, "whether any were lost") })
		if told != (!c.untold && c.read >= cdc.Retention) {
			t.Errorf("%s: %+v", c.name, m.NextSteps)
		}
	}
}

// A named table was dropped just after one of its shards ended, and all workers ended before its
// children could be listed. Their changes are lost after a day. No worker is left to find this, so
// status reports it. A shard that a listing shows without children ended with the table.
func TestADroppedTableWhoseLastShardsNobodyListed(t *testing.T) {
	for _, c := range []struct {
		name    string
		dropped time.Duration // ago
		listed  time.Duration // ago, the last whole listing
		late    time.Duration // how long after the drop the shard was read to its end
		told    bool
	}{
		{"an hour ago", time.Hour, time.Hour + time.Minute, 0, true},
		{"two days ago", 48 * time.Hour, 48*time.Hour + time.Minute, 0, true},
		{"and never listed", 48 * time.Hour, 1000 * time.Hour, 0, true},
		{"just now", time.Minute, 2 * time.Minute, 0, false},
		{"and listed after that", 48 * time.Hour, 47 * time.Hour, 0, false},
		{"and listed a while later, before the shard was read to its end", 48 * time.Hour, 48*time.Hour - 11*time.Minute, 12 * time.Minute, false},
	} {
		state := loadedTable()
		state.Suspended = checkpoint.Suspension{Reason: engine.GoneReason, Since: ago(c.dropped)}
		shard := checkpoint.Shard{Source: "Orders", Label: "L", ID: "s", State: checkpoint.Done, EventTime: ago(c.dropped + time.Hour), DoneAt: ago(c.dropped - c.late), ReadAt: ago(c.dropped - c.late), FirstRead: ago(100 * time.Hour)}
		in := TableInput{Found: true, State: state, Shards: []checkpoint.Shard{shard}, Listings: checkpoint.Listings{At: ago(c.listed)}}
		m := judged(in)
		told := slices.ContainsFunc(m.NextSteps, func(s standing.NextStep) bool {
			return strings.Contains(s.Why, "no listing of the stream contains them yet")
		})
		if m.Phase != PhaseCopy || told != c.told {
			t.Errorf("%s: %s, %+v", c.name, m.Phase, m.NextSteps)
		}
		l := &Input{Cfg: testConfig(), Tables: []config.Table{monthlyTable(t)}, Inputs: []TableInput{in}}
		if since := l.Judge(nothingSet, "", noon).Tables[0].Childless; !since.IsZero() {
			t.Errorf("%s: a table of a pattern is left by its coordinator, and that is told: childless since %s", c.name, since)
		}
	}
}

// Attributes without a column are found, however many others come before them.
func TestUnmappedAttributesOfAWideItem(t *testing.T) {
	key := []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}}
	family, err := transform.ParseFamily("d", "maxversions=1")
	if err != nil {
		t.Fatal(err)
	}
	var columns []transform.ColumnRule
	attributes := []attribute.Attribute{{Name: "pk", Value: attribute.String("k")}, {Name: "y", Value: attribute.Null()}, {Name: "z", Value: attribute.Null()}}
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		columns = append(columns, transform.ColumnRule{Attribute: name, To: "d:" + name})
		attributes = append(attributes, attribute.Attribute{Name: name, Value: attribute.Null()})
	}
	m, err := transform.New(transform.Spec{Source: "Orders", Table: "t", PrimaryKey: key, Families: []transform.Family{family},
		Rules: []transform.Rule{{Writes: []transform.Write{{Columns: columns}}}}})
	if err != nil {
		t.Fatal(err)
	}
	s := preflight.Sampled{Items: []attribute.Item{attribute.NewItem(attributes)}}
	if got := strings.Join(s.Unmapped(preflight.Table{Config: config.Table{From: "Orders", Drop: []string{"z"}}, Mapping: m}), " "); got != "y" {
		t.Errorf("left out are %q", got)
	}
}
