package plan

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/policy"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// PrintPrivileges writes the least privileges that the configuration needs in a cloud (aws or gcp).
// It sends no request to either database. Notes go to stderr, so that stdout has only the document.
func PrintPrivileges(p *terminal.Console, cfg *config.Config, cloud string) error {
	if cloud == "aws" {
		return printAWS(p, cfg)
	}
	worker, planner := policy.GoogleWorker(cfg), policy.GooglePlanner(cfg)
	if p.AsJSON() {
		return p.WriteJSON(worker)
	}
	if err := worker.Write(p.Stdout, cfg.Target.Project, cfg.Target.Instance); err != nil {
		return err
	}
	if more := planner.Lacking(worker.IncludedPermissions); len(more) > 0 {
		_, _ = fmt.Fprintln(p.Stderr, "extra permissions for `replicator plan --apply`:")
		for _, permission := range more {
			_, _ = fmt.Fprintln(p.Stderr, "  "+permission)
		}
	}
	if more := policy.GoogleFinalizer(cfg).Lacking(worker.IncludedPermissions); len(more) > 0 {
		_, _ = fmt.Fprintln(p.Stderr, "extra permissions for `replicator finalize`: "+strings.Join(more, ", "))
	}
	more := policy.GoogleFailover().Lacking(worker.IncludedPermissions)
	_, _ = fmt.Fprintln(p.Stderr, "extra permissions for `replicator failover`: "+strings.Join(more, ", "))
	writeAdditions(p.Stderr, policy.GoogleAdditions(cfg))
	return nil
}

// writeAdditions writes permissions that the document omits. Only the operator knows whether they
// are needed.
func writeAdditions(w io.Writer, additions []policy.Addition) {
	_, _ = fmt.Fprintln(w, "additional permissions, where they apply:")
	for _, a := range additions {
		_, _ = fmt.Fprintf(w, "  %s: %s on %s\n", a.When, strings.Join(a.Actions, ", "), a.On)
	}
}

func printAWS(p *terminal.Console, cfg *config.Config) error {
	if err := writePolicy(p.Stdout, policy.AWS(cfg, region(p.Env, cfg))); err != nil {
		return err
	}
	writeAdditions(p.Stderr, policy.AWSAdditions(cfg, region(p.Env, cfg)))
	if may, trust, ok := policy.Probe(cfg, region(p.Env, cfg)); ok {
		_, _ = fmt.Fprintln(p.Stderr, "permissions of the role "+cfg.Cutover.ProbeRole+" (cutover.probe_role_arn):")
		if err := writePolicy(p.Stderr, may); err != nil {
			return err
		}
		_, _ = fmt.Fprintln(p.Stderr, "its trust policy:")
		if err := writePolicy(p.Stderr, trust); err != nil {
			return err
		}
	}
	for i, step := range policy.Roles(cfg) {
		if err := writeStep(p.Stderr, i, step, cfg); err != nil {
			return err
		}
	}
	return nil
}

// writeStep writes what a role of source.role_arn needs to be assumed.
func writeStep(w io.Writer, i int, step policy.Step, cfg *config.Config) error {
	of := "the identity that assumes it"
	if i > 0 {
		of = "the role " + cfg.Source.Roles[i-1] + ", which assumes it,"
	}
	text := "to assume the role " + step.Role + ": " + of + " needs:"
	if step.Role == cfg.Source.Role() {
		text = "attach this to the role " + step.Role + "; " + of + " needs:"
	}
	_, _ = fmt.Fprintln(w, text)
	if err := writePolicy(w, step.May); err != nil || step.Trust == nil {
		return err
	}
	_, _ = fmt.Fprintln(w, "its trust policy, with the external id:")
	return writePolicy(w, step.Trust)
}

// region returns the source's region, if it is known without a request.
func region(env config.Lookup, cfg *config.Config) string {
	if cfg.Source.Region != "" {
		return cfg.Source.Region
	}
	for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION"} {
		if region, _ := env(name); region != "" {
			return region
		}
	}
	return ""
}

func writePolicy(w io.Writer, document any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(document)
}
