package config

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/environment"
	"github.com/dynamodb-bigtable/replicator/internal/timespan"
)

// checkHook refuses addresses that cannot be called. Commands are checked only by a probe.
func checkHook(s string) *fault {
	const fix = "write an https:// address, or the path of an executable with its arguments"
	if len(s) > longestText {
		return checkMappingText(s)
	}
	if !strings.Contains(s, "://") {
		if strings.TrimSpace(s) == "" {
			return &fault{diag.InvalidValue, "", "it is neither a command nor an address", fix}
		}
		return nil
	}
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Hostname() == "":
		return &fault{diag.InvalidValue, "", "the address cannot be parsed", fix}
	case u.Scheme == "https" || u.Scheme == "http" && environment.IsLoopback(u.Hostname()):
		return nil
	}
	return &fault{diag.InvalidValue, "", "a hook is called by https, or by http on this machine", fix}
}

// ByStep returns the hooks by the names of their keys.
func (h CutoverHooks) ByStep() map[string]string {
	return map[string]string{"freeze_writes": h.FreezeWrites, "switch": h.Switch, "unfreeze_writes": h.UnfreezeWrites}
}

// Given reports whether hooks are configured. Without hooks, no cutover can be started.
func (h CutoverHooks) Given() bool {
	return h.FreezeWrites != "" || h.Switch != "" || h.UnfreezeWrites != ""
}

// hooks returns the hooks of a rollback in the form of a cutover's hooks.
func (h RollbackHooks) hooks() CutoverHooks {
	return CutoverHooks{FreezeWrites: h.FreezeWrites, Switch: h.Switch, UnfreezeWrites: h.UnfreezeWrites}
}

// Given reports whether hooks of a rollback are configured.
func (h RollbackHooks) Given() bool { return h.hooks().Given() }

// ByStep returns the hooks by the names of their keys.
func (h RollbackHooks) ByStep() map[string]string { return h.hooks().ByStep() }

// checkHooks refuses incomplete sets of hooks. A cutover or a rollback with such a set could begin
// but not end.
func (d *decoder) checkHooks(c *Config) {
	d.checkCutoverHooks(c)
	d.checkHookSet(c, "cutover.rollback_hooks", c.Cutover.RollbackHooks.hooks(), "a rollback")
	if c.Cutover.KeepFallback && !c.Cutover.RollbackHooks.hooks().Given() && !d.bad["cutover.rollback_hooks"] {
		d.report(diag.Error{Code: diag.MissingValue, Pos: c.Where("cutover.keep_fallback"), What: "cutover.keep_fallback is true, but cutover.rollback_hooks is missing",
			Cause: "a fallback is of use only if a rollback can freeze the application's writes and move it back to the source", Fix: "add cutover.rollback_hooks with freeze_writes, switch and unfreeze_writes, or remove keep_fallback"})
	}
}

func (d *decoder) checkHookSet(c *Config, section string, hooks CutoverHooks, of string) {
	for _, name := range []string{"freeze_writes", "switch", "unfreeze_writes"} {
		if path := section + "." + name; hooks.Given() && hooks.ByStep()[name] == "" && !d.bad[path] {
			d.report(diag.Error{Code: diag.MissingValue, Pos: c.Where(section), What: path + " is missing",
				Cause: of + " needs all three hooks: it freezes the application's writes, switches the application, and must be able to end the freeze", Fix: "add " + name + ", or remove the others"})
		}
	}
}

// FenceFirst reports whether late writes are rejected before the switch of these tables. With
// dual_writes.version_attribute they are, unless the application is quiet (FenceUnlessQuiet). Its
// own library has no record, so it cannot confirm that it stopped.
func (c *Config) FenceFirst(tables []Table) bool {
	return c.Cutover.Fence == "before_switch" || slices.ContainsFunc(tables, func(t Table) bool { return c.DualWritten(t) && c.Late(t) == 0 })
}

const fencing = 35 * time.Second // how long a freeze lasts until late writes are rejected

// FreezeAtMost returns cutover.freeze_at_most for these tables, raised to what the configuration
// itself demands of a freeze, and what raises it. It demands less if the application is quiet: it
// then promises, when it is frozen, that its own writes to the target have ended.
func (c *Config) FreezeAtMost(tables []Table, quiet bool) (most time.Duration, raisedBy []string) {
	most = c.Cutover.FreezeAtMost
	raise := func(what string, by time.Duration, unlessQuiet bool) {
		if by == 0 || quiet && unlessQuiet {
			return
		}
		most += by
		if what += " by " + timespan.Format(by); unlessQuiet {
			what += " (unless freeze_writes answers quiet)"
		}
		raisedBy = append(raisedBy, what)
	}
	var late time.Duration
	for _, t := range tables {
		late = max(late, c.Late(t))
	}
	raise("dual_writes.settle", late, true)
	if c.FenceFirst(tables) {
		raise("rejecting late writes before the switch", fencing, c.FenceUnlessQuiet())
	}
	return most, raisedBy
}

// FenceUnlessQuiet reports whether late writes need not be rejected before the switch if the
// application is quiet. Then the application's own library has no request in flight either.
func (c *Config) FenceUnlessQuiet() bool { return c.Cutover.Fence != "before_switch" }

// FreezeDeadline returns how long writes of these tables may be frozen in a try.
func (c *Config) FreezeDeadline(tables []Table) time.Duration {
	most, _ := c.FreezeAtMost(tables, false)
	return cmp.Or(c.Cutover.FreezeDeadline, max(30*time.Second, 2*most))
}

// FreezeWithin returns how long the hook freeze_writes may take, and the policies of the tables after
// it. The former key counts if it alone is given.
func (c *Config) FreezeWithin() time.Duration {
	within := c.Cutover.Hooks.FreezeWithin
	if d := c.Cutover.Deadlines.Freeze; d > 0 && c.Where("cutover.hooks.freeze_within") == (diag.Position{}) {
		within = d
	}
	if c.Cutover.ByTablePolicy() {
		within += byPolicy
	}
	return within
}

func warnOfCutover(c *Config) (found diag.List) {
	if most, raisedBy := c.FreezeAtMost(c.Tables, false); c.Cutover.Hooks.Given() && len(raisedBy) > 0 {
		found = append(found, &diag.Error{Code: diag.FreezeLong, Warning: true, Pos: c.Where("cutover.freeze_at_most"),
			What:  fmt.Sprintf("a freeze may last %s, longer than cutover.freeze_at_most (%s)", timespan.Format(most), timespan.Format(c.Cutover.FreezeAtMost)),
			Cause: "the limit is raised by " + strings.Join(raisedBy, ", and by ")})
	}
	if bound := c.Cutover.ListingBound; c.Cutover.Hooks.Given() && bound < time.Minute {
		found = append(found, &diag.Error{Code: diag.DrainHasty, Warning: true, Pos: c.Where("cutover.listing_bound"),
			What:  "a child shard may be listed later than " + timespan.Format(bound) + " after its parent's end",
			Cause: "DynamoDB lists a new shard some time after it begins. A shard that is listed too late is not drained",
			Fix:   "write listing_bound: 2m, or remove it; use less only in tests on emulators"})
	}
	if d := c.Cutover.Deadlines; d != (CutoverDeadlines{}) {
		found = append(found, &diag.Error{Code: diag.DrainHasty, Warning: true, Pos: c.Where("cutover.deadlines"), What: "cutover.deadlines has no effect, but freeze is read as hooks.freeze_within",
			Cause: "a try of a cutover has one deadline", Fix: "write cutover.hooks.freeze_within and cutover.freeze_deadline instead"})
	}
	if c.Cutover.ListingsApart > 0 {
		found = append(found, &diag.Error{Code: diag.DrainHasty, Warning: true, Pos: c.Where("cutover.listings_apart"), What: "cutover.listings_apart has no effect",
			Cause: "a cutover lists no shards while writes are frozen", Fix: "remove it; see cutover.listing_bound"})
	}
	return found
}
