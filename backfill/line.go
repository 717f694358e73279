package backfill

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Report describes the progress of one table's load.
type Report struct {
	Table string
	// Items is the number of items that are durable.
	Items int64
	// Estimate is the number of items in the table, as DynamoDB counted them hours ago; 0 if
	// unknown.
	Estimate int64
	// Rate is in items a second over the last five minutes; negative if unknown.
	Rate float64
	// ETA is the time still needed; 0 if it is not known yet.
	ETA time.Duration
	// Lag is the lag of the table's stream. Headroom is the time left until the stream drops
	// changes that are not applied. Both are negative if unknown.
	Lag, Headroom time.Duration
	// Throttled explains why the load is slower than possible; "" if it is not slower.
	Throttled string
	// Done reports that the load is complete. Took is the duration of the load; 0 if its start is
	// not known.
	Done bool
	Took time.Duration
}

// String returns the line for an operator, without a line end:
//
//	VideoApp  41.2M of about 136M (30%)  22.4k items/s  ETA 1h10m  lag 0.8s  headroom 23h41m  throttled: target CPU 74% > 70%
//
// String leaves out unknown values.
func (r Report) String() string {
	parts := []string{r.Table, r.copied()}
	if r.Rate >= 0 {
		parts = append(parts, FormatCount(r.Rate)+" items/s")
	}
	if r.ETA > 0 && !r.Done {
		parts = append(parts, "ETA "+FormatDuration(r.ETA))
	}
	if r.Lag >= 0 {
		parts = append(parts, "lag "+FormatDuration(r.Lag))
	}
	if r.Headroom >= 0 {
		parts = append(parts, "headroom "+FormatDuration(r.Headroom))
	}
	if r.Throttled != "" && !r.Done {
		parts = append(parts, "throttled: "+r.Throttled)
	}
	return strings.Join(parts, "  ")
}

func (r Report) copied() string {
	items := Counted(float64(r.Items), "item")
	switch {
	case r.Done && r.Took <= 0:
		return items + " copied"
	case r.Done:
		return items + " copied in " + FormatDuration(r.Took)
	}
	percent, known := Percent(r.Items, r.Estimate, false)
	if !known {
		return items
	}
	count := FormatCount(float64(r.Items))
	return fmt.Sprintf("%s of about %s (%d%%)", count, FormatCount(float64(r.Estimate)), percent)
}

// Counted formats a number for people, with its noun.
func Counted(n float64, noun string) string {
	count := FormatCount(n)
	if count != "1" {
		noun += "s"
	}
	return count + " " + noun
}

// FormatCount formats a number for people: three digits at most, 999, 1.2k, 41.2M, 136M. Fractions
// are dropped below a thousand.
func FormatCount(n float64) string {
	if n < 999.5 {
		return strconv.FormatFloat(n, 'f', 0, 64)
	}
	unit := ""
	for _, unit = range []string{"k", "M", "G", "T"} {
		n /= 1000
		if n < 999.5 {
			break
		}
	}
	text := strconv.FormatFloat(n, 'f', 0, 64)
	if n < 99.95 {
		text = strings.TrimSuffix(strconv.FormatFloat(n, 'f', 1, 64), ".0")
	}
	return text + unit
}

// FormatDuration formats a duration for people, with at most two units: 0.8s, 45s, 3m20s, 12m,
// 1h10m, 23h41m, 4d04h. FormatDuration drops the remainder.
func FormatDuration(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + FormatDuration(-d)
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Truncate(100*time.Millisecond).Seconds(), 'f', 1, 64) + "s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < 10*time.Minute:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 100*time.Hour:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	const day = 24 * time.Hour
	return fmt.Sprintf("%dd%02dh", d/day, d%day/time.Hour)
}
