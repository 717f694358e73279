package config

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

const (
	stepRole   = "arn:aws:iam::111122223333:role/step"
	readerRole = "arn:aws:iam::444455556666:role/reader"
)

// role_arn is one role, or the list of a chain. The printed configuration gives the same again.
func TestRoles(t *testing.T) {
	for _, c := range []struct {
		source string
		roles  []string
		prints string
	}{
		{"", nil, `role_arn: "" # no role is assumed`},
		{"role_arn: '${UNSET:-}'", nil, `role_arn: ""`},
		{"role_arn: " + readerRole, []string{readerRole}, "role_arn: " + readerRole},
		{"role_arn: [" + readerRole + "]", []string{readerRole}, "role_arn: " + readerRole},
		{"role_arn: [" + stepRole + ", " + readerRole + "]", []string{stepRole, readerRole}, "role_arn: ['" + stepRole + "', '"},
	} {
		cfg, err := withTables(t, c.source, "Orders")
		if err != nil {
			t.Errorf("%s: %v", c.source, err)
			continue
		}
		var text bytes.Buffer
		if err := cfg.Print(&text); err != nil {
			t.Fatal(err)
		}
		again, err := Parse("printed", text.Bytes(), testEnv)
		if err != nil || !slices.Equal(cfg.Source.Roles, c.roles) || !slices.Equal(again.Source.Roles, c.roles) || !strings.Contains(text.String(), c.prints) {
			t.Errorf("%s: %v, again %v, %v\n%s", c.source, cfg.Source.Roles, again.Source.Roles, err, text.String()[:400])
		}
		if want := append([]string{""}, c.roles...); cfg.Source.Role() != want[len(want)-1] {
			t.Errorf("%s: %s reads the tables", c.source, cfg.Source.Role())
		}
	}
}

// The external id is for the last role, and needs one.
func TestExternalID(t *testing.T) {
	cfg, err := withTables(t, "external_id: 'acme:1', role_arn: ["+stepRole+", "+readerRole+"]", "Orders")
	if err != nil || cfg.Source.ExternalIDOf(0) != "" || cfg.Source.ExternalIDOf(1) != "acme:1" {
		t.Fatal(err, cfg.Source)
	}
	for source, want := range map[string]string{
		"external_id: acme":                                                       "has no effect without source.role_arn",
		"external_id: a, role_arn: " + readerRole:                                 "an external id has 2 to 1224",
		"external_id: a b, role_arn: " + readerRole:                               "an external id has 2 to 1224",
		"external_id: " + strings.Repeat("x", 1225) + ", role_arn: " + readerRole: "an external id has 2 to 1224",
		"role_arn: [" + stepRole + ", " + stepRole + "]":                          "source.role_arn[1]: the role " + stepRole + " is already in the list",
		"role_arn: [" + stepRole + ", reader]":                                    "not the ARN of an IAM role",
		"role_arn: []":                                                            "source.role_arn: the list is empty: an empty list is ambiguous",
		"external_id: acme, role_arn: []":                                         "source.role_arn: the list is empty",
		"role_arn: ['${UNSET:-}']":                                                "source.role_arn: the list is empty",
		"role_arn: {a: b}":                                                        "must be a list",
	} {
		if _, err := withTables(t, source, "Orders"); err == nil || !strings.Contains(err.Error(), want) || diag.ExitCode(err) != diag.ExitUsage {
			t.Errorf("%s: %v, want %q", source, err, want)
		}
	}
}
