package status

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/internal/clock"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// Render writes the status as text. It returns the first error of the writer.
func (m *Document) Render(w io.Writer, shards bool) error {
	step := slices.Index(phases, m.Phase) + 1
	_, _ = fmt.Fprintf(w, "%s   phase %d of %d: %s   %s → %s   %s, %s\n%s\n\n", m.Name, step, len(phases), m.State.Text(),
		m.Source, m.Target, m.workersText(), terminal.Plural(m.Leases, "lease"), m.Headline())
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if err := m.writeTables(tab); err != nil {
		return err
	}
	if shards {
		if err := m.writeShards(w); err != nil {
			return err
		}
	}
	if notes := m.notes(); len(notes) > 0 {
		_, _ = fmt.Fprintf(w, "\n%s\n", strings.Join(notes, "\n"))
	}
	return standing.WriteNext(w, m.NextSteps)
}

// writeTables writes a line for each table, or one line for all tables that match a pattern.
func (m *Document) writeTables(tab *tabwriter.Writer) error {
	columns := m.Columns()
	heads := []string{"TABLE"}
	for _, c := range columns {
		heads = append(heads, c.title())
	}
	_, _ = fmt.Fprintln(tab, strings.Join(heads, "\t"))
	for _, l := range m.collapsed() {
		cells := []string{l.name}
		for _, c := range columns {
			cells = append(cells, c.cell(&l))
		}
		_, _ = fmt.Fprintln(tab, strings.Join(cells, "\t"))
	}
	return tab.Flush()
}

func (m *Document) workersText() string {
	text, silent, idle := terminal.Plural(len(m.Workers), "worker"), 0, 0
	for _, w := range m.Workers {
		switch {
		case w.Silent:
			silent++
		case w.Idle:
			idle++
		}
	}
	var of []string
	if idle > 0 {
		of = append(of, fmt.Sprintf("%d idle", idle))
	}
	if m.Standbys > 0 {
		of = append(of, fmt.Sprintf("%d standby", m.Standbys))
	}
	if silent > 0 {
		of = append(of, fmt.Sprintf("%d silent", silent))
	}
	if len(of) > 0 {
		text += " (" + strings.Join(of, ", ") + ")"
	}
	return text
}

// standsText returns the table's state in words, if no figure or other line shows the state.
func (t *Table) standsText() string {
	switch t.State {
	case standing.Stalled, standing.Sweeping, standing.Differs, standing.CatchingUp, standing.Unknown:
	case standing.Copying:
		if !t.Copying {
			return ""
		}
	default:
		return ""
	}
	if t.Suspended != "" || t.State == standing.Stalled && len(t.Troubles) > 0 {
		return "" // a line about a failure shows it
	}
	since := ""
	if t.Since != nil {
		since = " since " + t.Since.Format(time.RFC3339)
	}
	return fmt.Sprintf("%s is %s%s: %s", t.Source, t.State.Text(), since, standing.Sentence(t.State, t.why(), OrEmpty(t.Detail)))
}

// writeShards draws the lineage of every table, and lists the workers.
func (m *Document) writeShards(w io.Writer) error {
	for _, t := range m.Tables {
		for _, shards := range m.streams(t.Source) {
			_, _ = fmt.Fprintf(w, "\nShards of %s, stream %s\n", t.Source, shards[0].Stream)
			if err := writeLineage(w, shards); err != nil {
				return err
			}
		}
	}
	if len(m.Workers) == 0 {
		return nil
	}
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(tab, "\nWORKER\tHOST\tVERSION\tLEASES\tKEEPS\tHEARTBEAT")
	for _, worker := range m.Workers {
		heartbeat := "-"
		if worker.HeartbeatAt != nil {
			heartbeat = since(worker.HeartbeatAt, m.At) + " ago"
		}
		switch {
		case worker.Silent:
			heartbeat += " (silent)"
		case worker.Idle:
			heartbeat += " (idle)"
		case worker.Standby():
			heartbeat += " (standby)"
		}
		if offset := worker.ClockOffsetSeconds; offset != nil {
			heartbeat += ", its clock is " + clock.Text(AsDuration(*offset)) + " DynamoDB's"
		}
		keeps := strings.Join(worker.Keeps, ", ")
		_, _ = fmt.Fprintf(tab, "%s\t%s\t%s\t%d\t%s\t%s\n", worker.ID, OrDash(worker.Host), OrDash(worker.Version), worker.Leases, OrDash(&keeps), heartbeat)
	}
	return tab.Flush()
}

// streams returns the shards of a table, grouped by stream, in the order of the streams' labels.
func (m *Document) streams(source string) [][]Shard {
	var streams []string
	byStream := map[string][]Shard{}
	for _, s := range m.Shards {
		if s.Source != source {
			continue
		}
		if byStream[s.Stream] == nil {
			streams = append(streams, s.Stream)
		}
		byStream[s.Stream] = append(byStream[s.Stream], s)
	}
	slices.Sort(streams)
	out := make([][]Shard, len(streams))
	for i, stream := range streams {
		out[i] = byStream[stream]
	}
	return out
}

func writeLineage(w io.Writer, shards []Shard) error {
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	head := []string{"SHARD"}
	for _, c := range shardColumns {
		head = append(head, c.head)
	}
	_, _ = fmt.Fprintln(tab, strings.Join(head, "\t"))
	for _, d := range drawn(shards) {
		line := []string{d.prefix + d.shard.ID}
		for _, c := range shardColumns {
			line = append(line, c.text(d.shard))
		}
		_, _ = fmt.Fprintln(tab, strings.Join(line, "\t"))
	}
	return tab.Flush()
}

// drawnShard is a line in the drawing of a lineage.
type drawnShard struct {
	prefix string
	shard  *Shard
}

// drawn draws the shards of one stream below their parents. An only child has the same indentation
// as its parent. DynamoDB replaces a shard every four hours, and with more indentation the drawing
// would become too wide. Several children of a shard are indented.
//
//	a
//	↳ b          the child of a
//	├─ c         b was split
//	│  ↳ d       the child of c
//	└─ e
func drawn(shards []Shard) []drawnShard {
	present, children := map[string]bool{}, map[string][]*Shard{}
	for i := range shards {
		present[shards[i].ID] = true
	}
	for i := range shards {
		parent := OrDash(shards[i].Parent)
		if !present[parent] {
			parent = ""
		}
		children[parent] = append(children[parent], &shards[i])
	}
	for _, c := range children {
		slices.SortFunc(c, func(a, b *Shard) int { return strings.Compare(a.ID, b.ID) })
	}
	var out []drawnShard
	var walk func(s *Shard, first, rest string)
	walk = func(s *Shard, first, rest string) {
		out = append(out, drawnShard{first, s})
		below := children[s.ID]
		for i, child := range below {
			switch {
			case len(below) == 1:
				walk(child, rest+"↳ ", rest)
			case i < len(below)-1:
				walk(child, rest+"├─ ", rest+"│  ")
			default:
				walk(child, rest+"└─ ", rest+"   ")
			}
		}
	}
	for _, root := range children[""] {
		walk(root, "", "")
	}
	return out
}

func (t *Table) headroomText() string {
	text := seconds(t.HeadroomSeconds)
	if t.HeadroomSeconds != nil && t.HeadroomAtMost {
		return "<" + text
	}
	return text
}

func lagText(lag *float64, estimated bool) string {
	text := seconds(lag)
	if lag != nil && estimated {
		return "~" + text
	}
	return text
}

// rateText formats a rate as text, with one decimal if it is below ten.
func rateText(rate *float64) string {
	switch {
	case rate == nil:
		return "-"
	case *rate > 0 && *rate < 9.95:
		return strings.TrimSuffix(strconv.FormatFloat(max(0.1, math.Round(*rate*10)/10), 'f', 1, 64), ".0")
	}
	return backfill.FormatCount(*rate)
}

func AsDuration(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func seconds(s *float64) string {
	if s == nil {
		return "-"
	}
	return backfill.FormatDuration(AsDuration(*s))
}

// windowText formats the length of a period. About one hour is shown as an hour.
func windowText(s float64) string {
	if d := AsDuration(s); d < 58*time.Minute {
		return backfill.FormatDuration(d)
	}
	return "hour"
}

// since formats the time between the given time and `now`; "-" if the moment is unknown.
func since(t *time.Time, now time.Time) string {
	if t == nil {
		return "-"
	}
	return backfill.FormatDuration(max(0, now.Sub(*t)))
}

// OrEmpty returns a text; "" if it is unknown.
func OrEmpty(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

func OrDash(text *string) string {
	if text == nil || *text == "" {
		return "-"
	}
	return *text
}
