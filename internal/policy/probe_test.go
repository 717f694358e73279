package policy

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dynamodb-bigtable/replicator/internal/config"
)

const byPolicy = `version: 1
target: { project: p, instance: i }
tables: [ { from: Orders } ]
cutover:
  freeze: table_policy
  probe_role_arn: arn:aws:iam::111122223333:role/probe
`

func parsed(t *testing.T, text string) *config.Config {
	t.Helper()
	cfg, err := config.Parse("replicator.yaml", []byte(text), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// With a freeze by policies, our role may change the policies of the source tables, and assume the
// probe's role. That role may write the tables, and trusts our role alone.
func TestRolesOfAFreezeByPolicies(t *testing.T) {
	cfg := parsed(t, byPolicy)
	const orders = "arn:aws:dynamodb:eu-west-1:*:table/Orders"
	want := []Statement{
		{"FreezeTables", "Allow", []string{"dynamodb:DeleteResourcePolicy", "dynamodb:GetResourcePolicy", "dynamodb:PutResourcePolicy"}, []string{orders}},
		{"AssumeProbe", "Allow", []string{"sts:AssumeRole"}, []string{"arn:aws:iam::111122223333:role/probe"}},
	}
	if diff := cmp.Diff(want, AWS(cfg, "eu-west-1").Statement[2:]); diff != "" {
		t.Error(diff)
	}
	may, trust, needed := Probe(cfg, "eu-west-1")
	if diff := cmp.Diff([]Statement{{"ProbeFreeze", "Allow", []string{"dynamodb:PutItem"}, []string{orders}}}, may.Statement); diff != "" || !needed {
		t.Error(needed, diff)
	}
	trusts := func(own string) []TrustStatement {
		return []TrustStatement{{Effect: "Allow", Principal: map[string]string{"AWS": own}, Action: []string{"sts:AssumeRole"}}}
	}
	if diff := cmp.Diff(trusts("ARN_OF_THE_ROLE_OF_REPLICATOR"), trust.Statement); diff != "" {
		t.Error(diff)
	}
	const own = "arn:aws:iam::111122223333:role/own"
	if _, trust, _ = Probe(parsed(t, byPolicy+"source: { role_arn: "+own+" }\n"), ""); cmp.Diff(trusts(own), trust.Statement) != "" {
		t.Errorf("it trusts %+v", trust)
	}
	hooks := parsed(t, strings.Split(byPolicy, "cutover:")[0])
	if _, _, needed := Probe(hooks, ""); needed || len(AWS(hooks, "").Statement) != 2 {
		t.Errorf("permissions of a freeze by hooks: %+v", AWS(hooks, ""))
	}
}
