package dashboard

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/status"
)

// shownHours is the number of hours that a page shows, including the current one.
const shownHours = 24

// The layout of a chart, in the units of its SVG element. The values are written left of the plot, and
// the times below it.
const (
	chartWidth, chartHeight = 620, 150
	plotLeft, plotTop       = 64, 10
	plotWidth, plotHeight   = 540, 110
	barGap                  = 3
	ticksEvery              = 6 // hours between two times on the axis
)

// chart shows a figure of the last day, with a bar for each hour.
type chart struct {
	ID, Label string
	Bars      []bar
	Values    []axisTick // at the left, from the bottom
	Times     []axisTick // below
}

// bar is one hour of a chart.
type bar struct {
	X, Y, Width, Height float64
	Title               string
}

// axisTick is a value or a time on an axis, at a distance from the left or the top.
type axisTick struct {
	At   float64
	Text string
}

// past is the last day of a table: charts, and the same figures as a list.
type past struct {
	Charts []chart
	Hours  []hourLine
	Failed string // why the history cannot be read; "" if it was read
}

// hourLine is one hour in the list.
type hourLine struct {
	At, Lag, Headroom, Changes string
	Parked                     int
	State                      state
}

// history reads the last day of a table.
func (l *Ledger) history(ctx context.Context, source string, since time.Time) ([]checkpoint.Hour, error) {
	return glanceOf(ctx, l, "history/"+source, glanceFor, func(ctx context.Context) ([]checkpoint.Hour, error) {
		ledger, err := l.open(ctx)
		if err != nil || ledger == nil {
			return nil, err
		}
		return ledger.History(ctx, source, since)
	})
}

// pastOf draws the recorded hours of the day before a moment.
func pastOf(hours []checkpoint.Hour, now time.Time) (p past) {
	from := firstHour(now)
	hours = slices.DeleteFunc(slices.Clone(hours), func(h checkpoint.Hour) bool { return h.From.Before(from) || h.From.After(now) })
	if len(hours) == 0 {
		return past{}
	}
	seconds := func(of func(checkpoint.Hour) *float64) func(checkpoint.Hour) float64 {
		return func(h checkpoint.Hour) float64 { return known(of(h)) }
	}
	span := func(s float64) string { return backfill.FormatDuration(status.AsDuration(s)) }
	p.Charts = []chart{
		chartOf("history-lag", "Highest lag", hours, from, seconds(func(h checkpoint.Hour) *float64 { return h.Lag }), span),
		chartOf("history-changes", "Changes per hour", hours, from, func(h checkpoint.Hour) float64 { return float64(h.Changes) }, backfill.FormatCount),
		chartOf("history-headroom", "Least headroom", hours, from, seconds(func(h checkpoint.Hour) *float64 { return h.Headroom }), span),
	}
	for i := len(hours) - 1; i >= 0; i-- {
		h := hours[i]
		s := standing.State(h.State)
		p.Hours = append(p.Hours, hourLine{h.From.UTC().Format("2006-01-02 15:04"), secondsText(h.Lag), secondsText(h.Headroom), strconv.FormatUint(h.Changes, 10), h.Parked, standsOf(status.Standing{State: s})})
	}
	return p
}

// firstHour returns the beginning of the first hour that is shown at a moment.
func firstHour(now time.Time) time.Time {
	return now.UTC().Truncate(time.Hour).Add(-(shownHours - 1) * time.Hour)
}

// chartOf draws a figure of each hour. An hour with a negative figure has no bar, because the figure is
// unknown. The argument `text` formats a figure with its unit.
func chartOf(id, label string, hours []checkpoint.Hour, from time.Time, figure func(checkpoint.Hour) float64, text func(float64) string) chart {
	c := chart{ID: id, Label: label}
	highest := 0.0
	for _, h := range hours {
		highest = max(highest, figure(h))
	}
	top := roundUp(highest)
	const slot = float64(plotWidth) / shownHours
	for _, h := range hours {
		value, n := figure(h), h.From.Sub(from).Hours()
		if value < 0 {
			continue
		}
		height := math.Max(1, value/top*plotHeight) // zero is a line
		c.Bars = append(c.Bars, bar{tenth(plotLeft + n*slot + barGap/2.0), tenth(plotTop + plotHeight - height), tenth(slot - barGap), tenth(height),
			h.From.UTC().Format("15:04") + " UTC: " + text(value)})
	}
	for _, share := range []float64{0, 0.5, 1} {
		c.Values = append(c.Values, axisTick{tenth(plotTop + plotHeight*(1-share)), text(top * share)})
	}
	for n := range shownHours {
		if at := from.Add(time.Duration(n) * time.Hour); at.Hour()%ticksEvery == 0 {
			c.Times = append(c.Times, axisTick{tenth(plotLeft + float64(n)*slot), at.Format("15:04")})
		}
	}
	return c
}

// roundUp returns the top of an axis: the next number with one digit that is not 0, at least 1.
func roundUp(highest float64) float64 {
	if highest <= 1 {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(highest)))
	return math.Ceil(highest/unit) * unit
}

// tenth rounds a length to a tenth.
func tenth(x float64) float64 { return math.Round(x*10) / 10 }

// About describes the chart for readers who do not see it.
func (c chart) About() string {
	return fmt.Sprintf("%s of each hour of the last %d hours; the list below has the same figures", c.Label, shownHours)
}
