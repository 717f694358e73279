package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/status"
)

// datum is a named value of a page. Value is the value for programs.
type datum struct{ ID, Label, Text, Value string }

// tablePage is the page of one table.
type tablePage struct {
	row
	Headline state
	Fields   []datum
	Results  []result
	Past     past
	Shards   []status.Drawn
	Unread   state
}

// result is the result of a verify, with the number of rows of each kind.
type result struct {
	Name  string
	State state
	Rows  []datum
}

func tablePageOf(ctx context.Context, m *status.Document, ledger *Ledger, name string) (tablePage, error) {
	t, err := tableOf(m, name)
	if err != nil {
		return tablePage{}, err
	}
	v := tablePage{row: rowOf(m, t), Headline: standsOf(t.Standing), Shards: m.Lineage(name), Unread: unreadOf(m, t)}
	v.Headline.Word = t.Headline(m.At)
	for _, c := range v.Cells {
		v.Fields = append(v.Fields, datum{c.ID, c.Head + c.Unit, c.Word, c.Value})
	}
	v.Fields = append(v.Fields, datum{"target", "Target", t.Target, t.Target}, datum{"mode", "Mode", t.Apply, t.Apply})
	if t.Generation != nil {
		n := strconv.FormatUint(uint64(*t.Generation), 10)
		v.Fields = append(v.Fields, datum{"generation", "Generation", n, n})
	}
	if g := t.LastGap; g != nil {
		v.Fields = append(v.Fields, datum{"gaps", "Gaps", fmt.Sprintf("%d, the last at %s: %s", t.Gaps, timeText(g.At), g.Reason), strconv.Itoa(t.Gaps)})
	}
	hours, err := ledger.history(ctx, name, firstHour(m.At))
	if v.Past = pastOf(hours, m.At); err != nil {
		v.Past.Failed = err.Error() // the rest of the page does not depend on it
	}
	last, full := t.Verified()
	for _, of := range []struct {
		name string
		checkpoint.VerifyResult
	}{{"last", last}, {"last of all items", full}} {
		if of.Known() && (of.name == "last" || of.Number != last.Number) {
			v.Results = append(v.Results, resultOf(of.name, of.VerifyResult, m.At))
		}
	}
	return v, nil
}

// resultOf returns the display of a verify's result.
func resultOf(name string, r checkpoint.VerifyResult, now time.Time) result {
	out := result{Name: name, State: state{r.Verdict(now), "✗", "bad"}}
	if r.Clean() {
		out.State.Shape, out.State.Class = "✓", "good"
	}
	for _, kind := range []struct {
		id, label string
		n         int64
	}{{"compared", "Compared", r.Compared}, {"missing", "Missing", r.Missing}, {"different", "Different", r.Different}, {"extra", "Extra", r.Extra}, {"foreign", "Foreign", r.Foreign}, {"in_flight", "In flight", r.InFlight}} {
		text := strconv.FormatInt(kind.n, 10)
		out.Rows = append(out.Rows, datum{kind.id, kind.label, text, text})
	}
	return out
}

// parkedPage is the list of a table's parked items.
type parkedPage struct {
	Source string
	parkedList
}

func parkedPageOf(ctx context.Context, m *status.Document, ledger *Ledger, name string) (parkedPage, error) {
	if _, err := tableOf(m, name); err != nil {
		return parkedPage{}, err
	}
	list, err := ledger.parked(ctx, name)
	return parkedPage{name, list}, err
}

// shardPage is the page of one shard.
type shardPage struct {
	*status.Shard
	State    state
	Fields   []datum
	Children []string
}

func shardPageOf(m *status.Document, table, id string) (shardPage, error) {
	t, err := tableOf(m, table)
	if err != nil {
		return shardPage{}, err
	}
	i := slices.IndexFunc(m.Shards, func(s status.Shard) bool { return s.Source == table && s.ID == id })
	if i < 0 {
		return shardPage{}, errNoSuch
	}
	s := &m.Shards[i]
	v := shardPage{Shard: s, State: stateOf(s, unreadOf(m, t))}
	for _, o := range m.Shards {
		if o.Source == table && o.Stream == s.Stream && o.Parent != nil && *o.Parent == id {
			v.Children = append(v.Children, o.ID)
		}
	}
	when := func(at *time.Time) (text, value string) {
		if at == nil {
			return "-", ""
		}
		return timeText(*at), at.Format(time.RFC3339)
	}
	add := func(id, label, text, value string) { v.Fields = append(v.Fields, datum{id, label, text, value}) }
	add("stream", "Stream", s.Stream, s.Stream)
	add("owner", "Worker", status.OrDash(s.Owner), status.OrEmpty(s.Owner))
	add("host", "Host", status.OrDash(s.Host), status.OrEmpty(s.Host))
	add("position", "Position", status.OrDash(s.Position), status.OrEmpty(s.Position))
	add("lag", "Lag", s.LagText(), number(s.LagSeconds))
	add("headroom", "Headroom", secondsText(s.HeadroomSeconds), number(s.HeadroomSeconds))
	add("rate", "Changes/s", s.RateText(), number(s.ChangesPerSecond))
	changes := strconv.FormatUint(s.Changes, 10)
	add("changes", "Applied changes", changes, changes)
	for _, at := range []struct {
		id, label string
		time      *time.Time
	}{{"event_time", "Last applied change", s.EventTime}, {"read_at", "Last read", s.ReadAt}, {"written_at", "Last heartbeat", s.WrittenAt}, {"done_at", "Read to its end", s.DoneAt}} {
		text, value := when(at.time)
		add(at.id, at.label, text, value)
	}
	epoch := strconv.FormatUint(s.Epoch, 10)
	add("epoch", "Lease epoch", epoch, epoch)
	if s.Why != nil {
		add("why", "Waits", s.Why.Text, s.Why.Code)
	}
	return v, nil
}

// cutoverPage is the page of a group's cutover: its steps, hooks and abandoned tries.
type cutoverPage struct {
	Group, Tables string
	Attempt       uint32
	State         state
	Trouble       string
	Command       string
	Steps         []stepLine
	Hooks         []hookLine
	GivenUp       []stepLine
	Gates         []checkpoint.CutoverGate
}

// stepLine is a line of a timeline. Lasted is how long the step lasted; "-" if it has not ended.
type stepLine struct{ At, Step, Text, By, Lasted string }

// hookLine is one call of a hook. Its output is not shown, because it may hold data of the
// application.
type hookLine struct {
	At, Name, Lasted string
	Outcome          state
}

func cutoverPageOf(m *status.Document, group string) (cutoverPage, error) {
	i := slices.IndexFunc(m.Cutovers, func(c status.Cutover) bool { return groupName(c.Group) == group })
	if i < 0 {
		return cutoverPage{}, errNoSuch
	}
	shown := &m.Cutovers[i]
	c := shown.Latest()
	v := cutoverPage{Group: groupName(shown.Group), Tables: strings.Join(shown.Tables, ", "), Attempt: c.Attempt, Trouble: c.Trouble, State: groupState(shown), Gates: c.Gates, Command: "replicator cutover status"}
	for j, e := range c.Timeline {
		line := stepLine{At: timeText(e.At), Step: stepWord(e.Step), Text: e.Text, By: e.By, Lasted: "-"}
		switch {
		case j+1 < len(c.Timeline):
			line.Lasted = lasted(e.At, c.Timeline[j+1].At)
		case !c.Step.Active() && !c.EndedAt.IsZero():
			line.Lasted = lasted(e.At, c.EndedAt)
		}
		v.Steps = append(v.Steps, line)
	}
	for _, h := range c.Hooks {
		line := hookLine{timeText(h.Began), h.Name, "-", state{h.Outcome, "✓", "good"}}
		if !h.Ended.IsZero() {
			line.Lasted = lasted(h.Began, h.Ended)
		}
		switch h.Outcome {
		case "done", checkpoint.HookQuiet:
		case "":
			line.Outcome = state{"running", "◐", "now"}
		default:
			line.Outcome.Shape, line.Outcome.Class = "✗", "bad"
		}
		v.Hooks = append(v.Hooks, line)
	}
	for _, g := range c.GivenUp {
		v.GivenUp = append(v.GivenUp, stepLine{At: timeText(g.FreezeBegunAt), Step: fmt.Sprint(g.Attempt), Text: g.Reason, Lasted: lasted(g.FreezeBegunAt, g.UnfrozenAt)})
	}
	return v, nil
}

// groupName returns the name of a group in addresses. A migration that is a single group has no name
// for it.
func groupName(name string) string { return cmp.Or(name, "all") }

// stepWord returns the word of a cutover's step.
func stepWord(step string) string { return cmp.Or(stepWords[checkpoint.CutoverStep(step)], step) }

// lasted formats the time between two moments; "-" if one of them is unknown.
func lasted(from, to time.Time) string {
	if from.IsZero() || to.IsZero() {
		return "-"
	}
	return backfill.FormatDuration(max(0, to.Sub(from)))
}

// timeText formats a moment; "-" if it is unknown.
func timeText(at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return at.UTC().Format("2006-01-02 15:04:05") + " UTC"
}

// secondsText formats a number of seconds as a duration; "-" if it is unknown.
func secondsText(s *float64) string {
	if s == nil {
		return "-"
	}
	return backfill.FormatDuration(status.AsDuration(*s))
}
