package config

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// Capacity limits the reads of loads from a table: a share of its provisioned read capacity
// ("25%"), or read units a second ("500"). Empty means no limit.
type Capacity string

// Percent is a share in percent ("70%"). Empty means that no share is given.
type Percent string

var (
	percent  = regexp.MustCompile(`^([0-9]{1,3}(?:\.[0-9]{1,3})?)%$`)
	capacity = regexp.MustCompile(`^[0-9]{1,9}(?:\.[0-9]{1,3})?%?$`)
)

// ParseCapacity parses a Capacity from outside the file, such as a flag's value. The error shows
// the valid forms.
func ParseCapacity(s string) (Capacity, error) {
	if f := checkCapacity(s); f != nil {
		return "", fmt.Errorf("%s: %s", f.cause, f.fix)
	}
	return Capacity(s), nil
}

// ParsePercent parses a Percent from outside the file, such as a flag's value. The error shows the
// valid form.
func ParsePercent(s string) (Percent, error) {
	if f := checkPercent(s); f != nil {
		return "", fmt.Errorf("%s: %s", f.cause, f.fix)
	}
	return Percent(s), nil
}

// Share returns the percentage as a fraction of 1; false if it is empty.
func (p Percent) Share() (float64, bool) {
	m := percent.FindStringSubmatch(string(p))
	if m == nil {
		return 0, false
	}
	n, err := strconv.ParseFloat(m[1], 64)
	return n / 100, err == nil
}

// IsShare reports whether the limit is a share of a table's provisioned capacity.
func (c Capacity) IsShare() bool { return strings.HasSuffix(string(c), "%") }

// UnitsPerSecond returns the limit in read units per second, or false if there is no limit. The
// argument is the table's provisioned capacity; 0 if the table is billed per request. For such a
// table, a share is no limit.
func (c Capacity) UnitsPerSecond(provisioned int64) (float64, bool) {
	if share, ok := Percent(c).Share(); ok {
		return share * float64(provisioned), provisioned > 0
	}
	n, err := strconv.ParseFloat(string(c), 64)
	return n, err == nil && n > 0
}

func checkCapacity(s string) *fault {
	const fix = "write a share like 25%, or read units a second like 500"
	if Capacity(s).IsShare() {
		if checkPercent(s) != nil {
			return &fault{diag.InvalidValue, "", "a share of a table's provisioned read capacity must be above 0% and at most 100%", fix}
		}
		return nil
	}
	if n, ok := Capacity(s).UnitsPerSecond(0); !ok || !capacity.MatchString(s) || n < 1 {
		return &fault{diag.InvalidValue, "", "it is neither a percentage nor a number of read units per second from 1 up", fix}
	}
	return nil
}

func checkPercent(s string) *fault {
	const cause = "a percentage must be above 0% and at most 100%, and end with %"
	if n, ok := Percent(s).Share(); ok && n > 0 && n <= 1 {
		return nil
	}
	fix := "write it like 70%"
	if n, err := strconv.ParseFloat(s, 64); err == nil && n > 0 && n <= 100 {
		if n <= 1 {
			n *= 100
		}
		fix = "write " + strconv.FormatFloat(n, 'f', -1, 64) + "%"
	}
	return &fault{diag.InvalidValue, "", cause, fix}
}

// checkLoads checks that the settings of backfill do not conflict with those of the tables.
func (d *decoder) checkLoads(c *Config) {
	expires := func(t Table) bool { return t.TTL.Attribute != "" }
	if c.Backfill.SkipExpired && len(c.Tables) > 0 && !slices.ContainsFunc(c.Tables, expires) && !d.bad["tables"] {
		d.report(diag.Error{Code: diag.InvalidValue, Pos: d.where["backfill.skip_expired"], What: "backfill.skip_expired is set, but no table has a time-to-live attribute",
			Cause: "tables[].ttl.attribute names the attribute by which items expire", Fix: "add to these tables:\n  ttl: { attribute: expiresAt, expire: follow_deletes }"})
	}
	d.checkExports(c)
	for i := range c.Tables {
		t := &c.Tables[i]
		if !t.Owned {
			continue
		}
		if c.Target.Shared {
			d.report(diag.Error{Code: diag.InvalidValue, Pos: d.where[t.Path()+".owned"], What: t.Path() + ".owned contradicts target.shared",
				Cause: "if another migration writes the table, rows without an origin may belong to it", Fix: "remove owned, or target.shared"})
			continue
		}
		for j := range c.Tables {
			if other := &c.Tables[j]; j != i && !other.Owned && meet(t.targets(), other.targets()) {
				d.report(diag.Error{Code: diag.InvalidValue, Pos: d.where[t.Path()+".owned"],
					What:  fmt.Sprintf("%s.owned: the target is shared with %s, which does not set owned", t.Path(), other.Path()),
					Cause: "all tables that share a target must set owned, or none", Fix: fmt.Sprintf("add owned: true to %s, or remove it here", other.Path())})
				break
			}
		}
	}
}

// meet reports whether two lists have a name in common.
func meet(a, b []string) bool {
	return slices.ContainsFunc(a, func(name string) bool { return name != "" && slices.Contains(b, name) })
}
