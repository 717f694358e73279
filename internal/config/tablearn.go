package config

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/dynamodb-bigtable/replicator/internal/awshost"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/pattern"
)

// tableARN is the form of a table's ARN: partition, region, account and name
// (docs.aws.amazon.com/service-authorization/latest/reference/list_amazondynamodb.html).
var tableARN = regexp.MustCompile(`^arn:(aws[a-z-]*):dynamodb:([a-z0-9-]+):[0-9]{12}:table/([a-zA-Z0-9_.-]{3,255})$`)

const exampleARN = "arn:aws:dynamodb:eu-west-1:111122223333:table/Orders"

// checkTableARN checks the ARN of a source table.
func checkTableARN(s string) *fault {
	switch {
	case pattern.Is(s):
		return &fault{diag.InvalidValue, "", "an ARN names one table, and DynamoDB does not list the tables of another account",
			"write an entry for each table, or assume a role of that account (source.role_arn) and write the pattern without an ARN"}
	case !tableARN.MatchString(s):
		return &fault{diag.InvalidValue, "", "this is not the ARN of a DynamoDB table", "write it like " + exampleARN + ", without an index or a stream"}
	}
	parts := tableARN.FindStringSubmatch(s)
	if partition, known := awshost.KnownPartition(parts[2]); known && partition != parts[1] {
		return &fault{diag.InvalidValue, "", fmt.Sprintf("region %s is in partition %s, not in %s", parts[2], partition, parts[1]),
			"write " + strings.Replace(s, parts[1], partition, 1) + ", or correct the region"}
	}
	return nil
}

// nameOf returns the name of a table that is written as a name or as an ARN.
func nameOf(from string) string {
	if parts := tableARN.FindStringSubmatch(from); parts != nil {
		return parts[3]
	}
	return from
}

// regionOf returns the region of a table's ARN.
func regionOf(arn string) string { return tableARN.FindStringSubmatch(arn)[2] }

// ARN returns the ARN that names the source table; "" if the entry has a name or a pattern. The
// ledger, commands and metrics identify the table by its name, From. Requests to DynamoDB must have
// the ARN: a name means the table of that name in the account of the caller.
func (t *Table) ARN() string { return t.arn }

// Address returns how commands of AWS name the source table: by its ARN if the entry has one.
func (t *Table) Address() string { return cmp.Or(t.arn, t.From) }

// ARNs returns the ARNs of the source tables that are configured by ARN, by the names of the
// tables.
func (c *Config) ARNs() map[string]string {
	arns := map[string]string{}
	for _, t := range c.Tables {
		if t.arn != "" {
			arns[t.From] = t.arn
		}
	}
	return arns
}

// IsRegion reports whether a text has the form of an AWS region.
func IsRegion(s string) bool { return awsRegion.MatchString(s) }

// InRegion returns the configuration with another region of the source, also in the ARNs of tables.
func (c *Config) InRegion(region string) *Config {
	moved := *c
	moved.Source.Region = region
	moved.Tables = slices.Clone(c.Tables)
	for i := range moved.Tables {
		if t := &moved.Tables[i]; t.arn != "" {
			t.arn = strings.Replace(t.arn, ":"+regionOf(t.arn)+":", ":"+region+":", 1)
		}
	}
	return &moved
}

// CheckARNs refuses tables in another region than the source's, given the region that the
// environment or source.region names. All tables of a configuration are in one region.
func (c *Config) CheckARNs(region string) error {
	var found diag.List
	for i := range c.Tables {
		if t := &c.Tables[i]; t.arn != "" && regionOf(t.arn) != region {
			found = append(found, otherRegion(t, region))
		}
	}
	return found.Err()
}

func otherRegion(t *Table, region string) *diag.Error {
	return &diag.Error{Code: diag.InvalidValue, Pos: t.where[t.Path()+".from"], What: fmt.Sprintf("%s.from: table %s is in region %s, but the source's region is %s", t.Path(), t.From, regionOf(t.arn), region),
		Cause: "the tables of a configuration are in one region",
		Fix:   "set source.region to " + regionOf(t.arn) + ", or write a configuration for each region"}
}

// splitARN replaces an ARN in From by the table's name, and keeps the ARN for requests.
func (t *Table) splitARN() {
	if name := nameOf(t.From); name != t.From {
		t.arn, t.From = t.From, name
	}
}

// checkARNs checks the tables with ARNs together: their region, and their names.
func (d *decoder) checkARNs(c *Config) {
	region := c.Source.Region
	for i := range c.Tables {
		t := &c.Tables[i]
		if t.arn == "" {
			continue
		}
		if region = cmp.Or(region, regionOf(t.arn)); region != regionOf(t.arn) {
			d.found = append(d.found, otherRegion(t, region))
		}
		for j := range c.Tables {
			if p := &c.Tables[j]; p.IsPattern() {
				if _, matches := p.table(t.From); matches {
					d.report(diag.Error{Code: diag.DuplicateTable, Pos: d.where[t.Path()+".from"], What: fmt.Sprintf("%s.from: the pattern %s matches this table's name", t.Path(), p.text),
						Cause: "a table of the same name in the identity's own account would not be replicated",
						Fix:   "write the name instead of the ARN if both are the same table; else change the pattern, or write a second configuration with another name"})
				}
			}
		}
	}
}

// duplicate reports two entries with the same source table or pattern.
func (d *decoder) duplicate(t, first *Table) {
	what := "table " + t.From + " is"
	if t.IsPattern() {
		what = "the tables of " + t.From + " are"
	}
	e := diag.Error{Code: diag.DuplicateTable, Pos: d.where[t.Path()+".from"],
		What:  fmt.Sprintf("%s.from: %s already listed", t.Path(), what),
		Cause: fmt.Sprintf("first listed at %s", d.where[first.Path()+".from"])}
	if t.arn != first.arn {
		e.Cause += ". A migration identifies a table by its name, also in another account"
		e.Fix = "remove one entry; for a table of another account, write a second configuration with another name"
	}
	d.report(e)
}

// asWritten returns the configuration with ARNs in place of the names of tables.
func (c *Config) asWritten() *Config {
	written := *c
	written.Tables = make([]Table, len(c.Tables))
	for i, t := range c.Tables {
		t.From = t.Address()
		written.Tables[i] = t
	}
	return &written
}

// isARN reports whether a text begins like an ARN.
func isARN(s string) bool { return strings.HasPrefix(s, "arn:") }
