package dashboard

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/internal/admin"
	"github.com/dynamodb-bigtable/replicator/internal/cutover"
	"github.com/dynamodb-bigtable/replicator/internal/status"
)

// view is what the page shows, ready to be written: every state is a word and a shape.
type view struct {
	*status.Document        // nil: nothing is known yet
	ReadAt           string // when the ledger was read
	Blind            bool   // it could not be read since
	Phases           []state
	Figures          []figure
	Gates            []state
	Rows             []row
	Hands            []hand
	Happened         []happening
}

// state is a word, the shape beside it, and how it is meant: good, bad, or neither.
type state struct{ Word, Shape, Class string }

// figure is one of the large numbers; Value is for programs.
type figure struct{ ID, Label, Text, Value, Curve string }

// row is a table.
type row struct {
	*status.Table
	State   state
	Percent int // of the copy; negative if unknown
	Lineage []shardLine
	More    int // shards that are left out
}

type shardLine struct {
	status.Drawn
	State    state
	Why, Who string
}

// hand is a worker.
type hand struct {
	ID, Host, Version, Keeps, Heartbeat string
	Leases                              int
	State                               state
}

type happening struct{ At, Kind, About, Why string }

// mostShards bounds the shards that are drawn of a table.
const mostShards = 200

// phaseWords are the phases as people read them.
var phaseWords = map[string]string{"prepare": "Plan", "copy": "Copy and stream", "in_sync": "In sync", "cutover": "Cut over", "done": "Done"}

// gateWords are the gates of a cutover as people read them.
var gateWords = map[string]string{
	cutover.GateCopy: "copy complete", cutover.GateLag: "lag held", cutover.GateVerify: "verify clean", cutover.GateFull: "full verify clean",
	cutover.GateParked: "parked items", cutover.GateHeadroom: "headroom", cutover.GateFence: "late writes refused",
}

// sum are the figures of the migration as a whole; nil if unknown.
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
	v := view{Document: m, ReadAt: readAt.UTC().Format(time.TimeOnly), Blind: !fresh, Phases: phasesOf(m.Phase), Figures: figuresOf(m, t), Gates: gatesOf(m)}
	for i := range m.Tables {
		v.Rows = append(v.Rows, rowOf(m, &m.Tables[i]))
	}
	for i := range m.Workers {
		w := &m.Workers[i]
		h := hand{w.ID, status.OrDash(w.Host), status.OrDash(w.Version), strings.Join(w.Keeps, ", "), w.HeartbeatText(m.At), w.Leases, state{"alive", "●", "good"}}
		if w.Silent {
			h.State = state{"silent", "✗", "bad"}
		}
		v.Hands = append(v.Hands, h)
	}
	for _, e := range events {
		about := slices.DeleteFunc([]string{e.Table, e.Shard, e.Worker, e.Phase}, func(s string) bool { return s == "" })
		v.Happened = append(v.Happened, happening{e.At.UTC().Format(time.TimeOnly), strings.ReplaceAll(e.Kind, "_", " "), strings.Join(about, " · "), e.Reason})
	}
	return v
}

// phasesOf are the phases in their order: those that are over, the one that is, and those to come.
func phasesOf(now string) (out []state) {
	at := slices.Index(admin.Phases, now)
	for i, p := range admin.Phases {
		s := state{phaseWords[p], "○", "soft"}
		switch {
		case i < at || i == at && i == len(admin.Phases)-1:
			s.Shape, s.Class = "✓", "good"
		case i == at:
			s.Shape, s.Class = "◐", "now"
		}
		out = append(out, s)
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
	open := len(m.Cutover.OpenGates)
	gates := figure{ID: "cutover", Label: "Cutover", Text: "ready", Value: strconv.Itoa(open)}
	switch {
	case m.Cutover.Attempt > 0 && m.Cutover.Step != "":
		gates.Text = m.Cutover.Step
	case !m.Cutover.Ready:
		gates.Text = fmt.Sprintf("%d of %d gates ready", len(cutover.GateNames)-open, len(cutover.GateNames))
	}
	return []figure{lag, headroom, applied, copied, gates}
}

// number is a figure for programs; "" if it is unknown.
func number(f *float64) string {
	if f == nil {
		return ""
	}
	return strconv.FormatFloat(*f, 'f', -1, 64)
}

func gatesOf(m *status.Document) (out []state) {
	for _, g := range cutover.GateNames {
		s := state{gateWords[g], "✓", "good"}
		if slices.Contains(m.Cutover.OpenGates, g) {
			s.Shape, s.Class = "✗", "bad"
		}
		out = append(out, s)
	}
	return out
}

func rowOf(m *status.Document, t *status.Table) row {
	r := row{Table: t, Percent: -1, State: state{phaseWords[t.Phase], "◐", "now"}}
	switch {
	case t.Suspended != "":
		r.State = state{"set aside", "✗", "bad"}
	case t.NeedsLoad:
		r.State = state{"needs a load", "✗", "bad"}
	case t.Paused != nil:
		r.State = state{"paused", "‖", "bad"}
	case t.Phase == status.PhaseInSync:
		r.State.Shape, r.State.Class = "✓", "good"
	}
	if t.Copy.Items != nil && t.Copy.Estimate != nil {
		if share, ok := backfill.Percent(*t.Copy.Items, *t.Copy.Estimate, t.Copy.State == "done"); ok {
			r.Percent = share
		}
	}
	for _, d := range m.Lineage(t.Source) {
		if len(r.Lineage) == mostShards {
			r.More++
			continue
		}
		line := shardLine{Drawn: d, State: state{d.Shard.State, "■", "now"}, Who: status.OrDash(d.Owner)}
		switch d.Shard.State {
		case "done":
			line.State.Shape, line.State.Class = "✓", "good"
		case "waiting":
			line.State.Shape, line.State.Class = "□", "soft"
		case "gap":
			line.State.Shape, line.State.Class = "✗", "bad"
		}
		if d.Why != nil {
			line.Why = d.Why.Text
		}
		r.Lineage = append(r.Lineage, line)
	}
	return r
}
