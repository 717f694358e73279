package policy

import (
	"slices"
	"strings"

	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/source"
)

// Predefined is a predefined role of Google Cloud, with the permissions that are needed from it,
// and the configuration keys that need it.
type Predefined struct {
	Name        string
	Permissions []string
	For         string
	Member      string // the member that gets it; "" for the identity of the process
	On          Resource
}

// Resource is the resource on which a role is granted; the project if its kind is "".
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

// processMember is the identity of the process. If one process publishes and another one applies,
// their identities are relayMember and applierMember. A publisher of the topic is as trusted as a
// writer of the target, so appliers do not get that role. forwardingMember is the identity with
// which Pub/Sub moves messages of a subscription to its dead-letter topic: the service agent of the
// subscription's project. It must be allowed to publish to that topic, and to acknowledge in the
// subscription. Source:
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

// bindings are roles on resources, each once. If several keys need a binding, it names all of them.
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

// topic and subscription add a role of Pub/Sub on the resource that a key names. They add nothing
// if the key names none.
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

// looking returns the roles, in addition to the role on the instance, that `plan` and a worker need
// to read the resources of the configuration. Time series, topics and buckets do not belong to an
// instance.
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

// besides returns the roles of a worker in addition to the role on the instance. It includes the
// roles that Pub/Sub itself needs to fill a dead-letter topic.
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
