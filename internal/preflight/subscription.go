package preflight

import (
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/timespan"
	"github.com/dynamodb-bigtable/replicator/relay"
)

const (
	// margin is the minimum time by which the age of tombstones must exceed the retention of
	// messages.
	margin = 4 * 24 * time.Hour
	// leastAttempts is the minimum number of delivery attempts before a message goes to the
	// dead-letter topic. Each restart of an applier uses up one delivery attempt of every message
	// that the applier holds. The service allows at most 100; its default is 5.
	leastAttempts = 20
	// manyAttempts and backsOff are the flags that are recommended for a subscription.
	manyAttempts = "--max-delivery-attempts=100"
	backsOff     = "--min-retry-delay=10s --max-retry-delay=600s"
)

// fault is the reason why a subscription is unsuitable, and the fix.
type fault struct{ cause, fix string }

// setting is a possible fault of a subscription, and whether the subscription has it.
type setting struct {
	is bool
	fault
}

// unfit returns the first reason why appliers cannot use a subscription, or nil. Appliers need
// every message of the topic, exactly as it was published.
func unfit(cfg *config.Config, f relay.SubscriptionFacts) *fault {
	name := cfg.Relay.Subscription
	kept, remembered := timespan.Format(f.Retention), timespan.Format(cfg.State.TombstoneAge)
	return first(append(unpulled(name, f), []setting{
		{cfg.Relay.Topic != "" && f.Topic != cfg.Relay.Topic, fault{"it belongs to topic " + f.Topic, "name a subscription of " + cfg.Relay.Topic}},
		{f.Ordered, fault{"it has ordering, so one waiting message of an item delays all later messages of the item",
			"create one without --enable-message-ordering: " + another(f)}},
		{f.ExactlyOnce, fault{"it has exactly-once delivery, which rejects acknowledgements after the deadline", update(name, "--no-enable-exactly-once-delivery")}},
		{f.Transformed, fault{"it transforms messages, so appliers would not get them as published", update(name, "--clear-message-transforms")}},
		{f.Retention < cdc.Retention, fault{"it keeps messages for " + kept + " only, and messages that appliers cannot write in that time are lost",
			update(name, "--message-retention-duration=7d")}},
		{f.Retention+margin > cfg.State.TombstoneAge, fault{fmt.Sprintf("it keeps messages for %s, and tombstones are kept for %s. Tombstones must be kept at least %s longer than messages, or a late message could restore a removed item",
			kept, remembered, timespan.Format(margin)),
			"raise state.tombstone_age to " + timespan.Format(f.Retention+margin) + ", or keep messages for a shorter time"}},
		{f.DeadLetter != "" && f.Attempts < leastAttempts, fault{fmt.Sprintf("its dead-letter topic gets a message after %d delivery attempts, but restarts use attempts too; at least %d are needed",
			f.Attempts, leastAttempts), update(name, "--dead-letter-topic="+f.DeadLetter+" "+manyAttempts)}},
		{f.DeadLetter != "" && !f.BacksOff, fault{"it has a dead-letter topic but no retry policy, so all delivery attempts are used within seconds",
			update(name, backsOff)}},
	}...))
}

// unwatchable returns the first reason why a subscription cannot show all messages of the given
// dead-letter topic, or nil.
func unwatchable(cfg *config.Config, deadTopic string, f relay.SubscriptionFacts) *fault {
	name := cfg.Relay.DeadLetter
	return first(append([]setting{
		{deadTopic == "", fault{subscriptionName(cfg) + " has no dead-letter topic", "add one: " + update(cfg.Relay.Subscription,
			"--dead-letter-topic="+f.Topic+" "+manyAttempts+" "+backsOff)}},
		{f.Topic != deadTopic, fault{"it belongs to topic " + f.Topic + ", but the dead-letter topic is " + deadTopic, "name a subscription of " + deadTopic}},
		{f.DeadLetter != "", fault{"it has its own dead-letter topic, which would remove messages", update(name, "--clear-dead-letter-policy")}},
	}, unpulled(name, f)...))
}

// deletedTopic is the service's name for a deleted topic.
const deletedTopic = "_deleted-topic_"

// unpulled returns the settings of a subscription that can keep a pull from returning every
// message.
func unpulled(name string, f relay.SubscriptionFacts) []setting {
	return []setting{
		{f.Topic == deletedTopic, fault{"its topic was deleted. It gets no messages, even if a topic with that name exists now",
			"gcloud pubsub subscriptions create NAME --topic=TOPIC --message-retention-duration=7d, and name it in the configuration"}},
		{f.Detached, fault{"it is detached from its topic. It gets no messages, and cannot be attached again", another(f)}},
		{f.Delivers == relay.Pushed, fault{"it pushes messages to " + string(f.Delivers) + ", so they cannot be pulled",
			"gcloud pubsub subscriptions modify-push-config " + name + " --push-endpoint=''"}},
		{f.Delivers != relay.Pulled, fault{"it exports messages to " + string(f.Delivers) + ", so they cannot be pulled", update(name, clears[f.Delivers])}},
		{f.Filtered, fault{"it has a filter, which cannot be removed. It never delivers messages that do not match", another(f)}},
	}
}

// clears holds, for each kind of export subscription, the flag that ends the export.
var clears = map[relay.Destination]string{
	relay.ToBigQuery:     "--clear-bigquery-config",
	relay.ToCloudStorage: "--clear-cloud-storage-config",
	relay.ToBigtable:     "--clear-bigtable-config",
}

func first(settings []setting) *fault {
	for _, s := range settings {
		if s.is {
			return &s.fault
		}
	}
	return nil
}

func update(name, flags string) string {
	return "gcloud pubsub subscriptions update " + name + " " + flags
}

// another returns the command that creates a new subscription. It is needed if a setting of the
// existing subscription cannot be changed. The new subscription does not receive earlier messages.
func another(f relay.SubscriptionFacts) string {
	return "gcloud pubsub subscriptions create NAME --topic=" + f.Topic +
		" --message-retention-duration=7d, name it in the configuration, and load again the tables that were already followed"
}
