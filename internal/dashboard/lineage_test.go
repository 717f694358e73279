package dashboard

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/internal/status"
)

// drawn formats a drawing as lines: column, row, word and name of each box, then its edges.
func drawn(d drawing) (lines []string) {
	for _, b := range d.Boxes {
		lines = append(lines, fmt.Sprintf("%d/%d %s %s %s", (b.X-rim)/(boxWidth+besideBox), (b.Y-rim)/(boxHeight+belowBox), b.State.Shape, b.State.Word, b.Name))
	}
	return append(lines, d.Edges...)
}

func shardsOf(t *testing.T, text string) (shards []status.Shard) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &shards); err != nil {
		t.Fatal(err)
	}
	return shards
}

// Children are drawn beside their parent, and a chain of rolled shards without a split is one box.
func TestLineageIsDrawn(t *testing.T) {
	shards := shardsOf(t, `[{"id": "a", "state": "done"}, {"id": "b", "parent": "a", "state": "done"}, {"id": "c", "parent": "b", "state": "done"},
		{"id": "e", "parent": "c", "state": "reading", "owner": "worker-a"}, {"id": "d", "parent": "c", "state": "reading", "owner": "w", "why": {"code": "silent", "text": "for 40s"}},
		{"id": "f", "parent": "e", "state": "waiting", "why": {"code": "parent", "text": "for its parent e"}}, {"id": "g", "parent": "gone", "state": "gap"}]`)
	d := drawingOf([][]status.Shard{shards}, state{})
	want := []string{"0/0 ✓ 3 done c", "1/0 ✗ reading, worker silent d · w", "1/1 ■ reading e · worker-a", "2/1 □ waiting for parent f", "0/2 ✗ gap g",
		"M210 23H226V23H242", "M450 75H466V75H482", "M210 23H226V75H242"}
	if got := drawn(d); !slices.Equal(got, want) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
	held := shardsOf(t, `[{"id": "a", "state": "reading", "why": {"code": "nobody", "text": "for a worker"}}]`)
	m, paused := &status.Document{}, &status.Table{}
	if err := json.Unmarshal([]byte(`{"paused": {"since": "2026-11-02T10:00:00Z"}}`), paused); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		of         *status.Table
		step, want string
	}{{&status.Table{}, "", "□ waiting for a worker"}, {paused, "", "‖ paused"}, {paused, "done", "○ no longer read"}} {
		m.Cutover.Step, m.Tables = c.step, nil
		if got := drawn(drawingOf([][]status.Shard{held}, unreadOf(m, c.of))); !slices.Equal(got, []string{"0/0 " + c.want + " a"}) {
			t.Errorf("got %q, want %s", got, c.want)
		}
	}
	if d.Height != 3*boxHeight+2*belowBox+2*rim || d.Width != 3*boxWidth+2*besideBox+2*rim {
		t.Errorf("%d by %d", d.Width, d.Height)
	}
}

// A drawing has a maximum size. Shards that need attention are always in it.
func TestLargeLineage(t *testing.T) {
	var shards []status.Shard
	for i := range 100 {
		shards = append(shards, status.Shard{ID: fmt.Sprintf("s%03d", i), State: "reading"})
	}
	shards[90].State = "gap"
	d := drawingOf([][]status.Shard{shards}, state{})
	if len(d.Boxes) != mostDrawn || d.Left != 100-mostDrawn || d.Boxes[0].Name != "s090" {
		t.Errorf("%d boxes, %d left, first %s", len(d.Boxes), d.Left, d.Boxes[0].Name)
	}
	for i := range shards {
		if i > 0 {
			parent := "s000"
			shards[i].Parent = &parent
		}
	}
	if d := drawingOf([][]status.Shard{shards}, state{}); len(d.Boxes)+d.Left != 100 || d.rows > mostDrawn || d.Boxes[1].Name != "s090" {
		t.Errorf("one family: %d boxes, %d left, first child %s", len(d.Boxes), d.Left, d.Boxes[1].Name)
	}
	if d := drawingOf(nil, state{}); d.rows != 0 || len(d.Boxes) != 0 {
		t.Errorf("nothing: %+v", d)
	}
}

// A cutover shows its steps, and its gates only while they matter.
func TestStepsOfACutover(t *testing.T) {
	m := &status.Document{}
	shapes := func() (text string) {
		for _, s := range stepsOf(m) {
			text += s.Shape
		}
		return text
	}
	if shapes() != "" || len(gatesOf(m)) != 7 {
		t.Errorf("before: %q, %d gates", shapes(), len(gatesOf(m)))
	}
	for step, want := range map[string]string{"requested": "◐○○○○○○○○", "drain": "✓✓✓◐○○○○○", "done": "✓✓✓✓✓✓✓✓✓", "cancelling": "✗", "cancelled": "", "rehearsed": ""} {
		m.Cutover.Attempt, m.Cutover.Step = 1, step
		if got := shapes(); got != want {
			t.Errorf("%s: %q, want %q", step, got, want)
		}
	}
	m.Cutover.Step = "watching"
	if len(gatesOf(m)) != 0 {
		t.Error("gates after the switch")
	}
	m.Cutover.Direction = "back"
	for step, want := range map[string]string{"checks": "◐○○○○○○", "fence": "✓✓✓✓◐○○", "rolled_back": "✓✓✓✓✓✓✓", "cancelling": "✗"} {
		m.Cutover.Step = step
		if got := shapes(); got != want {
			t.Errorf("a rollback, %s: %q, want %q", step, got, want)
		}
	}
	m.Cutover.Step = "fence"
	if steps, figure := stepsOf(m), cutoverFigure(m); steps[4].Word != "stop following" || figure.Text != "rollback: fence" {
		t.Errorf("a rollback: %+v, %+v", steps, figure)
	}
}

// With several groups of tables, the page shows the cutover of each.
func TestGroupsOfACutover(t *testing.T) {
	m := &status.Document{}
	if err := json.Unmarshal([]byte(`{"cutovers": [{"group": "Orders", "tables": ["Orders", "Lines"], "step": "none", "ready": true},
		{"group": "Users", "tables": ["Users"], "step": "cancelled", "attempt": 3, "open_gates": ["lag", "verify"]},
		{"group": "Logs", "tables": ["Logs"], "step": "drain", "attempt": 1, "frozen_since": "2026-11-02T10:00:00Z"},
		{"group": "Back", "tables": ["Back"], "step": "verify", "attempt": 2, "direction": "back"},
		{"group": "Home", "tables": ["Home"], "step": "rolled_back", "attempt": 2, "direction": "back", "ready": true},
		{"group": "Old", "tables": ["Old"], "step": "done", "attempt": 1}]}`), m); err != nil {
		t.Fatal(err)
	}
	want := []groupLine{{state{"ready", "✓", "good"}, "Orders", "Orders, Lines"}, {state{"5 of 7 gates ready", "○", "soft"}, "Users", "Users"},
		{state{"drain, writes are frozen", "◐", "now"}, "Logs", "Logs"}, {state{"rollback: verify", "◐", "now"}, "Back", "Back"}, {state{"ready", "✓", "good"}, "Home", "Home"}, {state{"done", "✓", "good"}, "Old", "Old"}}
	if got := groupsOf(m); !slices.Equal(got, want) {
		t.Errorf("got %+v", got)
	}
}
