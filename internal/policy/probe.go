package policy

import "github.com/dynamodb-bigtable/replicator/internal/config"

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
		tables = append(tables, tableARN(cfg.Source.RoleARN, region, t.Glob()))
	}
	own := cfg.Source.RoleARN
	if own == "" {
		own = "ARN_OF_THE_ROLE_OF_REPLICATOR"
	}
	assume := TrustStatement{"Allow", map[string]string{"AWS": own}, permissions([]string{"sts"}, Assuming)}
	return document(Statement{"ProbeFreeze", "Allow", permissions([]string{"dynamodb"}, Probing), tables}), Trust{"2012-10-17", []TrustStatement{assume}}, true
}
