package preflight

import (
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/relay"
)

// A subscription that does not deliver every message unchanged to appliers is refused, each time
// with its cause and the command to fix it.
func TestASubscriptionThatCannotServe(t *testing.T) {
	const day = 24 * time.Hour
	const name = "projects/p/subscriptions/s"
	cfg := &config.Config{State: config.State{TombstoneAge: 14 * day}}
	cfg.Relay.Topic, cfg.Relay.Subscription, cfg.Relay.DeadLetter = "projects/p/topics/t", name, "projects/p/subscriptions/dead"
	for about, c := range map[string]struct {
		change     func(f *relay.SubscriptionFacts)
		cause, fix string // "": it is suitable
	}{
		"fit":            {func(*relay.SubscriptionFacts) {}, "", ""},
		"no dead letter": {func(f *relay.SubscriptionFacts) { f.DeadLetter, f.Attempts, f.BacksOff = "", 0, false }, "", ""},
		"other topic":    {func(f *relay.SubscriptionFacts) { f.Topic = "projects/p/topics/u" }, "belongs to topic projects/p/topics/u", "name a subscription of projects/p/topics/t"},
		"deleted topic":  {func(f *relay.SubscriptionFacts) { f.Topic = deletedTopic }, "its topic was deleted", "subscriptions create NAME"},
		"detached":       {func(f *relay.SubscriptionFacts) { f.Detached = true }, "detached", "subscriptions create NAME --topic=projects/p/topics/t"},
		"filter":         {func(f *relay.SubscriptionFacts) { f.Filtered = true }, "a filter", "subscriptions create NAME --topic=projects/p/topics/t"},
		"push":           {func(f *relay.SubscriptionFacts) { f.Delivers = relay.Pushed }, "pushes", "modify-push-config " + name + " --push-endpoint=''"},
		"BigQuery":       {func(f *relay.SubscriptionFacts) { f.Delivers = relay.ToBigQuery }, "to BigQuery", "update " + name + " --clear-bigquery-config"},
		"Cloud Storage":  {func(f *relay.SubscriptionFacts) { f.Delivers = relay.ToCloudStorage }, "to Cloud Storage", "update " + name + " --clear-cloud-storage-config"},
		"Bigtable":       {func(f *relay.SubscriptionFacts) { f.Delivers = relay.ToBigtable }, "to Bigtable", "update " + name + " --clear-bigtable-config"},
		"ordered":        {func(f *relay.SubscriptionFacts) { f.Ordered = true }, "it has ordering", "without --enable-message-ordering"},
		"exactly once":   {func(f *relay.SubscriptionFacts) { f.ExactlyOnce = true }, "exactly-once", "--no-enable-exactly-once-delivery"},
		"transform":      {func(f *relay.SubscriptionFacts) { f.Transformed = true }, "transforms", "--clear-message-transforms"},
		"kept briefly":   {func(f *relay.SubscriptionFacts) { f.Retention = day - time.Second }, "keeps messages for 23h59m59s", "--message-retention-duration=7d"},
		"kept a day":     {func(f *relay.SubscriptionFacts) { f.Retention = day }, "", ""},
		"kept long":      {func(f *relay.SubscriptionFacts) { f.Retention = 11 * day }, "at least 4d longer", "raise state.tombstone_age to 15d"},
		"few attempts":   {func(f *relay.SubscriptionFacts) { f.Attempts = 19 }, "after 19 delivery attempts", "--dead-letter-topic=projects/p/topics/dead --max-delivery-attempts=100"},
		"no retry":       {func(f *relay.SubscriptionFacts) { f.BacksOff = false }, "no retry policy", "--min-retry-delay=10s --max-retry-delay=600s"},
	} {
		f := relay.SubscriptionFacts{Topic: cfg.Relay.Topic, Retention: 7 * day, DeadLetter: "projects/p/topics/dead", Attempts: 20, BacksOff: true}
		c.change(&f)
		got := unfit(cfg, f)
		if got == nil && c.cause == "" {
			continue
		}
		if got == nil || c.cause == "" || !strings.Contains(got.cause, c.cause) || !strings.Contains(got.fix, c.fix) {
			t.Errorf("%s: %+v", about, got)
		}
	}
	for about, c := range map[string]struct {
		dead       string
		change     func(f *relay.SubscriptionFacts)
		cause, fix string
	}{
		"fit":            {"projects/p/topics/dead", func(*relay.SubscriptionFacts) {}, "", ""},
		"no dead letter": {"", func(*relay.SubscriptionFacts) {}, "s has no dead-letter topic", "update " + name + " --dead-letter-topic=projects/p/topics/dead --max-delivery-attempts=100"},
		"other topic":    {"projects/p/topics/other", func(*relay.SubscriptionFacts) {}, "the dead-letter topic is projects/p/topics/other", "name a subscription of"},
		"push":           {"projects/p/topics/dead", func(f *relay.SubscriptionFacts) { f.Delivers = relay.Pushed }, "pushes", "modify-push-config projects/p/subscriptions/dead"},
		"filter":         {"projects/p/topics/dead", func(f *relay.SubscriptionFacts) { f.Filtered = true }, "a filter", "create"},
		"chained":        {"projects/p/topics/dead", func(f *relay.SubscriptionFacts) { f.DeadLetter = "x" }, "its own dead-letter topic", "--clear-dead-letter-policy"},
	} {
		f := relay.SubscriptionFacts{Topic: "projects/p/topics/dead", Retention: 7 * day}
		c.change(&f)
		got := unwatchable(cfg, c.dead, f)
		if got == nil && c.cause == "" {
			continue
		}
		if got == nil || c.cause == "" || !strings.Contains(got.cause, c.cause) || !strings.Contains(got.fix, c.fix) {
			t.Errorf("dead letter, %s: %+v", about, got)
		}
	}
}
