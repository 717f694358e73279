package dynamodbtest

import (
	"slices"
	"strings"
)

// access is what the authorization of a call depends on.
type access struct {
	caller   string // the caller's ARN
	action   string // an API name, such as "PutItem"
	resource string // the ARN of a table or index
}

// denied reports whether a policy denies the access. A Deny wins over each Allow. Without a Deny
// the access is allowed, because the identities of this server have all permissions.
func denied(policy []statement, a access) bool {
	return slices.ContainsFunc(policy, func(st statement) bool { return st.deny && st.applies(a) })
}

// applies reports whether all parts of the statement match the access.
func (st *statement) applies(a access) bool {
	action := strings.ToLower(actionPrefix + a.action)
	return (st.everyone || slices.ContainsFunc(st.principals, func(p string) bool { return names(p, a.caller) })) &&
		slices.ContainsFunc(st.actions, func(pattern string) bool { return matchesPattern(pattern, action) }) &&
		slices.ContainsFunc(st.resources, func(pattern string) bool { return matchesResource(pattern, a.resource) }) &&
		!slices.ContainsFunc(st.conditions, func(c condition) bool { return !c.holds(a.caller) })
}

// names reports whether a principal of a policy includes the caller. An account's id and the ARN of
// its root include all callers of the account.
func names(principal, caller string) bool {
	account := accountOf(caller)
	return principal == caller || principal == account ||
		strings.HasSuffix(principal, ":root") && accountOf(principal) == account
}

// accountOf returns the account id in an ARN.
func accountOf(arn string) string {
	parts := strings.SplitN(arn, ":", arnParts)
	if len(parts) < arnParts {
		return ""
	}
	return parts[4]
}

// holds reports whether the condition is true for a caller. Several values are alternatives. With a
// negated operator, none of them may match.
func (c condition) holds(caller string) bool {
	return c.operator.negated != slices.ContainsFunc(c.values, func(value string) bool { return c.operator.matches(value, caller) })
}

func equalText(value, text string) bool { return value == text }

// matchesPattern compares a text with a pattern. In the pattern, * matches any characters and ?
// matches one.
func matchesPattern(pattern, text string) bool {
	// After a mismatch, the last * takes one more character.
	star, resume := -1, 0
	p, t := 0, 0
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, resume = p, t
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == text[t]):
			p++
			t++
		case star >= 0:
			resume++
			p, t = star+1, resume
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// arnParts is the number of an ARN's parts, which colons separate. The last may contain colons.
const arnParts = 6

// matchesARN compares an ARN with a pattern, part by part. So a wildcard matches only inside a
// part.
func matchesARN(pattern, arn string) bool {
	patterns, parts := strings.SplitN(pattern, ":", arnParts), strings.SplitN(arn, ":", arnParts)
	if len(patterns) != arnParts || len(parts) != arnParts {
		return false
	}
	for i, part := range parts {
		if !matchesPattern(patterns[i], part) {
			return false
		}
	}
	return true
}

// matchesResource is matchesARN, but a resource may also be *.
func matchesResource(pattern, arn string) bool { return pattern == "*" || matchesARN(pattern, arn) }

// allowed reports whether a policy allows the access. Only callers of other accounts need that.
func allowed(policy []statement, a access) bool {
	return slices.ContainsFunc(policy, func(st statement) bool { return !st.deny && st.applies(a) })
}

// permission is an action on a table, or on an index if that is not empty. The table is a name or
// an ARN, as in the request.
type permission struct{ action, table, index string }

// guarded is implemented by requests that need other permissions than the action with the name of
// the operation on the request's subject.
type guarded interface{ permissions() []permission }

// unguarded lists operations to which policies of tables do not apply. Their resources are streams
// and exports, or all tables.
var unguarded = []string{"ListStreams", "DescribeStream", "GetShardIterator", "GetRecords", "DescribeExport", "ListExports"}

func permissionsOf(operation string, req request) []permission {
	if g, ok := req.(guarded); ok {
		return g.permissions()
	}
	if slices.Contains(unguarded, operation) {
		return nil
	}
	if of, ok := req.(interface{ address() string }); ok {
		return []permission{{operation, of.address(), ""}}
	}
	return nil
}

func (r *queryRequest) permissions() []permission {
	return []permission{{"Query", r.address(), textOrEmpty(r.IndexName)}}
}

func (r *scanRequest) permissions() []permission {
	return []permission{{"Scan", r.address(), textOrEmpty(r.IndexName)}}
}

func textOrEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func (r *batchWriteRequest) permissions() []permission {
	return onEachTable("BatchWriteItem", r.RequestItems)
}

func (r *batchGetRequest) permissions() []permission {
	return onEachTable("BatchGetItem", r.RequestItems)
}

func onEachTable[V any](action string, items map[string]V) (needed []permission) {
	for _, name := range sortedKeys(items) {
		needed = append(needed, permission{action, name, ""})
	}
	return needed
}

// permissions of a transaction are those of its actions ("Using IAM with DynamoDB transactions").
func (r *transactWriteRequest) permissions() (needed []permission) {
	for i := range r.TransactItems {
		action := &r.TransactItems[i]
		if a := action.Put; a != nil {
			needed = append(needed, permission{"PutItem", a.address(), ""})
		}
		if a := action.Update; a != nil {
			needed = append(needed, permission{"UpdateItem", a.address(), ""})
		}
		if a := action.Delete; a != nil {
			needed = append(needed, permission{"DeleteItem", a.address(), ""})
		}
		if a := action.ConditionCheck; a != nil {
			needed = append(needed, permission{"ConditionCheckItem", a.address(), ""})
		}
	}
	return needed
}

func (r *transactGetRequest) permissions() (needed []permission) {
	for _, action := range r.TransactItems {
		if action.Get != nil {
			needed = append(needed, permission{"GetItem", action.Get.address(), ""})
		}
	}
	return needed
}

// callerOf returns the ARN of the caller, whose access key id is in the Authorization header. A key
// without a role belongs to the account's root.
func (s *Server) callerOf(authorization string) string {
	_, credential, _ := strings.Cut(authorization, "Credential=")
	key, _, _ := strings.Cut(credential, "/")
	s.mu.RLock()
	defer s.mu.RUnlock()
	if role := s.roles[key]; role != "" {
		return role
	}
	return s.root
}

// foreign reports whether the caller belongs to another account than this server's.
func (s *Server) foreign(caller string) bool { return accountOf(caller) != s.opts.AccountID }

// authorize rejects a call that the policy of one of its tables denies. A caller of another account
// must name the table by its ARN, because a name means a table of the caller's account. The
// table's policy must allow the call.
func (s *Server) authorize(caller, operation string, req request) error {
	foreign := s.foreign(caller)
	if !s.policies.Load() && !foreign {
		return nil
	}
	if operation == "DeleteResourcePolicy" && caller == s.root {
		// The service always allows this, so that a policy cannot lock out its account.
		return nil
	}
	now := s.Now()
	for _, p := range permissionsOf(operation, req) {
		ref := refTo(p.table)
		if foreign && p.table != "" && ref.name() == p.table {
			return resourceNotFound("Requested resource not found: Table: %s not found", p.table)
		}
		s.mu.RLock()
		t := s.tables[ref.name()]
		s.mu.RUnlock()
		if t == nil {
			continue
		}
		a := access{caller, p.action, t.arn()}
		if p.index != "" {
			a.resource += "/index/" + p.index
		}
		policy := t.policyInForce(now).statements
		if foreign && !allowed(policy, a) {
			return newError("AccessDeniedException", "User: "+caller+" is not authorized to perform: "+actionPrefix+p.action+
				" on resource: "+a.resource+" because no resource-based policy allows the "+actionPrefix+p.action+" action")
		}
		if denied(policy, a) {
			return newError("AccessDeniedException", "User: "+caller+" is not authorized to perform: "+actionPrefix+p.action+
				" on resource: "+a.resource+" with an explicit deny in a resource-based policy")
		}
	}
	return nil
}
