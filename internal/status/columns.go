package status

import (
	"slices"
	"strconv"
	"strings"

	"github.com/dynamodb-bigtable/replicator/internal/admin"
)

// Column is a figure of a table. Text, page and metrics show those of this list, so that a new
// figure is its member in Table and its entry here.
type Column struct {
	ID         string // ends the identifier of the cell on the page
	Head, Unit string // an empty head: only the metric has the figure
	Number     bool   // the cell holds a number
	Gauge      admin.Gauge

	rare bool // shown only while some table has a figure that is not zero
	// text is the cell for people; nil is the figure as a whole number.
	text func(*tableLine) string
	// value is the figure for programs; nil is unknown.
	value func(*Table) *float64
	// join puts the figures of the tables of a pattern together.
	join func(sum *Table, all []*Table)
	mark func(*Table) Mark
}

// Mark is what the page makes of a figure.
type Mark int

// The marks: most figures have none.
const (
	unmarked Mark = iota
	MarkGood
	MarkBad
)

// ColumnCopy is the column beside which the page draws how far a copy is.
const ColumnCopy = "copy"

// Columns are the figures of tables in the order in which they are shown.
var Columns = []Column{
	{ID: ColumnCopy, Head: "Copy", text: func(l *tableLine) string { return l.copy }, mark: markOfCopy},
	{ID: "lag", Head: "Lag", Number: true, text: (*tableLine).lagText, value: func(t *Table) *float64 { return t.LagSeconds }, join: joinLag,
		mark: func(t *Table) Mark { return badIf(t.Old) }},
	{ID: "headroom", Head: "Headroom", Number: true, Gauge: admin.GaugeHeadroom, value: headroom, join: joinHeadroom,
		text: func(l *tableLine) string { return l.headroomText() }, mark: func(t *Table) Mark { return badIf(t.headroomLittle()) }},
	{ID: "rate", Head: "Changes", Unit: "/s", Number: true, text: func(l *tableLine) string { return rateText(l.ChangesPerSecond) },
		value: func(t *Table) *float64 { return t.ChangesPerSecond }, join: joinRate},
	{ID: "parked", Head: "Parked", Number: true, Gauge: admin.GaugeParked, value: func(t *Table) *float64 { return figure(t.Parked) },
		join: joinParked, mark: func(t *Table) Mark { return badIf(t.Parked > 0) }},
	{ID: "verify", Head: "Verify", text: func(l *tableLine) string { return l.Verify.text() }, join: joinVerify, mark: markOfVerify},
	{Gauge: admin.GaugeSettling, value: func(t *Table) *float64 { return figure(t.Settling) }},
	{Gauge: admin.GaugeSetAside, value: func(t *Table) *float64 { return truth(t.Suspended != "" && !t.LongGone) }},
	{Gauge: admin.GaugeLastPoll, value: lastPoll},
}

// Columns are those that are shown of these tables, in their order.
func (m *Document) Columns() []Column {
	return slices.DeleteFunc(slices.Clone(Columns), func(c Column) bool {
		some := func(t Table) bool { v := c.value(&t); return v != nil && *v != 0 }
		return c.Head == "" || c.rare && !slices.ContainsFunc(m.Tables, some)
	})
}

// Text is the cell of a table for people; "-" if unknown.
func (c *Column) Text(t *Table) string { l := lineOf(t); return c.cell(&l) }

// cell is what a line of the table of tables has in the column.
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

// Value is the figure of a table for programs; nil if it is unknown, or no number.
func (c *Column) Value(t *Table) *float64 {
	if c.value == nil {
		return nil
	}
	return c.value(t)
}

// Mark is what the page makes of the figure of a table.
func (c *Column) Mark(t *Table) Mark {
	if c.mark == nil {
		return unmarked
	}
	return c.mark(t)
}

// title is the head of the column in the text.
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

// figure is a count as a figure.
func figure[N int | uint64](n N) *float64 { v := float64(n); return &v }

// truth is 1 for what holds.
func truth(holds bool) *float64 {
	if holds {
		return figure(1)
	}
	return figure(0)
}

// headroom is what the stream leaves; nil if unknown, or once there is no stream.
func headroom(t *Table) *float64 {
	if t.LongGone {
		return nil
	}
	return t.HeadroomSeconds
}

// lastPoll is when the shard was last read that was not read for the longest time, in seconds since
// 1970; nil if there is none to read any more.
func lastPoll(t *Table) *float64 {
	if t.OldestReadAt == nil || t.LongGone {
		return nil
	}
	at := float64(t.OldestReadAt.UnixMicro()) / 1e6
	return &at
}

// joinLag takes the largest.
func joinLag(sum *Table, all []*Table) {
	for _, t := range all {
		if t.LagSeconds != nil && (sum.LagSeconds == nil || *t.LagSeconds > *sum.LagSeconds) {
			sum.LagSeconds, sum.LagEstimated = t.LagSeconds, t.LagEstimated
		}
	}
}

// joinHeadroom takes the least; it may be less if it is unknown of a table that can be followed.
func joinHeadroom(sum *Table, all []*Table) {
	for _, t := range all {
		if t.HeadroomSeconds != nil && (sum.HeadroomSeconds == nil || *t.HeadroomSeconds < *sum.HeadroomSeconds) {
			sum.HeadroomSeconds = t.HeadroomSeconds
		}
		sum.HeadroomAtMost = sum.HeadroomAtMost || t.HeadroomAtMost || t.HeadroomSeconds == nil && t.Suspended == ""
	}
}

// joinRate adds those that are known.
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

func joinParked(sum *Table, all []*Table) {
	for _, t := range all {
		sum.Parked += t.Parked
	}
}

// joinVerify takes the one that an operator has to know of first.
func joinVerify(sum *Table, all []*Table) {
	sum.Verify = all[0].Verify
	for _, t := range all[1:] {
		sum.Verify = sum.Verify.worse(t.Verify)
	}
}
