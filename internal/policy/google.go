package policy

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/dynamodb-bigtable/replicator/internal/config"
)

// Role is a custom role of Google Cloud, in the form that `gcloud iam roles create --file` accepts.
// Source: https://cloud.google.com/iam/docs/creating-custom-roles
type Role struct {
	// ID is the id with which the role is created. It is not part of the file.
	ID                  string   `json:"-"`
	Title               string   `json:"title"`
	Description         string   `json:"description"`
	Stage               string   `json:"stage"`
	IncludedPermissions []string `json:"includedPermissions"`
	// Besides are predefined roles that must be granted in the project, because their permissions
	// cannot be part of the role on the instance.
	Besides []Predefined `json:"-"`
}

// GoogleAdditions returns permissions that the identity of `run` needs for certain flags. It also
// returns permissions that Pub/Sub itself needs for a dead-letter topic, if the topic is not in the
// configuration.
func GoogleAdditions(cfg *config.Config) []Addition {
	var additions []Addition
	if cfg.Backfill.PauseAboveTargetCPU == "" {
		additions = append(additions, Addition{"`throttle --pause-above-target-cpu 70%`", permissions([]string{"monitoring"}, Watching), "the project (roles/monitoring.viewer)"})
	}
	additions = append(additions, Addition{"`backfill start --export gs://BUCKET/FOLDER`", permissions([]string{"storage"}, Importing), "the bucket (roles/storage.objectViewer)"})
	if cfg.Relay.Subscription != "" && cfg.Relay.DeadLetter == "" {
		const when = "a dead-letter topic of relay.subscription, for " + forwardingMember
		additions = append(additions,
			Addition{"a dead-letter topic of relay.subscription, for `run --from pubsub`", []string{"pubsub.topics.publish"}, "the dead-letter topic (roles/pubsub.publisher)"},
			Addition{when, []string{"pubsub.topics.publish"}, "the dead-letter topic (roles/pubsub.publisher)"},
			Addition{when, []string{"pubsub.subscriptions.consume"}, "the subscription (roles/pubsub.subscriber)"})
	}
	return additions
}

// GoogleWorker returns the role of the identity of `run`.
func GoogleWorker(cfg *config.Config) Role {
	return Role{"replicator", "replicator", "Copies DynamoDB tables to Bigtable: reads and writes rows, its own state and its own column families.", "GA",
		permissions([]string{"bigtable"}, runUses(cfg)...), besides(cfg)}
}

// GooglePlanner returns the role for `plan --apply`. It has the permissions of a worker, the
// permissions that only plan needs for reading, and the permissions to create all resources that
// may be missing.
func GooglePlanner(cfg *config.Config) Role {
	uses := []Use{Always, Creating, Planning, Applying}
	if cfg.Target.View != "" {
		uses = append(uses, Viewing, MakeView)
	}
	return Role{"replicatorPlan", "replicator plan", "Prepares a copy of DynamoDB tables to Bigtable: creates what is missing.", "GA",
		permissions([]string{"bigtable"}, uses...), looking(cfg)}
}

// GoogleFinalizer returns the role for `finalize`: the permissions of a worker, and the permission
// to remove the view.
func GoogleFinalizer(cfg *config.Config) Role {
	uses := []Use{Always}
	if cfg.Target.View != "" {
		uses = append(uses, Viewing, Finalizing)
	}
	return Role{"replicatorFinalize", "replicator finalize", "Removes replicator's metadata from Bigtable tables after a cutover.", "GA", permissions([]string{"bigtable"}, uses...), nil}
}

// GoogleFailover returns the role for `failover`: the permissions of a worker, and the permissions
// to read the clusters and the progress of their replication.
func GoogleFailover() Role {
	return Role{"replicatorFailover", "replicator failover", "Continues a copy of DynamoDB tables to Bigtable in another cluster.", "GA",
		append(permissions([]string{"bigtable"}, Always, FailingOver), "bigtable.clusters.list"), nil}
}

// Write writes the role as YAML, with the commands that create the role and grant it.
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

// Lacking returns the permissions of the role that the identity with the permissions in `has` does
// not have.
func (r Role) Lacking(has []string) []string {
	var out []string
	for _, p := range r.IncludedPermissions {
		if !slices.Contains(has, p) {
			out = append(out, p)
		}
	}
	return out
}
