package tablepolicy

import (
	"fmt"
	"slices"
	"strings"
)

// Facts are what decides whether a table can be frozen by its policy.
type Facts struct {
	Table    string   // the table's ARN
	Replicas int      // number of replicas of a global table
	NoAPI    bool     // the endpoint has no operations for resource policies
	Policy   string   // the table's policy; "" if it has none
	Hash     string   // the ledger's hash (HashOf)
	Exempt   []string // ARNs, with this program's role
	Probe    string   // ARN of the probe's role; "" if none is configured
}

// Refusals returns why a table cannot be frozen by its policy. It returns nothing if it can.
func Refusals(f Facts) (reasons []string) {
	add := func(format string, args ...any) { reasons = append(reasons, fmt.Sprintf(format, args...)) }
	if f.NoAPI {
		add("%s: this endpoint has no resource policies: freeze writes by hooks", f.Table)
	}
	if f.Replicas > 0 {
		add("%s has %d replicas, and a policy holds for one replica only: freeze writes by hooks", f.Table, f.Replicas)
	}
	if f.Probe == "" {
		add("%s: no second role is configured, so the freeze cannot be probed: configure one that may write the table", f.Table)
	} else if exempts(f.Exempt, f.Probe) {
		add("%s: the probe's role %s is exempt from the freeze, so its writes prove nothing: configure another role", f.Table, f.Probe)
	}
	s, err := denyWrites(f.Hash, 1<<32-1, f.Table, f.Exempt)
	if err == nil {
		_, err = addTo(f.Policy, s)
	}
	if err != nil {
		add("%s: %v", f.Table, err)
	}
	if f.Probe != "" {
		if _, err := principalPatterns(f.Probe); err != nil {
			add("%s: the probe's role: %v", f.Table, err)
		}
	}
	return reasons
}

// exempts reports whether a list names a principal, as it is or as the role of a session.
func exempts(list []string, principal string) bool {
	return slices.ContainsFunc(list, func(other string) bool { return identity(other) == identity(principal) })
}

// identity returns what identifies a principal: of a role and of its sessions, the account and the
// name.
func identity(arn string) string {
	patterns, err := principalPatterns(arn)
	if err != nil {
		return arn
	}
	account, path, role := strings.Cut(patterns[0], ":role/")
	if !role {
		return arn
	}
	return account + ":role/" + path[strings.LastIndex(path, "/")+1:]
}
