package config

import (
	"fmt"
	"slices"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// Role returns the role that reads the tables: the last one of role_arn. It returns "" if no role
// is assumed.
func (s Source) Role() string {
	if len(s.Roles) == 0 {
		return ""
	}
	return s.Roles[len(s.Roles)-1]
}

// ExternalIDOf returns the external id to send with the request for a role of Roles, by its index.
// An external id protects a role that another organization lets its customer assume, and that is
// the last one: the roles before it are steps on the way to it.
func (s Source) ExternalIDOf(step int) string {
	if step == len(s.Roles)-1 {
		return s.ExternalID
	}
	return ""
}

// checkRoles refuses an external id without a role, and a role that would assume itself.
func (d *decoder) checkRoles(c *Config) {
	const path = "source.role_arn"
	if c.Source.ExternalID != "" && len(c.Source.Roles) == 0 && !d.bad[path] {
		d.report(diag.Error{Code: diag.MissingValue, Pos: c.Where("source.external_id"), What: "source.external_id has no effect without source.role_arn",
			Cause: "an external id is part of the request for a role", Fix: "add role_arn, or remove external_id"})
	}
	for i, role := range c.Source.Roles {
		if slices.Contains(c.Source.Roles[:i], role) {
			d.report(diag.Error{Code: diag.InvalidValue, Pos: c.Where(fmt.Sprintf("%s[%d]", path, i)), What: fmt.Sprintf("%s[%d]: the role %s is already in the list", path, i, role),
				Cause: "each role is assumed with the one before it", Fix: "list each role once, the one that reads the tables last"})
		}
	}
}
