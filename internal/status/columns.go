package status

import (
	"slices"
	"strconv"
	"strings"

	"github.com/dynamodb-bigtable/replicator/internal/admin"
)

// Column is a figure of a table. The text, the page and the metrics show the figures in Columns. A
// new figure needs a member of Table and an entry in Columns.
type Column struct {
	ID         string // last part of the identifier of the cell on the page
	Head, Unit string // if Head is empty, only metrics show the figure
	Number     bool   // the cell holds a number
	Gauge      admin.Gauge

	left bool // the figure is of a table that the application has left
	rare bool // the figure is shown only if it is not zero for at least one table
	// text returns the text of a cell. If it is nil, the text is the figure as a whole number.
	text func(*tableLine) string
	// value returns the figure as a number; nil if it is unknown.
	value func(*Table) *float64
	// join combines the figures of all tables that match a pattern.
	join func(sum *Table, all []*Table)
	mark func(*Table) Mark
}

// Mark is the emphasis that the page gives to a figure.
type Mark int

// The marks. Most figures have none.
const (
	unmarked Mark = iota
	MarkGood
	MarkBad
)

// ColumnCopy is the id of the column in which the page draws the progress of a copy.
const ColumnCopy = "copy"

// Columns lists the figures of tables, in the order in which they are shown.
var Columns = []Column{
	{ID: ColumnCopy, Head: "Copy", text: func(l *tableLine) string { return l.copy }, mark: markOfCopy},
	{ID: "lag", Head: "Lag", Number: true, text: (*tableLine).lagText, value: func(t *Table) *float64 { return t.LagSeconds }, join: joinLag,
		mark: func(t *Table) Mark { return badIf(t.Old) }},
	{ID: "headroom", Head: "Headroom", Number: true, Gauge: admin.GaugeHeadroom, value: headroom, join: joinHeadroom,
		text: func(l *tableLine) string { return l.headroomText() }, mark: func(t *Table) Mark { return badIf(t.headroomLittle()) }},
	{ID: "rate", Head: "Changes", Unit: "/s", Number: true, text: func(l *tableLine) string { return rateText(l.ChangesPerSecond) },
		value: func(t *Table) *float64 { return t.ChangesPerSecond }, join: joinRate},
	{ID: "parked", Head: "Parked", Number: true, Gauge: admin.GaugeParked, value: func(t *Table) *float64 { return figure(t.Parked) },
		join: joinSum(func(t *Table) *int { return &t.Parked }), mark: func(t *Table) Mark { return badIf(t.Parked > 0) }},
	{ID: "verify", Head: "Verify", text: func(l *tableLine) string { return l.Verify.text() }, join: joinVerify, mark: markOfVerify},
	{Gauge: admin.GaugeSettling, value: func(t *Table) *float64 { return figure(t.Settling) }},
	{Gauge: admin.GaugeSetAside, value: func(t *Table) *float64 { return truth(t.Suspended != "" && !t.LongGone) }},
	{Gauge: admin.GaugeLastPoll, value: lastPoll},
	{Gauge: admin.GaugeWayBackLag, left: true, value: ofWayBack(func(w *WayBack) *float64 { return w.LagSeconds })},
	{Gauge: admin.GaugeWayBackLost, left: true, value: ofWayBack(func(w *WayBack) *float64 { return truth(w.LostSince != nil) })},
	{Gauge: admin.GaugeWayBackParked, left: true, value: ofWayBack(func(w *WayBack) *float64 { return figure(w.Parked) })},
}

// shardColumn is a figure of a shard in the status text.
type shardColumn struct {
	head string
	text func(*Shard) string
}

var shardColumns = []shardColumn{
	{head: "STATE", text: func(s *Shard) string { return s.State }},
	{head: "OWNER", text: (*Shard).ownerText},
	{head: "POSITION", text: func(s *Shard) string { return OrDash(s.Position) }},
	{head: "LAG", text: func(s *Shard) string { return lagText(s.LagSeconds, s.LagEstimated) }},
	{head: "HEADROOM", text: func(s *Shard) string { return seconds(s.HeadroomSeconds) }},
	{head: "CHANGES/s", text: func(s *Shard) string { return rateText(s.ChangesPerSecond) }},
	{head: "WAITS", text: (*Shard).whyText},
}

// Columns returns the columns to show for the document's tables, in order.
func (m *Document) Columns() []Column {
	return slices.DeleteFunc(slices.Clone(Columns), func(c Column) bool {
		some := func(t Table) bool { v := c.value(&t); return v != nil && *v != 0 }
		return c.Head == "" || c.rare && !slices.ContainsFunc(m.Tables, some)
	})
}

// Text returns the text of a table's cell; "-" if the figure is unknown.
func (c *Column) Text(t *Table) string { l := lineOf(t); return c.cell(&l) }

// cell returns the text of the column's cell in a line of the status text.
func (c *Column) cell(l *tableLine) string {
	if c.text != nil {
		return c.text(l)
	}
	v := c.value(l.Table)
	if v == nil {
		return "-"
	}
	return strconv.FormatFloat(*v, 'f', 0, 64)
}

// Value returns the figure of a table as a number; nil if it is unknown or not a number.
func (c *Column) Value(t *Table) *float64 {
	if c.value == nil {
		return nil
	}
	return c.value(t)
}

// Metric returns the figure of a table for metrics. Figures of replication are nil once the application
// has left the table, and figures of the way back are nil before, because alerts would then have no
// meaning.
func (c *Column) Metric(t *Table) *float64 {
	if t.stands.Left != c.left {
		return nil
	}
	return c.Value(t)
}

// Mark returns the emphasis that the page gives to a table's figure.
func (c *Column) Mark(t *Table) Mark {
	if c.mark == nil {
		return unmarked
	}
	return c.mark(t)
}

// title returns the head of the column in the status text.
func (c *Column) title() string { return strings.ToUpper(c.Head) + c.Unit }

func badIf(bad bool) Mark {
	if bad {
		return MarkBad
	}
	return unmarked
}

func markOfCopy(t *Table) Mark {
	if t.Copy.State == copyDone {
		return MarkGood
	}
	return unmarked
}

func markOfVerify(t *Table) Mark {
	v := t.Verify
	switch {
	case v == nil:
		return unmarked
	case v.Clean != nil && !*v.Clean || v.Sampled != nil && v.Sampled.Differing > 0:
		return MarkBad
	case v.Clean != nil && !*v.Stale:
		return MarkGood
	}
	return unmarked
}

// figure converts a count to a figure.
func figure[N int | uint64](n N) *float64 { v := float64(n); return &v }

// truth returns 1 for true.
func truth(holds bool) *float64 {
	if holds {
		return figure(1)
	}
	return figure(0)
}

// ofWayBack returns a figure of the way back; nil if there is none.
func ofWayBack(of func(w *WayBack) *float64) func(*Table) *float64 {
	return func(t *Table) *float64 {
		if t.WayBack == nil {
			return nil
		}
		return of(t.WayBack)
	}
}

// headroom returns the table's headroom; nil if it is unknown, or if the stream no longer matters.
func headroom(t *Table) *float64 {
	if t.LongGone {
		return nil
	}
	return t.HeadroomSeconds
}

// lastPoll returns the earliest of the last reads of all shards, in seconds since 1970; nil if no
// shard is left to read.
func lastPoll(t *Table) *float64 {
	if t.OldestReadAt == nil || t.LongGone {
		return nil
	}
	at := float64(t.OldestReadAt.UnixMicro()) / 1e6
	return &at
}

// joinLag sets the lag of a line to the largest lag of its tables.
func joinLag(sum *Table, all []*Table) {
	for _, t := range all {
		if t.LagSeconds != nil && (sum.LagSeconds == nil || *t.LagSeconds > *sum.LagSeconds) {
			sum.LagSeconds, sum.LagEstimated = t.LagSeconds, t.LagEstimated
		}
	}
}

// joinHeadroom sets the headroom of a line to the least headroom of its tables. If the headroom of
// a replicated table is unknown, the real value may be lower.
func joinHeadroom(sum *Table, all []*Table) {
	for _, t := range all {
		if t.HeadroomSeconds != nil && (sum.HeadroomSeconds == nil || *t.HeadroomSeconds < *sum.HeadroomSeconds) {
			sum.HeadroomSeconds = t.HeadroomSeconds
		}
		sum.HeadroomAtMost = sum.HeadroomAtMost || t.HeadroomAtMost || t.HeadroomSeconds == nil && t.Suspended == ""
	}
}

// joinRate sets the rate of a line to the sum of the known rates.
func joinRate(sum *Table, all []*Table) {
	for _, t := range all {
		if t.ChangesPerSecond == nil {
			continue
		}
		rate := *t.ChangesPerSecond
		if sum.ChangesPerSecond != nil {
			rate += *sum.ChangesPerSecond
		}
		sum.ChangesPerSecond = &rate
	}
}

// joinSum sets a count of a line to the sum of the counts of its tables.
func joinSum(of func(*Table) *int) func(sum *Table, all []*Table) {
	return func(sum *Table, all []*Table) {
		for _, t := range all {
			*of(sum) += *of(t)
		}
	}
}

// joinVerify sets the verify of a line to the result that an operator must see first.
func joinVerify(sum *Table, all []*Table) {
	sum.Verify = all[0].Verify
	for _, t := range all[1:] {
		sum.Verify = sum.Verify.worse(t.Verify)
	}
}
