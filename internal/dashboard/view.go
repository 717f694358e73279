package dashboard

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/admin"
	"github.com/dynamodb-bigtable/replicator/internal/readiness"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/status"
)

// view is the content of the page, in the form that the template needs. Every state has a word and
// a shape.
type view struct {
	*status.Document // nil before the first reading of the ledger
	Verdict          verdict
	Troubles         []remark
	ReadAt           string // when the ledger was read
	Blind            bool   // true if a later read of the ledger failed
	Phases           []state
	Figures          []figure
	Groups           []groupLine // cutovers of the groups of tables
	Steps            []state     // steps of the most urgent cutover that has begun
	Stood            string      // how long writes were frozen; "" if there was no freeze
	Gates            []gate      // empty once the application has switched
	Rows             []row
	Topics           []topic
	Hands            []hand
	Happened         []happening
}

// state is the display of a state: a word, the shape next to the word, and a class: good, bad or
// neither.
type state struct{ Word, Shape, Class string }

// figure is one of the large numbers on the page. Value is the number for programs. If there are
// several tables, Of is the table to which the number belongs.
type figure struct{ ID, Label, Text, Value, Of, Curve string }

// groupLine is the cutover of one group of tables.
type groupLine struct {
	state
	Name, Tables string
}

// gate is a gate of a cutover, with the values that it compares.
type gate struct {
	state
	Name    string
	Figures []string
}

// row is a line of the page for one table.
type row struct {
	*status.Table
	State   state
	About   string  // the state in one sentence, if the state or a next step needs more than its word
	Since   string  // since when, or for how long, the state has applied
	Command string  // the first command to run; "" if there is none
	Cells   []cell  // one for each column
	Counts  []state // number of shards by state
	Drawing drawing
	Open    bool // the drawing is initially open
	Lineage []shardLine
	More    int // number of shards that the list omits
}

// cell is a figure of a table, in the table's row of the page. Value is the figure for programs.
// Progress is the progress of a running copy, in percent.
type cell struct {
	status.Column
	state
	Value    string
	Progress *int
}

// topic describes a table with changes that are published.
type topic struct {
	ID, Source, Apply      string
	Behind, Oldest, Letter state
}

type shardLine struct {
	status.Drawn
	State    state
	Why, Who string
}

// hand describes a worker.
type hand struct {
	ID, Host, Version, Keeps, Heartbeat string
	Leases                              int
	State                               state
}

type happening struct{ At, Kind, About, Why string }

const (
	// mostShards is the maximum number of listed shards of a table.
	mostShards = 200
	// mostOpen is the maximum number of rows of a drawing that is initially open.
	mostOpen = 16
	// mostTold is the maximum number of tables that are named for a gate.
	mostTold = 3
)

// phaseWords are the names of the phases, as the page shows them.
var phaseWords = map[string]string{"prepare": "Plan", "copy": "Copy and stream", "in_sync": "In sync", "cutover": "Cut over", "done": "Done"}

// gateWords are the names of the gates of a cutover, as the page shows them.
var gateWords = map[string]string{
	readiness.GateCopy: "copy complete", readiness.GateLag: "lag held", readiness.GateVerify: "verify clean", readiness.GateFull: "full verify clean",
	readiness.GateParked: "parked items", readiness.GateHeadroom: "headroom", readiness.GateFence: "late writes rejected",
}

// cutoverSteps and rollbackSteps are the steps of a cutover and of a rollback in order. stepWords are
// their names, as the page shows them.
var (
	cutoverSteps = []checkpoint.CutoverStep{checkpoint.CutoverRequested, checkpoint.CutoverChecks, checkpoint.CutoverFreeze, checkpoint.CutoverDrain, checkpoint.CutoverVerify,
		checkpoint.CutoverFence, checkpoint.CutoverSwitching, checkpoint.CutoverWatching, checkpoint.CutoverDone}
	rollbackSteps = []checkpoint.CutoverStep{checkpoint.CutoverChecks, checkpoint.CutoverFreeze, checkpoint.CutoverDrain, checkpoint.CutoverVerify,
		checkpoint.CutoverFence, checkpoint.CutoverSwitching, checkpoint.CutoverRolledBack}
	stepWords = map[checkpoint.CutoverStep]string{checkpoint.CutoverRequested: "requested", checkpoint.CutoverChecks: "gates", checkpoint.CutoverFreeze: "freeze",
		checkpoint.CutoverDrain: "drain", checkpoint.CutoverVerify: "verify", checkpoint.CutoverFence: "fence", checkpoint.CutoverSwitching: "switch",
		checkpoint.CutoverWatching: "watch", checkpoint.CutoverDone: "done", checkpoint.CutoverRolledBack: "moved back"}
)

// sum holds the figures of the whole migration. A figure is nil if it is unknown.
type sum struct {
	lag, headroom, rate, eta *float64
	items, estimate          int64
	slowest, tightest        *status.Table
	copied                   int
}

func sumOf(m *status.Document) sum {
	var s sum
	for i := range m.Tables {
		t := &m.Tables[i]
		if t.LagSeconds != nil && (s.lag == nil || *t.LagSeconds > *s.lag) {
			s.lag, s.slowest = t.LagSeconds, t
		}
		if t.HeadroomSeconds != nil && (s.headroom == nil || *t.HeadroomSeconds < *s.headroom) {
			s.headroom, s.tightest = t.HeadroomSeconds, t
		}
		if t.ChangesPerSecond != nil {
			rate := *t.ChangesPerSecond
			if s.rate != nil {
				rate += *s.rate
			}
			s.rate = &rate
		}
		if t.Copy.State == "done" {
			s.copied++
		}
		if t.Copy.Items != nil && t.Copy.Estimate != nil {
			s.items, s.estimate = s.items+*t.Copy.Items, s.estimate+max(*t.Copy.Items, *t.Copy.Estimate)
		}
		if eta := t.Copy.ETASeconds; eta != nil && (s.eta == nil || *eta > *s.eta) {
			s.eta = eta
		}
	}
	return s
}

func viewOf(m *status.Document, readAt time.Time, fresh bool, t trail, events []admin.Event) view {
	v := view{Document: m, Verdict: verdictOf(m), Troubles: remarksOf(m), ReadAt: readAt.UTC().Format(time.TimeOnly), Blind: !fresh, Phases: phasesOf(m.Phase), Figures: figuresOf(m, t), Groups: groupsOf(m), Steps: stepsOf(m), Gates: gatesOf(m)}
	if frozen := m.Cutover.FrozenSeconds; frozen > 0 {
		v.Stood = backfill.FormatDuration(status.AsDuration(frozen))
	}
	room := mostOpen
	for i := range m.Tables {
		r := rowOf(m, &m.Tables[i])
		if r.Open = r.Drawing.rows > 0 && r.Drawing.rows <= room; r.Open {
			room -= r.Drawing.rows
		}
		v.Rows = append(v.Rows, r)
		if m.Tables[i].Behind != nil {
			v.Topics = append(v.Topics, topicOf(&m.Tables[i]))
		}
	}
	for i := range m.Workers {
		w := &m.Workers[i]
		h := hand{w.ID, status.OrDash(w.Host), status.OrDash(w.Version), strings.Join(w.Keeps, ", "), w.HeartbeatText(m.At), w.Leases, state{"alive", "●", "good"}}
		switch {
		case w.Silent:
			h.State = state{"silent", "✗", "bad"}
		case w.Idle:
			h.State = state{"idle", "□", "soft"}
		case w.Standby():
			h.State = state{"standby", "□", "soft"}
		}
		v.Hands = append(v.Hands, h)
	}
	for _, e := range events {
		about := slices.DeleteFunc([]string{e.Table, e.Shard, e.Worker, e.Phase}, func(s string) bool { return s == "" })
		v.Happened = append(v.Happened, happening{e.At.UTC().Format(time.TimeOnly), strings.ReplaceAll(e.Kind, "_", " "), strings.Join(about, " · "), e.Reason})
	}
	return v
}

// phasesOf returns all phases in order, each shown as past, current or future.
func phasesOf(now string) (out []state) {
	at := slices.Index(admin.Phases, now)
	for i, p := range admin.Phases {
		out = append(out, stepState(phaseWords[p], i, at, len(admin.Phases)-1))
	}
	return out
}

func figuresOf(m *status.Document, t trail) []figure {
	s := sumOf(m)
	lag := figure{ID: "lag", Label: "Lag", Text: "-", Curve: t.curve(func(m mark) float64 { return m.lag })}
	if s.slowest != nil {
		lag.Text, lag.Value = s.slowest.LagText(), number(s.lag)
	}
	headroom := figure{ID: "headroom", Label: "Headroom of 24h", Text: "-"}
	if s.tightest != nil {
		headroom.Text, headroom.Value = s.tightest.HeadroomText(), number(s.headroom)
	}
	applied := figure{ID: "applied", Label: "Applied", Text: "-", Value: number(s.rate), Curve: t.curve(func(m mark) float64 { return m.rate })}
	if s.rate != nil {
		applied.Text = backfill.FormatCount(*s.rate) + "/s"
	}
	copied := figure{ID: "copy", Label: "Copy", Text: fmt.Sprintf("%d of %d tables", s.copied, len(m.Tables))}
	if share, ok := backfill.Percent(s.items, s.estimate, s.copied == len(m.Tables)); ok && s.copied < len(m.Tables) {
		copied.Text, copied.Value = fmt.Sprintf("%d %%", share), strconv.Itoa(share)
		if s.eta != nil {
			copied.Text += ", ETA " + backfill.FormatDuration(status.AsDuration(*s.eta))
		}
	}
	if len(m.Tables) > 1 {
		if s.slowest != nil {
			lag.Of = s.slowest.Source
		}
		if s.tightest != nil {
			headroom.Of = s.tightest.Source
		}
	}
	return []figure{lag, headroom, applied, copied, cutoverFigure(m)}
}

// groupsOf returns the cutovers of all groups.
func groupsOf(m *status.Document) (out []groupLine) {
	for i := range m.Cutovers {
		c := &m.Cutovers[i]
		out = append(out, groupLine{groupState(c), groupName(c.Group), strings.Join(c.Tables, ", ")})
	}
	return out
}

// groupState returns the state of the cutover of a group.
func groupState(c *status.Cutover) state {
	g := state{"ready", "✓", "good"}
	step := checkpoint.CutoverStep(c.Step)
	switch {
	case step == checkpoint.CutoverDone:
		g.Word = stepWords[step]
	case c.Attempt > 0 && !step.Over():
		g = state{cmp.Or(stepWords[step], c.Step), "◐", "now"}
	case !c.Ready:
		g = state{fmt.Sprintf("%d of %d gates ready", len(readiness.GateNames)-len(c.OpenGates), len(readiness.GateNames)), "○", "soft"}
	}
	if movesBack(c.Direction) && !step.Over() {
		g.Word = "rollback: " + g.Word
	}
	if c.FrozenSince != nil {
		g.Word += ", writes are frozen"
	}
	return g
}

// cutoverFigure returns the current step of a cutover. If no cutover has begun, it returns the
// number of gates that are ready.
func cutoverFigure(m *status.Document) figure {
	open := len(m.Cutover.OpenGates)
	f := figure{ID: "cutover", Label: "Cutover", Text: "ready", Value: strconv.Itoa(open)}
	switch {
	case begun(m):
		f.Text, f.Value = cmp.Or(stepWords[checkpoint.CutoverStep(m.Cutover.Step)], m.Cutover.Step), ""
		if movesBack(m.Cutover.Direction) {
			f.Text = "rollback: " + f.Text
		}
	case len(m.Tables) == 0:
		f.Text, f.Value = "-", ""
	case !m.Cutover.Ready:
		f.Text = fmt.Sprintf("%d of %d gates ready", len(readiness.GateNames)-open, len(readiness.GateNames))
	}
	return f
}

// begun reports whether a cutover or a rollback is running, or the application has moved to the target.
func begun(m *status.Document) bool {
	return m.Cutover.Attempt > 0 && !checkpoint.CutoverStep(m.Cutover.Step).Over()
}

// movesBack reports whether the shown attempt is a rollback.
func movesBack(direction string) bool { return direction == checkpoint.Back.String() }

// stepsOf returns all steps of a cutover that has begun, each shown as past, current or future.
func stepsOf(m *status.Document) (out []state) {
	now := checkpoint.CutoverStep(m.Cutover.Step)
	if !begun(m) && now != checkpoint.CutoverRolledBack {
		return nil
	}
	steps, back := cutoverSteps, movesBack(m.Cutover.Direction)
	if back {
		steps = rollbackSteps
	}
	at := slices.Index(steps, now)
	if at < 0 {
		return []state{{m.Cutover.Step, "✗", "bad"}} // the attempt is being cancelled
	}
	for i, s := range steps {
		word := stepWords[s]
		if back && s == checkpoint.CutoverFence {
			word = "stop following"
		}
		out = append(out, stepState(word, i, at, len(steps)-1))
	}
	return out
}

// stepState returns whether a step is past, current or future. The last step is past as soon as it
// is reached.
func stepState(word string, i, at, last int) state {
	switch {
	case i < at || i == at && i == last:
		return state{word, "✓", "good"}
	case i == at:
		return state{word, "◐", "now"}
	}
	return state{word, "○", "soft"}
}

// number formats a figure for programs; "" if it is unknown.
func number(f *float64) string {
	if f == nil {
		return ""
	}
	return strconv.FormatFloat(*f, 'f', -1, 64)
}

func gatesOf(m *status.Document) (out []gate) {
	if m.Left() {
		return nil
	}
	for _, name := range readiness.GateNames {
		g := gate{Name: name, state: state{gateWords[name], "✓", "good"}}
		if slices.Contains(m.Cutover.OpenGates, name) {
			g.Shape, g.Class = "✗", "bad"
		}
		more := 0
		for _, of := range m.Cutover.Gates {
			switch {
			case of.Gate != name || of.Ready && (g.Class == "bad" || len(m.Tables) > 1):
			case len(g.Figures) == mostTold:
				more++
			case len(m.Tables) > 1:
				g.Figures = append(g.Figures, of.Table+": "+of.Figure)
			default:
				g.Figures = append(g.Figures, of.Figure)
			}
		}
		if more > 0 {
			g.Figures = append(g.Figures, fmt.Sprintf("and %d more tables", more))
		}
		out = append(out, g)
	}
	return out
}

func topicOf(t *status.Table) topic {
	o := topic{ID: t.Source, Source: t.Source, Apply: t.Apply, Behind: state{Word: strconv.FormatUint(*t.Behind, 10)}, Oldest: state{Word: "-"},
		Letter: state{Word: strconv.Itoa(t.DeadLetter)}}
	if t.TopicLag != nil && *t.Behind > 0 {
		o.Oldest.Word = backfill.FormatDuration(status.AsDuration(*t.TopicLag))
	}
	if t.DeadLetter > 0 {
		o.Letter.Shape, o.Letter.Class = "✗", "bad"
	}
	return o
}

func rowOf(m *status.Document, t *status.Table) row {
	r := row{Table: t, State: standsOf(t.Standing), Since: t.SinceText(m.At), Command: commandOf(t), Drawing: drawingOf(m.Streams(t.Source), unreadOf(m, t))}
	if r.Command != "" || t.Severity() != standing.SeverityInfo {
		r.About = t.Headline(m.At)
	}
	for _, c := range m.Columns() {
		r.Cells = append(r.Cells, cellOf(c, t))
	}
	r.Counts = countsOf(t.Shards)
	for _, d := range m.Lineage(t.Source) {
		if len(r.Lineage) == mostShards {
			r.More++
			continue
		}
		line := shardLine{Drawn: d, State: stateOf(d.Shard, unreadOf(m, t)), Who: status.OrDash(d.Owner)}
		if d.Why != nil {
			line.Why = d.Why.Text
		}
		r.Lineage = append(r.Lineage, line)
	}
	return r
}

// cellOf returns a table's cell of a column. A cell with a shape next to its word needs attention.
func cellOf(c status.Column, t *status.Table) cell {
	out := cell{Column: c, state: state{Word: c.Text(t)}, Value: number(c.Value(t))}
	switch c.Mark(t) {
	case status.MarkGood:
		out.Shape, out.Class = "✓", "good"
	case status.MarkBad:
		out.Shape, out.Class = "✗", "bad"
	}
	if c.ID == status.ColumnCopy {
		out.Value = t.Copy.State
		if t.Copy.State != "done" && t.Copy.Items != nil && t.Copy.Estimate != nil {
			if percent, ok := backfill.Percent(*t.Copy.Items, *t.Copy.Estimate, false); ok {
				out.Progress = &percent
			}
		}
	}
	return out
}

// countsOf returns the number of shards in each state. It includes gaps even if their number is 0.
func countsOf(shards map[string]int) (out []state) {
	for _, s := range []state{{"done", "✓", "good"}, {"reading", "■", "now"}, {"waiting", "□", "soft"}, {"gap", "✗", "bad"}} {
		n := shards[s.Word]
		if n == 0 && s.Word == "gap" {
			out = append(out, state{"no gap", "✓", "good"})
		} else if n > 0 {
			out = append(out, state{fmt.Sprintf("%d %s", n, s.Word), s.Shape, s.Class})
		}
	}
	return out
}
