package policy

import (
	"cmp"

	"github.com/dynamodb-bigtable/replicator/internal/config"
)

// Trust is the policy of a role that names who may assume it. It is in the form that `aws iam
// create-role` accepts.
type Trust struct {
	Version   string
	Statement []TrustStatement
}

// TrustStatement allows principals to assume a role.
type TrustStatement struct {
	Effect    string
	Principal map[string]string
	Action    []string
	Condition map[string]map[string]string `json:",omitempty"`
}

// Probe returns the policy of cutover.probe_role_arn, and the policy by which that role trusts the
// identity of replicator. It returns false if tables are not frozen by their policies. The role may
// write the tables, because only a write that was let through before proves something when it is
// denied. Its writes have a condition that never holds.
func Probe(cfg *config.Config, region string) (may Policy, trust Trust, needed bool) {
	if !cfg.Cutover.ByTablePolicy() {
		return Policy{}, Trust{}, false
	}
	var tables []string
	for _, t := range cfg.Tables {
		tables = append(tables, arnOf(cfg, region, &t))
	}
	own := cmp.Or(cfg.Source.Role(), unknownRole)
	return document(Statement{"ProbeFreeze", "Allow", permissions([]string{"dynamodb"}, Probing), tables}), trusting(own), true
}

// unknownRole stands for the identity of the process, which the configuration does not name.
const unknownRole = "ARN_OF_THE_ROLE_OF_REPLICATOR"

// trusting returns a trust policy that lets a role assume another one.
func trusting(role string) Trust {
	return Trust{"2012-10-17", []TrustStatement{{Effect: "Allow", Principal: map[string]string{"AWS": role}, Action: permissions([]string{"sts"}, Assuming)}}}
}
