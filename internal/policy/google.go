package policy

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/dynamodb-bigtable/replicator/internal/config"
)

// Role is a custom role of Google Cloud, in the form that `gcloud iam roles create --file` takes.
// Source: https://cloud.google.com/iam/docs/creating-custom-roles
type Role struct {
	ID                  string   `json:"-"` // roles are named when they are created
	Title               string   `json:"title"`
	Description         string   `json:"description"`
	Stage               string   `json:"stage"`
	IncludedPermissions []string `json:"includedPermissions"`
	// Besides are Google's own roles that are granted in the project, where the instance's role cannot give what is needed.
	Besides []Predefined `json:"-"`
}

// GoogleAdditions are what the identity of `run` needs besides for flags of commands, and Pub/Sub
// itself for a dead letter of which the configuration does not tell.
func GoogleAdditions(cfg *config.Config) []Addition {
	var additions []Addition
	if cfg.Backfill.PauseAboveTargetCPU == "" {
		additions = append(additions, Addition{"`throttle --pause-above-target-cpu 70%`", permissions([]string{"monitoring"}, Watching), "the project (roles/monitoring.viewer)"})
	}
	additions = append(additions, Addition{"`backfill start --export gs://BUCKET/FOLDER`", permissions([]string{"storage"}, Importing), "the bucket (roles/storage.objectViewer)"})
	if cfg.Relay.Subscription != "" && cfg.Relay.DeadLetter == "" {
		const when = "a dead-letter topic of relay.subscription, for " + forwardingMember
		additions = append(additions,
			Addition{when, []string{"pubsub.topics.publish"}, "the dead-letter topic (roles/pubsub.publisher)"},
			Addition{when, []string{"pubsub.subscriptions.consume"}, "the subscription (roles/pubsub.subscriber)"})
	}
	return additions
}

// GoogleWorker is what the identity of `run` needs.
func GoogleWorker(cfg *config.Config) Role {
	return Role{"replicator", "replicator", "Copies DynamoDB tables to Bigtable: reads and writes rows, its own state and its own column families.", "GA",
		permissions([]string{"bigtable"}, runUses(cfg)...), besides(cfg)}
}

// GooglePlanner is what whoever runs `plan --apply` needs: what a worker needs, what only plan looks at, and the creation of all
// that may be missing.
func GooglePlanner(cfg *config.Config) Role {
	uses := []Use{Always, Creating, Planning, Applying}
	if cfg.Target.View != "" {
		uses = append(uses, Viewing, MakeView)
	}
	return Role{"replicatorPlan", "replicator plan", "Prepares a copy of DynamoDB tables to Bigtable: creates what is missing.", "GA",
		permissions([]string{"bigtable"}, uses...), looking(cfg)}
}

// GoogleFinalizer is what whoever runs `finalize` needs: what a worker needs, and the removal of the
// view.
func GoogleFinalizer(cfg *config.Config) Role {
	uses := []Use{Always}
	if cfg.Target.View != "" {
		uses = append(uses, Viewing, Finalizing)
	}
	return Role{"replicatorFinalize", "replicator finalize", "Removes replicator's metadata from Bigtable tables after a cutover.", "GA", permissions([]string{"bigtable"}, uses...), nil}
}

// GoogleFailover is what whoever runs `failover` needs: what a worker needs, and to see what clusters
// there are and how far they have copied.
func GoogleFailover() Role {
	return Role{"replicatorFailover", "replicator failover", "Continues a copy of DynamoDB tables to Bigtable in another cluster.", "GA",
		append(permissions([]string{"bigtable"}, Always, FailingOver), "bigtable.clusters.list"), nil}
}

// Write writes the role as YAML, with the commands that create and grant it.
func (r Role) Write(w io.Writer, project, instance string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# gcloud iam roles create %s --project=%s --file=FILE\n", r.ID, project)
	fmt.Fprintf(&b, "# gcloud bigtable instances add-iam-policy-binding %s --project=%s --member=%s --role=projects/%s/roles/%s\n",
		instance, project, processMember, project, r.ID)
	for _, p := range r.Besides {
		fmt.Fprintf(&b, "# %s  # %s needs %s\n", p.granted(project), p.For, strings.Join(p.Permissions, ", "))
	}
	fmt.Fprintf(&b, "title: %s\ndescription: \"%s\"\nstage: %s\nincludedPermissions:\n", r.Title, r.Description, r.Stage)
	for _, p := range r.IncludedPermissions {
		fmt.Fprintf(&b, "- %s\n", p)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Lacking returns the permissions of the role that are not among those that an identity has.
func (r Role) Lacking(has []string) []string {
	var out []string
	for _, p := range r.IncludedPermissions {
		if !slices.Contains(has, p) {
			out = append(out, p)
		}
	}
	return out
}
