package config

import (
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// byPolicy is the longest time until the policies of tables freeze writes. A changed policy may take
// a minute, and may have to wait for a change before. The proof takes a minute.
const byPolicy = 150 * time.Second

// ByTablePolicy reports whether the resource policies of the source tables freeze writes.
func (c *Cutover) ByTablePolicy() bool { return c.Freeze == "table_policy" }

// MissingHooks returns the hooks that a cutover needs and that are not configured. If hooks freeze
// writes, it needs all three. A hook that freezes writes always needs the one that ends the freeze.
func (c *Cutover) MissingHooks() (names []string) {
	optional := c.ByTablePolicy() && c.Hooks.FreezeWrites == "" && c.Hooks.UnfreezeWrites == ""
	for _, name := range []string{"freeze_writes", "switch", "unfreeze_writes"} {
		if c.Hooks.ByStep()[name] == "" && (name == "switch" || !optional) {
			names = append(names, name)
		}
	}
	return names
}

// checkCutoverHooks refuses an incomplete set of hooks of a cutover.
func (d *decoder) checkCutoverHooks(c *Config) {
	if !c.Cutover.Hooks.Given() {
		return
	}
	cause, fix := "a cutover needs all three hooks: it freezes the application's writes, switches the application, and must be able to end the freeze", "remove the others"
	if c.Cutover.ByTablePolicy() {
		cause, fix = "a cutover needs the hook that switches the application. The other two hooks can be left out only together", "remove the others (freeze_writes and unfreeze_writes are optional with freeze: table_policy)"
	}
	for _, name := range c.Cutover.MissingHooks() {
		if path := "cutover.hooks." + name; !d.bad[path] {
			d.report(diag.Error{Code: diag.MissingValue, Pos: c.Where("cutover.hooks"), What: path + " is missing", Cause: cause, Fix: "add " + name + ", or " + fix})
		}
	}
}

// checkFreeze refuses a freeze by the tables' policies that cannot be proved. A role that may write
// during the freeze proves nothing.
func (d *decoder) checkFreeze(c *Config) {
	const path = "cutover.probe_role_arn"
	probe := c.Cutover.ProbeRole
	switch {
	case !c.Cutover.ByTablePolicy() || d.bad[path]:
	case probe == "":
		d.report(diag.Error{Code: diag.MissingValue, Pos: c.Where("cutover.freeze"), What: path + " is missing",
			Cause: "AWS does not document when a changed policy takes effect, so a second role tries to write until it is denied", Fix: "add probe_role_arn, a role that may write the source tables; replicator plan --print-iam aws prints its permissions"})
	case probe == c.Source.Role():
		d.report(diag.Error{Code: diag.InvalidValue, Pos: c.Where(path), What: path + " is also source.role_arn",
			Cause: "the role of replicator is exempt from the freeze, so its writes prove nothing", Fix: "write another role"})
	case slices.Contains(c.Cutover.Exempt, probe):
		d.report(diag.Error{Code: diag.InvalidValue, Pos: c.Where(path), What: path + " is also in cutover.freeze_exempt",
			Cause: "an exempt role is not denied, so its writes prove nothing", Fix: "write another role, or remove it from freeze_exempt"})
	}
}
