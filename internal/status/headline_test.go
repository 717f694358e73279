package status

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
)

// headlines has a ledger for each state of the closed list, with the sentence that status and the
// page show.
var headlines = []struct {
	state    standing.State
	change   func(l *Input)
	want     string
	severity standing.Severity
}{
	{standing.Done, step(checkpoint.CutoverDone), "Done since 11:59 UTC: the application no longer uses the source", standing.SeverityInfo},
	{standing.Cutover, step(checkpoint.CutoverDrain), "Cutover since 11:58 UTC: the application's writes are frozen", standing.SeverityInfo},
	{standing.Cutover, step(checkpoint.CutoverCancelling), "Cutover: the attempt is being cancelled (for 2m00s)", standing.SeverityWarning},
	{standing.Cutover, step(checkpoint.CutoverWatching), "Cutover since 11:59 UTC: the application has switched; replicator watches for late writers", standing.SeverityInfo},
	{standing.Unknown, func(l *Input) { l.readAt = ago(4 * time.Minute) }, "Not known to be in sync: the ledger cannot be read (for 4m00s)", standing.SeverityPage},
	{standing.Paused, func(l *Input) {
		l.Inputs[0].State.Pause = checkpoint.Pause{Since: ago(40 * time.Minute), Reason: "CHG-4711"}
	},
		"Paused: an operator paused the table: CHG-4711 (for 40m)", standing.SeverityWarning},
	{standing.NeedsLoad, func(l *Input) {
		s := &l.Inputs[0].State
		s.NeedsLoad, s.Reason, s.Kind, s.Load = true, "GetRecords: trimmed", checkpoint.KindStream, checkpoint.Load{}
		s.Gaps = []checkpoint.DeclaredGap{{At: ago(20 * time.Hour)}}
	}, "Needs a load: changes or rows are missing: GetRecords: trimmed (for 20h00m)", standing.SeverityPage},
	{standing.Stalled, func(l *Input) {
		l.Inputs[0].Coordinator = CoordinatorInput{Owner: "w", Heartbeat: checkpoint.Heartbeat{WrittenAt: noon,
			Trouble: checkpoint.Trouble{Step: "list the stream's shards (DescribeStream)", Cause: "DynamoDB: AccessDeniedException", Since: ago(3 * time.Minute)}}}
	}, "Stalled: cannot list the stream's shards (DescribeStream): DynamoDB: AccessDeniedException (for 3m00s)", standing.SeverityPage},
	{standing.Stalled, func(l *Input) { l.Inputs[0].Shards[0].Owner = "" }, "Stalled: no worker reads the stream: shard s (for 10m)", standing.SeverityPage},
	{standing.Preparing, func(l *Input) { l.Inputs[0] = TableInput{} }, "Preparing: no worker has followed the table yet", standing.SeverityInfo},
	{standing.Copying, func(l *Input) {
		l.Inputs[0].State.Load.DoneAt, l.Inputs[0].State.Load.SweptAt = time.Time{}, time.Time{}
	},
		"Copying since 2026-11-01 12:00 UTC: existing items are being copied", standing.SeverityInfo},
	{standing.Sweeping, func(l *Input) { l.Inputs[0].State.Load.SweptAt = time.Time{} },
		"Sweeping since 11:00 UTC: rows that the copy did not write are compared with the source", standing.SeverityInfo},
	{standing.Parked, func(l *Input) { l.Inputs[0].Parked = 12 }, "Parked: items could not be stored: 12", standing.SeverityWarning},
	{standing.Differs, func(l *Input) {
		l.Inputs[0].State.Verify.Result = checkpoint.VerifyResult{EndedAt: ago(6 * time.Minute), Generation: 7, VerifyCounts: checkpoint.VerifyCounts{Missing: 2}}
	}, "Different: the last verify found rows that differ: 2 (for 6m00s)", standing.SeverityWarning},
	{standing.CatchingUp, func(l *Input) { s := &l.Inputs[0].Shards[0]; s.CaughtUp, s.EventTime = false, ago(5*time.Minute) },
		"Catching up since 11:55 UTC: changes are not applied yet", standing.SeverityInfo},
	{standing.InSync, func(*Input) {}, "In sync since 11:30 UTC", standing.SeverityInfo},
}

// step changes a ledger to one of a cutover in a step.
func step(step checkpoint.CutoverStep) func(l *Input) {
	return func(l *Input) {
		l.Cutovers = checkpoint.Cutovers{{Attempt: 1, Step: step, CutoverPlan: checkpoint.CutoverPlan{Tables: []string{"Orders"}}, FreezeBegunAt: ago(2 * time.Minute)}}
		if c := &l.Cutovers[0]; step.Switched() {
			c.SwitchedAt, c.EndedAt = ago(time.Minute), ago(time.Minute)
		}
	}
}

// synced returns a ledger with a table in sync.
func synced() *Input {
	in := followed()
	in.State.Load = checkpoint.Load{Generation: 7, Number: 1, Parts: 1, StartedAt: ago(24 * time.Hour), DoneAt: ago(time.Hour), SweptAt: ago(30 * time.Minute)}
	in.Shards = []checkpoint.Shard{{ID: "s", Label: "L", State: checkpoint.Reading, Owner: "w", CaughtUp: true, ReadAt: noon, AppliedTo: noon, FirstRead: ago(time.Hour), Generation: 7}}
	in.Shards[0].WrittenAt = noon
	return &Input{Cfg: testConfig(), Tables: []config.Table{{From: "Orders"}}, Inputs: []TableInput{in}, Begun: true}
}

// TestHeadlines: the sentence, severity and document of each state. The table and the migration have
// the same sentence, and it is the second line of the text.
func TestHeadlines(t *testing.T) {
	asked := map[standing.State]bool{}
	for _, c := range headlines {
		asked[c.state] = true
		l := synced()
		if c.change(l); l.Inputs[0].Shards != nil && l.Inputs[0].Shards[0].Owner == "" {
			l.Inputs[0].Shards[0].ReadAt, l.Inputs[0].Shards[0].AppliedTo = ago(10*time.Minute), ago(10*time.Minute)
		}
		m := l.Judge(nothingSet, "", noon)
		if got := m.Headline(); m.State != c.state || got != c.want || m.Severity() != c.severity {
			t.Errorf("%s, %s: %q, want %q", m.State, m.Severity(), got, c.want)
		}
		if got := m.Tables[0].Headline(noon); got != c.want {
			t.Errorf("the table of %s: %q", c.state, got)
		}
		var text strings.Builder
		if err := m.Render(&text, false); err != nil || strings.Split(text.String(), "\n")[1] != c.want {
			t.Errorf("%s: %v\n%s", c.state, err, text.String())
		}
	}
	for _, state := range standing.States {
		if !asked[state] {
			t.Errorf("no ledger is %s", state)
		}
	}
}

// TestHeadlineOfSeveralTables: the sentence names the tables that are concerned. Tables are in sync
// together since the last of them is.
func TestHeadlineOfSeveralTables(t *testing.T) {
	sync, late, copying := synced().Inputs[0], synced().Inputs[0], synced().Inputs[0]
	late.State.Load.SweptAt = ago(10 * time.Minute)
	copying.State.Load.DoneAt, copying.State.Load.SweptAt = time.Time{}, time.Time{}
	for _, c := range []struct {
		inputs []TableInput
		want   string
	}{
		{nil, "Preparing: no table is known yet"},
		{[]TableInput{sync, late}, "In sync since 11:50 UTC"},
		{[]TableInput{late, sync}, "In sync since 11:50 UTC"},
		{[]TableInput{sync, copying}, "Copying since 2026-11-01 12:00 UTC: Billing: existing items are being copied"},
		{[]TableInput{copying, copying, sync}, "Copying since 2026-11-01 12:00 UTC: Orders and 1 more table: existing items are being copied"},
		{[]TableInput{copying, copying, copying}, "Copying since 2026-11-01 12:00 UTC: Orders and 2 more tables: existing items are being copied"},
	} {
		l := synced()
		l.Tables, l.Inputs = []config.Table{{From: "Orders"}, {From: "Billing"}, {From: "Sessions"}}[:len(c.inputs)], c.inputs
		if got := l.Judge(nothingSet, "", noon).Headline(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	m := synced().Judge(nothingSet, "", noon)
	m.Tables[0].Since = nil
	if m.sharedSince() != nil {
		t.Error("the time is known although that of a table is not")
	}
}

// TestUnknownTimesHaveNoDuration: neither the sentence nor a line or an occurrence shows the time since
// 1970 or since year 1 as a duration.
func TestUnknownTimesHaveNoDuration(t *testing.T) {
	l := synced()
	l.Inputs = []TableInput{{Found: true, State: checkpoint.TableState{Source: "Orders", Label: "L", Generation: 1, Changed: ago(time.Second)}}}
	m := l.Judge(nothingSet, "", noon)
	if got, want := m.Headline(), "Stalled: the stream has no complete listing yet"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if all := m.Occurrences(); len(all) != 1 || all[0].Kind != OccurStalled || !all[0].Since.IsZero() {
		t.Errorf("%+v", all)
	}
	if got, want := m.notes(), []string{"Waiting: workers read the shards of Orders after the first complete listing of its stream"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for want, of := range map[string]troubleStatus{
		"cannot write: denied":                        {},
		"cannot write (in 2 shards): denied":          {Shards: 2},
		"cannot write (for 1m00s): denied":            {Since: ago(time.Minute)},
		"cannot write (for 1m00s in 1 shard): denied": {Since: ago(time.Minute), Shards: 1},
	} {
		of.Step, of.Cause = "write", "denied"
		if got := of.text(noon); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestRemarksAreSorted: the worst line comes first, and throttling is no trouble.
func TestRemarksAreSorted(t *testing.T) {
	m := synced().Judge(nothingSet, "", noon)
	table := &m.Tables[0]
	table.Settling, table.Old, table.OldestReadAt = 1, true, new(ago(time.Hour))
	table.Paused = &pausedStatus{Since: ago(time.Minute)}
	table.Troubles = []troubleStatus{{Step: "write", Cause: "throttled", Since: noon, Throttled: true}}
	var got []standing.Severity
	for _, r := range m.Remarks() {
		got = append(got, r.Severity)
	}
	if want := []standing.Severity{standing.SeverityPage, standing.SeverityWarning, standing.SeverityInfo, standing.SeverityInfo}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v: %v", got, want, m.Remarks())
	}
	if notes := m.notes(); !strings.Contains(notes[0], "applied once") {
		t.Errorf("the text is sorted too: %q", notes)
	}
	table.Troubles[0].Throttled = false
	if n := slices.IndexFunc(m.Remarks(), func(r Remark) bool {
		return strings.Contains(r.Text, "cannot write") && r.Severity == standing.SeverityWarning
	}); n < 0 {
		t.Errorf("a failing step is no trouble: %v", m.Remarks())
	}
}

// TestWeightOfACutover: a freeze without a driver, and a way back that lost changes, need an operator
// now.
func TestWeightOfACutover(t *testing.T) {
	m := &Document{Tables: []Table{{Source: "Orders"}}}
	c := &Cutover{Tables: []string{"Orders"}}
	s := subject{m: m, c: c}
	if weightOfAttempt(s) != standing.SeverityInfo || weightOfWayBack(s) != standing.SeverityInfo {
		t.Error("a quiet cutover needs an operator")
	}
	trouble, driver, lost := "the hook fails", "w", &WayBack{LostSince: &noon}
	if c.Trouble = &trouble; weightOfAttempt(s) != standing.SeverityWarning {
		t.Error("a trouble needs no operator")
	}
	if c.FrozenSince = &noon; weightOfAttempt(s) != standing.SeverityPage {
		t.Error("a freeze that no process drives does not need an operator now")
	}
	if c.Driver = &driver; weightOfAttempt(s) != standing.SeverityWarning {
		t.Error("a driven freeze needs an operator now")
	}
	if m.Tables[0].WayBack = lost; weightOfWayBack(s) != standing.SeverityPage {
		t.Error("a lost way back does not need an operator now")
	}
}

// TestPagesOfStatesExist: every state leads to a document, and to a heading that it has.
func TestPagesOfStatesExist(t *testing.T) {
	for _, c := range standing.Explained() {
		path, anchor, _ := strings.Cut(c, "#")
		text, err := os.ReadFile(filepath.Join("../../docs", path))
		if err != nil {
			t.Error(err)
			continue
		}
		found := anchor == ""
		for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(string(text), -1) {
			found = found || strings.ReplaceAll(strings.ToLower(heading[1]), " ", "-") == anchor
		}
		if !found {
			t.Errorf("%s has no heading %s", path, anchor)
		}
	}
}
