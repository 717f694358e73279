package loads

import (
	"strconv"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// Configured returns the configured limits. Limits that an operator sets override the configured
// limits.
func Configured(b config.Backfill) checkpoint.Limits {
	var l checkpoint.Limits
	if b.MaxRowsPerSecond > 0 {
		rows := float64(b.MaxRowsPerSecond)
		l.RowsPerSecond = &rows
	}
	if b.MaxReadCapacity != "" {
		l.Read = readLimit(b.MaxReadCapacity)
	}
	if share, ok := b.PauseAboveTargetCPU.Share(); ok {
		l.TargetCPU = &share
	}
	return l
}

func readLimit(c config.Capacity) *checkpoint.ReadLimit {
	if share, ok := config.Percent(c).Share(); ok {
		return &checkpoint.ReadLimit{Share: share}
	}
	units, _ := c.UnitsPerSecond(0)
	return &checkpoint.ReadLimit{Units: units}
}

// none is the value of a throttle flag that removes a limit.
const none = "none"

// Asked holds the values of the throttle flags. The value "" leaves a limit unchanged, and "none"
// removes it.
type Asked struct{ MaxRowsPerSecond, MaxReadCapacity, PauseAboveTargetCPU string }

// Limits parses the values of the throttle flags.
func (a Asked) Limits() (checkpoint.Limits, error) {
	var l checkpoint.Limits
	if a.MaxRowsPerSecond != "" {
		rows, err := strconv.ParseUint(a.MaxRowsPerSecond, 10, 31)
		if err != nil && a.MaxRowsPerSecond != none {
			return l, diag.BadUsage("--max-rows-per-second is not a number", "give rows a second, or none")
		}
		limit := float64(rows)
		l.RowsPerSecond = &limit
	}
	if a.MaxReadCapacity == none {
		l.Read = &checkpoint.ReadLimit{}
	} else if a.MaxReadCapacity != "" {
		c, err := config.ParseCapacity(a.MaxReadCapacity)
		if err != nil {
			return l, &diag.Error{Code: diag.Usage, What: "--max-read-capacity cannot be " + strconv.Quote(a.MaxReadCapacity), Err: err, Fix: "give a share like 25%, read units a second like 500, or none"}
		}
		l.Read = readLimit(c)
	}
	if a.PauseAboveTargetCPU == none {
		l.TargetCPU = new(float64)
	} else if a.PauseAboveTargetCPU != "" {
		p, err := config.ParsePercent(a.PauseAboveTargetCPU)
		if err != nil {
			return l, &diag.Error{Code: diag.Usage, What: "--pause-above-target-cpu cannot be " + strconv.Quote(a.PauseAboveTargetCPU), Err: err, Fix: "give a percentage like 70%, or none"}
		}
		share, _ := p.Share()
		l.TargetCPU = &share
	}
	return l, nil
}

// limitsOf returns the limits in force for a table.
func limitsOf(b config.Backfill, state checkpoint.TableState) Limits {
	in := state.Limits.Over(Configured(b))
	out := Limits{ChangedAt: terminal.KnownTime(state.Limits.ChangedAt)}
	if rows, ok := in.Rows(); ok {
		out.MaxRowsPerSecond = &rows
	}
	if in.Read != nil && *in.Read != (checkpoint.ReadLimit{}) {
		text := percent(in.Read.Share)
		if in.Read.Units > 0 {
			text = number(in.Read.Units)
		}
		out.MaxReadCapacity = &text
	}
	if share, ok := in.CPU(); ok {
		text := percent(share)
		out.PauseAboveTargetCPU = &text
	}
	return out
}

func number(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

// percent formats a share in percent, with up to three decimals, the finest accepted unit.
func percent(share float64) string {
	return strconv.FormatFloat(float64(int64(share*100_000+0.5))/1000, 'f', -1, 64) + "%"
}
