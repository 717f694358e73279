package comparison

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/timespan"
)

// Flags are the operator's flags that choose which rows a verify compares, as they were given.
type Flags struct {
	Full                 bool
	Sample, ChangedSince string
	// AtMost is the value of --at-most; "" without the flag.
	AtMost string
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
	if f.AtMost != "" {
		if o.AtMost, err = strconv.Atoi(f.AtMost); err != nil || o.AtMost < 1 {
			return diag.BadUsage("--at-most "+f.AtMost+" is not a number of rows", "give a whole number, from 1")
		}
	}
	if f.Full && (o.byKey() || o.InFlight) {
		return diag.BadUsage("--full contradicts "+o.selection(), "remove one of them")
	}
	return o.checkFlags()
}

// checkFlags rejects combinations of flags that make no sense.
func (o *Operator) checkFlags() error {
	switch {
	case o.Reverse && (o.byKey() || o.InFlight):
		return diag.BadUsage("--reverse compares all rows and items", "remove "+o.selection()+"; replicator explain compares one item")
	case len(o.Keys) > 0 && o.KeysFile != "":
		return diag.BadUsage("--key and --keys exclude each other", "write all keys into the file")
	case o.InFlight && o.byKey():
		return diag.BadUsage("--in-flight contradicts "+o.selection(), "remove one of them")
	case (o.InFlight || o.byKey()) && (o.Sample > 0 || o.ChangedSince > 0):
		return diag.BadUsage("--sample and --changed-since contradict "+o.selection(), "remove one of them")
	case (o.InFlight || o.byKey()) && !o.Waits:
		return diag.BadUsage(o.selection()+" is compared by this command alone", "remove --wait=false")
	case o.InFlight && o.Repair:
		return diag.BadUsage("--in-flight repairs nothing", "compare first, then repair what differs: replicator verify --repair")
	case o.AtMost > 0 && !o.Repair:
		return diag.BadUsage("--at-most needs --repair", "add --repair, or remove --at-most")
	case o.Reverse && (o.Sample > 0 || o.ChangedSince > 0):
		return diag.BadUsage("--reverse compares all rows and items", "remove --sample and --changed-since")
	case o.Reverse && (o.RemoveForeign || o.AtMost > 0 || o.DryRun || o.Report != "" || o.ShowValues || !o.Waits):
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

// selection returns the flag that chooses the rows to compare; "" for whole tables.
func (o *Operator) selection() string {
	switch {
	case len(o.Keys) > 0:
		return "--key"
	case o.KeysFile != "":
		return "--keys"
	case o.InFlight:
		return "--in-flight"
	}
	return ""
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
