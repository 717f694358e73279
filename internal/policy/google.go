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

// Predefined is a role of Google's, what of it is needed, and for which key of the configuration.
type Predefined struct {
	Name        string
	Permissions []string
	For         string
	Bucket      string // that the role is granted on; "" for the project
}

// granted is the command that grants the role.
func (p Predefined) granted(project string) string {
	if p.Bucket != "" {
		return "gcloud storage buckets add-iam-policy-binding gs://" + p.Bucket
	}
	return "gcloud projects add-iam-policy-binding " + project
}

// looking are the roles besides the instance's of whoever looks at what the configuration names, as
// `plan` and a worker do: time series, topics and buckets belong to no instance.
func looking(cfg *config.Config) []Predefined {
	var out []Predefined
	add := func(name, key, bucket string, permissions ...string) {
		out = append(out, Predefined{name, permissions, key, bucket})
	}
	if cfg.Backfill.PauseAboveTargetCPU != "" {
		add("roles/monitoring.viewer", "backfill.pause_above_target_cpu", "", permissions([]string{"monitoring"}, Watching)...)
	}
	if cfg.Relay.Topic != "" {
		add("roles/pubsub.viewer", "relay.pubsub_topic", "", "pubsub.subscriptions.get", "pubsub.topics.get")
	}
	if cfg.Errors.Topic() != "" {
		add("roles/pubsub.viewer", "errors.park_to", "", "pubsub.topics.get")
	}
	var buckets []string
	for _, address := range exportsOf(cfg) {
		if folder, ok := strings.CutPrefix(address, "gs://"); ok {
			bucket, _, _ := strings.Cut(folder, "/")
			buckets = append(buckets, bucket)
		}
	}
	slices.Sort(buckets)
	for _, bucket := range slices.Compact(buckets) {
		add("roles/storage.objectViewer", "backfill.from", bucket, permissions([]string{"storage"}, Importing)...)
	}
	return out
}

// besides are the roles of a worker besides the instance's.
func besides(cfg *config.Config) []Predefined {
	out := looking(cfg)
	add := func(name, key, permission string) {
		out = append(out, Predefined{Name: name, Permissions: []string{permission}, For: key})
	}
	if cfg.Relay.Topic != "" {
		add("roles/pubsub.publisher", "relay.pubsub_topic", "pubsub.topics.publish")
	}
	if cfg.Errors.Topic() != "" {
		add("roles/pubsub.publisher", "errors.park_to", "pubsub.topics.publish")
	}
	if cfg.Relay.Subscription != "" {
		add("roles/pubsub.subscriber", "relay.subscription", "pubsub.subscriptions.consume")
	}
	if cfg.Relay.DeadLetter != "" {
		add("roles/pubsub.subscriber", "relay.dead_letter", "pubsub.subscriptions.consume")
	}
	return out
}

// GoogleAdditions are what the identity of `run` needs besides for flags of commands.
func GoogleAdditions(cfg *config.Config) []Addition {
	var additions []Addition
	if cfg.Backfill.PauseAboveTargetCPU == "" {
		additions = append(additions, Addition{"`throttle --pause-above-target-cpu`", permissions([]string{"monitoring"}, Watching), "the project (roles/monitoring.viewer)"})
	}
	return append(additions, Addition{"`backfill start --export gs://BUCKET/FOLDER`", permissions([]string{"storage"}, Importing), "the bucket (roles/storage.objectViewer)"})
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
	return Role{"replicatorFinalize", "replicator finalize", "Removes what is replicator's own from tables of Bigtable that are cut over.", "GA", permissions([]string{"bigtable"}, uses...), nil}
}

// GoogleFailover is what whoever runs `failover` needs: what a worker needs, and to see what clusters
// there are and how far they have copied.
func GoogleFailover() Role {
	return Role{"replicatorFailover", "replicator failover", "Lets a copy of DynamoDB tables to Bigtable go on in another cluster.", "GA",
		append(permissions([]string{"bigtable"}, Always, FailingOver), "bigtable.clusters.list"), nil}
}

// Write writes the role as YAML, with the commands that create and grant it.
func (r Role) Write(w io.Writer, project, instance string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# gcloud iam roles create %s --project=%s --file=FILE\n", r.ID, project)
	fmt.Fprintf(&b, "# gcloud bigtable instances add-iam-policy-binding %s --project=%s --member=serviceAccount:EMAIL --role=projects/%s/roles/%s\n",
		instance, project, project, r.ID)
	for _, p := range r.Besides {
		fmt.Fprintf(&b, "# %s --member=serviceAccount:EMAIL --role=%s  # %s needs %s\n",
			p.granted(project), p.Name, p.For, strings.Join(p.Permissions, ", "))
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
