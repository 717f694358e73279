package comparison

import (
	"errors"
	"fmt"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/timespan"
)

// Flags are the operator's flags that choose which rows a verify compares, as they were given.
type Flags struct {
	Full                 bool
	Sample, ChangedSince string
}

// Choose parses the flags. It rejects flags that exclude each other.
func (o *Operator) Choose(f Flags) error {
	given := 0
	for _, one := range []bool{f.Full, f.Sample != "", f.ChangedSince != ""} {
		if one {
			given++
		}
	}
	if given > 1 {
		return diag.BadUsage("--full, --sample and --changed-since exclude each other", "give one of them, or none for --full")
	}
	var err error
	if f.Sample != "" {
		if o.Sample, err = parseSample(f.Sample); err != nil {
			return diag.BadUsage("--sample "+f.Sample+" is not a share of the items", err.Error())
		}
	}
	if f.ChangedSince != "" {
		if o.ChangedSince, err = timespan.Parse(f.ChangedSince); err != nil || o.ChangedSince <= 0 {
			return diag.BadUsage("--changed-since "+f.ChangedSince+" is not a duration", "give a time such as 10m or 2h")
		}
	}
	return o.checkFlags()
}

// checkFlags rejects combinations of flags that make no sense.
func (o *Operator) checkFlags() error {
	switch {
	case o.Reverse && (o.Sample > 0 || o.ChangedSince > 0):
		return diag.BadUsage("--reverse compares all rows and items", "remove --sample and --changed-since")
	case o.Reverse && (o.RemoveForeign || o.DryRun || o.Report != "" || o.ShowValues || !o.Waits):
		return diag.BadUsage("--reverse takes only --table and --repair", "remove the other flags")
	case o.RemoveForeign && !o.Repair:
		return diag.BadUsage("--remove-foreign needs --repair", "add --repair, or remove --remove-foreign")
	case o.DryRun && !o.Repair:
		return diag.BadUsage("--dry-run needs --repair", "add --repair, or remove --dry-run: a verify writes no rows")
	case !o.Waits && (o.Repair || o.Report != ""):
		return diag.BadUsage("--repair and --report need the result", "remove --wait=false")
	}
	return nil
}

var errNoShare = errors.New("give a share like 1%, above 0 and below 100%")

// parseSample reads a share of the items, such as 1%.
func parseSample(text string) (float64, error) {
	var percent float64
	var rest string
	if n, _ := fmt.Sscanf(text, "%f%s", &percent, &rest); n != 2 || rest != "%" || percent <= 0 || percent >= 100 {
		return 0, errNoShare
	}
	return percent / 100, nil
}
