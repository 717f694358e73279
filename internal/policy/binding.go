package policy

import (
	"slices"
	"strings"

	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/source"
)

// Predefined is a predefined role of Google Cloud. It holds the permissions of the role that are
// needed, and the configuration keys that need the role.
type Predefined struct {
	Name        string
	Permissions []string
	For         string
	Member      string // the member that gets the role; "" for the identity of the process
	On          Resource
}

// Resource is the resource on which a role is granted. If its kind is "", the resource is the
// project.
type Resource struct {
	Kind ResourceKind
	Name string // for topics and subscriptions the full name, projects/PROJECT/topics/TOPIC
}

// ResourceKind is gcloud's name for a kind of resources.
type ResourceKind string

// The kinds of resources on which roles are granted.
const (
	bucketKind       ResourceKind = "storage buckets"
	topicKind        ResourceKind = "pubsub topics"
	subscriptionKind ResourceKind = "pubsub subscriptions"
)

// processMember is the identity of the process. If one process publishes and another process
// applies, their identities are relayMember and applierMember. A publisher of the topic is as
// trusted as a writer of the target, so appliers do not get the role of a publisher.
// forwardingMember is the service agent of the subscription's project. With this identity, Pub/Sub
// moves messages from a subscription to its dead-letter topic. It must be allowed to publish to
// that topic, and to acknowledge messages of the subscription. Source:
// https://cloud.google.com/pubsub/docs/handling-failures#grant_forwarding_permissions
const (
	processMember    = "serviceAccount:EMAIL"
	relayMember      = "serviceAccount:RELAY_EMAIL"
	applierMember    = "serviceAccount:APPLIER_EMAIL"
	forwardingMember = "serviceAccount:service-PROJECT_NUMBER@gcp-sa-pubsub.iam.gserviceaccount.com"
	deadLetterTopic  = "DEAD_LETTER_TOPIC"
)

// granted returns the command that grants the role.
func (p Predefined) granted(project string) string {
	member := p.Member
	if member == "" {
		member = processMember
	}
	command, name := "gcloud projects", project
	switch p.On.Kind {
	case bucketKind:
		command, name = "gcloud "+string(p.On.Kind), "gs://"+p.On.Name
	case topicKind, subscriptionKind:
		command, name = "gcloud "+string(p.On.Kind), p.On.Name
	}
	return command + " add-iam-policy-binding " + name + " --member=" + member + " --role=" + p.Name
}

// bindings are roles on resources, without duplicates. A binding names all configuration keys that
// need it.
type bindings []Predefined

func (b *bindings) add(p Predefined) {
	for i := range *b {
		had := &(*b)[i]
		if had.Name != p.Name || had.On != p.On || had.Member != p.Member {
			continue
		}
		had.For += ", " + p.For
		had.Permissions = slices.Concat(had.Permissions, p.Permissions)
		slices.Sort(had.Permissions)
		had.Permissions = slices.Compact(had.Permissions)
		return
	}
	*b = append(*b, p)
}

// topic and subscription add a Pub/Sub role on the resource that a configuration key names. If the
// key is empty, they add nothing.
func (b *bindings) topic(role, key, name, permission string) {
	b.onResource(role, key, "", Resource{topicKind, name}, permission)
}

func (b *bindings) subscription(role, key, name, permission string) {
	b.onResource(role, key, "", Resource{subscriptionKind, name}, permission)
}

func (b *bindings) onResource(role, key, member string, on Resource, permission string) {
	if on.Name != "" {
		b.add(Predefined{Name: role, Permissions: []string{permission}, For: key, Member: member, On: on})
	}
}

// looking returns the roles with which `plan` and a worker read configured resources outside the
// instance: time series, topics and buckets.
func looking(cfg *config.Config) bindings {
	var out bindings
	if cfg.Backfill.PauseAboveTargetCPU != "" {
		out.add(Predefined{Name: "roles/monitoring.viewer", Permissions: permissions([]string{"monitoring"}, Watching), For: "backfill.pause_above_target_cpu"})
	}
	const viewer = "roles/pubsub.viewer"
	out.topic(viewer, "relay.pubsub_topic", cfg.Relay.Topic, "pubsub.topics.get")
	out.topic(viewer, "errors.park_to", cfg.Errors.Topic(), "pubsub.topics.get")
	out.subscription(viewer, "relay.subscription", cfg.Relay.Subscription, "pubsub.subscriptions.get")
	out.subscription(viewer, "relay.dead_letter", cfg.Relay.DeadLetter, "pubsub.subscriptions.get")
	var buckets []string
	for _, address := range foldersOf(cfg) {
		if folder, ok := source.InCloudStorage(address); ok {
			bucket, _, _ := strings.Cut(folder, "/")
			buckets = append(buckets, bucket)
		}
	}
	slices.Sort(buckets)
	for _, bucket := range slices.Compact(buckets) {
		out.add(Predefined{Name: "roles/storage.objectViewer", Permissions: permissions([]string{"storage"}, Importing), For: "backfill.from", On: Resource{bucketKind, bucket}})
	}
	return out
}

// besides returns the roles that a worker needs in addition to the role on the instance. It
// includes the roles that Pub/Sub itself needs to move messages to a dead-letter topic.
func besides(cfg *config.Config) []Predefined {
	out := looking(cfg)
	const publisher, subscriber = "roles/pubsub.publisher", "roles/pubsub.subscriber"
	relays, applies := "", ""
	if cfg.Relay.Topic != "" && cfg.Relay.Subscription != "" {
		relays, applies = relayMember, applierMember
	}
	out.onResource(publisher, "relay.pubsub_topic", relays, Resource{topicKind, cfg.Relay.Topic}, "pubsub.topics.publish")
	out.topic(publisher, "errors.park_to", cfg.Errors.Topic(), "pubsub.topics.publish")
	out.onResource(subscriber, "relay.subscription", applies, Resource{subscriptionKind, cfg.Relay.Subscription}, "pubsub.subscriptions.consume")
	out.onResource(subscriber, "relay.dead_letter", applies, Resource{subscriptionKind, cfg.Relay.DeadLetter}, "pubsub.subscriptions.consume")
	if cfg.Relay.DeadLetter != "" && cfg.Relay.Subscription != "" {
		const key = "the dead-letter topic, to which Pub/Sub itself moves messages,"
		out.add(Predefined{publisher, []string{"pubsub.topics.publish"}, "the dead-letter topic, for refused messages,", applies, Resource{topicKind, deadLetterTopic}})
		out.add(Predefined{publisher, []string{"pubsub.topics.publish"}, key, forwardingMember, Resource{topicKind, deadLetterTopic}})
		out.add(Predefined{subscriber, []string{"pubsub.subscriptions.consume"}, key, forwardingMember, Resource{subscriptionKind, cfg.Relay.Subscription}})
	}
	return out
}
