package config

import (
	"bytes"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// withTables returns a configuration of the given tables, and of keys that replace the source's.
func withTables(t *testing.T, source string, from ...string) (*Config, error) {
	t.Helper()
	text := "version: 1\nsource: {" + source + "}\ntarget: {project: my-project, instance: my-instance}\ntables:\n"
	for _, f := range from {
		text += "  - from: " + f + "\n"
		if strings.ContainsAny(f, "{*") {
			text += "    to: all\n    rules: [{row_key: '{$day}#{pk}'}]\n"
		}
	}
	return Parse("replicator.yaml", []byte(text), testEnv)
}

// A table that is configured by ARN has the identity of the same table by name: the ledger, the
// hash and the target are the same. Only requests and the printed configuration have the ARN.
func TestTableByARN(t *testing.T) {
	byARN, err := withTables(t, "", exampleARN, "Customers")
	if err != nil {
		t.Fatal(err)
	}
	byName, err := withTables(t, "", "Orders", "Customers")
	if err != nil {
		t.Fatal(err)
	}
	orders, found := byARN.Table("Orders")
	if !found || orders.From != "Orders" || orders.To != "Orders" || orders.ARN() != exampleARN || orders.Address() != exampleARN {
		t.Errorf("%t, %q to %q by %q", found, orders.From, orders.To, orders.ARN())
	}
	if byARN.Hash(byARN.Tables[0]) != byName.Hash(byName.Tables[0]) {
		t.Error("the ARN changes the hash, so a migration could not be resumed")
	}
	if arns := byARN.ARNs(); len(arns) != 1 || arns["Orders"] != exampleARN {
		t.Errorf("%v", arns)
	}
	if customers := byARN.Tables[1]; customers.ARN() != "" || customers.Address() != "Customers" {
		t.Errorf("%q, %q", customers.ARN(), customers.Address())
	}
	var text bytes.Buffer
	if err := byARN.Print(&text); err != nil {
		t.Fatal(err)
	}
	again, err := Parse("printed", text.Bytes(), testEnv)
	if err != nil || again.Tables[0].ARN() != exampleARN || byARN.Tables[0].From != "Orders" {
		t.Errorf("%v\n%s", err, text.String())
	}
}

func TestTableARNsThatAreRefused(t *testing.T) {
	const other = "arn:aws:dynamodb:eu-west-1:444455556666:table/Orders"
	for _, c := range []struct {
		name, source string
		from         []string
		code, what   string
	}{
		{"the region", "region: eu-west-1", []string{exampleARN}, "", ""},
		{"two tables", "", []string{exampleARN, "arn:aws:dynamodb:eu-west-1:444455556666:table/Customers"}, "", ""},
		{"a pattern of other names", "", []string{exampleARN, "Logs_{day}"}, "", ""},
		{"another region", "region: us-east-1", []string{exampleARN}, diag.InvalidValue, "is in region eu-west-1, but the source's region is us-east-1"},
		{"two regions", "", []string{exampleARN, "arn:aws:dynamodb:us-east-1:111122223333:table/Customers"}, diag.InvalidValue, "tables[1].from: table Customers is in region us-east-1"},
		{"one name in two accounts", "", []string{exampleARN, other}, diag.DuplicateTable, "A migration identifies a table by its name"},
		{"by name and by ARN", "", []string{"Orders", exampleARN}, diag.DuplicateTable, "A migration identifies a table by its name"},
		{"twice", "", []string{exampleARN, exampleARN}, diag.DuplicateTable, "already listed"},
		{"a pattern of its name", "", []string{"Ord{day}", exampleARN}, diag.DuplicateTable, "the pattern Ord{day} matches this table's name"},
		{"a pattern in it", "", []string{"arn:aws:dynamodb:eu-west-1:111122223333:table/Orders_{day:4}"}, diag.InvalidValue, "does not list the tables of another account"},
		{"a stream", "", []string{exampleARN + "/stream/2026-11-01T00:00:00.000"}, diag.InvalidValue, "not the ARN of a DynamoDB table"},
		{"another service", "", []string{"arn:aws:s3:::orders"}, diag.InvalidValue, "not the ARN of a DynamoDB table"},
		{"another partition", "", []string{"arn:aws-cn:dynamodb:us-east-1:111122223333:table/Orders"}, diag.InvalidValue,
			"region us-east-1 is in partition aws, not in aws-cn"},
		{"a region of China", "", []string{"arn:aws:dynamodb:cn-north-1:111122223333:table/Orders"}, diag.InvalidValue, "region cn-north-1 is in partition aws-cn, not in aws"},
		{"China", "", []string{"arn:aws-cn:dynamodb:cn-north-1:111122223333:table/Orders"}, "", ""},
		{"a new region of a new partition", "", []string{"arn:aws-new:dynamodb:xx-north-1:111122223333:table/Orders"}, "", ""},
		{"no account", "", []string{"arn:aws:dynamodb:eu-west-1::table/Orders"}, diag.InvalidValue, "not the ARN of a DynamoDB table"},
	} {
		_, err := withTables(t, c.source, c.from...)
		if c.code == "" && err != nil || c.code != "" && (!diag.Has(err, c.code) || !strings.Contains(err.Error(), c.what)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.what)
		}
	}
}

// The environment may name the region.
func TestARNsInTheRegionOfTheEnvironment(t *testing.T) {
	c, err := withTables(t, "", exampleARN, "Customers")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.CheckARNs("eu-west-1"); err != nil {
		t.Error(err)
	}
	if err := c.CheckARNs("eu-west-2"); !diag.Has(err, diag.InvalidValue) || !strings.Contains(err.Error(), "replicator.yaml:5:11") {
		t.Errorf("%v", err)
	}
}

// In another region, the configuration has the tables of the same names and accounts.
func TestTheConfigurationInAnotherRegion(t *testing.T) {
	c, err := withTables(t, "", exampleARN, "Customers")
	if err != nil {
		t.Fatal(err)
	}
	there := c.InRegion("us-east-1")
	if there.Source.Region != "us-east-1" || there.CheckARNs("us-east-1") != nil || there.Tables[0].From != "Orders" ||
		there.Tables[0].Address() != strings.Replace(exampleARN, "eu-west-1", "us-east-1", 1) || there.Tables[1].Address() != "Customers" {
		t.Errorf("%+v", there.Tables)
	}
	if c.Tables[0].Address() != exampleARN || c.Source.Region == "us-east-1" {
		t.Errorf("the configuration has changed: %+v", c.Tables)
	}
}

// A group of a cutover may name a table in either way.
func TestGroupNamesTablesByARN(t *testing.T) {
	for _, name := range []string{"Orders", exampleARN} {
		text := "version: 1\ntarget: {project: my-project, instance: my-instance}\ncutover: {groups: {billing: [" + name + "]}}\ntables:\n  - from: " + exampleARN + "\n  - from: Customers\n"
		c, err := Parse("replicator.yaml", []byte(text), testEnv)
		if err != nil {
			t.Fatal(err)
		}
		if groups := c.Groups(c.Tables); len(groups) != 2 || groups[0].Name != "billing" || groups[0].Tables[0].From != "Orders" {
			t.Errorf("%+v", groups)
		}
	}
}
