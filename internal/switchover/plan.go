package switchover

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/readiness"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// Request holds an operator's options for a new cutover.
type Request struct {
	KeepFallback string // yes or no; it must be given
	Rehearse     bool   // rehearsal: neither freeze nor switch
	Yes          bool   // the request is approved without a question
	Overrides    []string
	Reason       string // reason for the overrides
	WhenReady    bool   // wait for the gates
	Between      string // hours of the day in UTC, such as 02:00-04:00
	Expires      time.Duration
	Timeout      time.Duration // timeout of the command; 0 for none
	Wait         bool
}

// check refuses contradictory options. It is called before any request is sent.
func (r *Request) check() error {
	switch {
	case r.KeepFallback != "yes" && r.KeepFallback != "no":
		return diag.BadUsage("--keep-fallback has no default", "give yes to keep the source's stream and items until you decide, or no; `replicator plan` shows for each table whether a fallback is possible")
	case r.Between != "" && !r.WhenReady:
		return diag.BadUsage("--between needs --when-ready", "add --when-ready, or remove --between")
	case r.Expires < 0:
		return diag.BadUsage("--expires is not positive", "give a duration such as 15m")
	}
	if err := checkReason(r.Overrides, r.Reason); err != nil {
		return err
	}
	for _, gate := range r.Overrides {
		if !slices.Contains(readiness.GateNames, gate) {
			return diag.BadUsage("there is no gate "+gate, "give one of "+strings.Join(readiness.Overridable, ", "))
		}
		if !slices.Contains(readiness.Overridable, gate) {
			return diag.BadUsage("gate "+gate+" cannot be overridden", "a table must be copied and compared as a whole before a cutover; replicator cutover check shows what to do")
		}
	}
	_, _, err := hours(r.Between)
	return err
}

// checkReason refuses overrides without a reason, and a reason without them.
func checkReason(overrides []string, reason string) error {
	switch {
	case len(overrides) > 0 && strings.TrimSpace(reason) == "":
		return diag.BadUsage("--override needs a --reason", "give the reason why the gate may be ignored; the evidence records it")
	case len(overrides) == 0 && reason != "":
		return diag.BadUsage("--reason needs --override", "name the gate with --override, or remove --reason")
	}
	return nil
}

// hours parses a range of times into minutes since midnight. For an empty text, it returns 0 and 0.
func hours(text string) (from, to int, err error) {
	if text == "" {
		return 0, 0, nil
	}
	first, last, ok := strings.Cut(text, "-")
	begin, err1 := time.Parse("15:04", first)
	end, err2 := time.Parse("15:04", last)
	if !ok || err1 != nil || err2 != nil || begin.Equal(end) {
		return 0, 0, diag.BadUsage("--between "+text+" is not a time of day", "write it like 02:00-04:00, in UTC")
	}
	return begin.Hour()*60 + begin.Minute(), end.Hour()*60 + end.Minute(), nil
}

// planOf returns the plan of a cutover of a group of tables. All source tables of a target are in one
// group, because they must be cut over together.
func planOf(cfg *config.Config, g config.Group, r Request, now time.Time) checkpoint.CutoverPlan {
	tables := g.Tables
	p := checkpoint.CutoverPlan{
		Group: g.Name, Patterns: g.Patterns, Hash: hashOf(cfg, tables), Rehearse: r.Rehearse, KeepFallback: r.KeepFallback == "yes", WatchFor: cfg.Cutover.WatchFor,
		WhenReady: r.WhenReady, Approved: r.Yes || r.Rehearse,
	}
	for _, gate := range r.Overrides {
		p.Overrides = append(p.Overrides, checkpoint.CutoverOverride{Gate: gate, Reason: r.Reason})
	}
	p.From, p.To, _ = hours(r.Between) // check has refused other texts
	expires := r.Expires
	if expires == 0 {
		expires = cfg.Cutover.RequestExpires
	}
	p.Expires = now.Add(expires).UTC()
	p.FenceFirst, p.FenceUnlessQuiet = cfg.FenceFirst(tables), cfg.FenceUnlessQuiet()
	p.FreezeAtMost, _ = cfg.FreezeAtMost(tables, false)
	least, _ := cfg.FreezeAtMost(tables, true)
	p.UnlessQuiet = p.FreezeAtMost - least
	p.Tries, p.FreezeWithin, p.FreezeDeadline = cfg.Cutover.Tries, cfg.FreezeWithin(), cfg.Cutover.FreezeDeadline
	p.Deadlines = checkpoint.CutoverDeadlines{Freeze: p.FreezeWithin, Drain: cfg.FreezeDeadline(tables)}
	p.ByPolicy = cfg.Cutover.ByTablePolicy()
	p.ListingBound, p.MomentWithin = cfg.Cutover.ListingBound, cfg.Cutover.RequestExpires
	if r.Timeout > 0 {
		p.MomentUntil = now.Add(r.Timeout).UTC()
	}
	for _, t := range tables {
		p.Tables = append(p.Tables, t.From)
		for _, target := range t.Targets() {
			if !slices.Contains(p.Targets, target.Table) {
				p.Targets = append(p.Targets, target.Table)
			}
		}
	}
	return p
}

// unknown returns an error if the ledger has tables that this configuration does not have. Such
// tables may write to the same targets.
func unknown(ctx context.Context, ledger *checkpoint.Ledger, tables []config.Table) error {
	states, err := ledger.Tables(ctx)
	if err != nil {
		return err
	}
	var left []string
	for _, s := range states {
		if s.Generation > 0 && !slices.ContainsFunc(tables, func(t config.Table) bool { return t.From == s.Source }) {
			left = append(left, s.Source)
		}
	}
	if len(left) == 0 {
		return nil
	}
	return &diag.Error{Code: diag.CutoverRefused, What: fmt.Sprintf("the ledger has %s that this configuration lacks: %s", terminal.Plural(len(left), "table"), strings.Join(left, ", ")),
		Cause: "such a table may share a target with a table that is cut over", Fix: "use the configuration of the workers"}
}
