package preflight

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/relay"
)

// topicName is the topic of the configuration without its project.
func topicName(cfg *config.Config) string {
	return shortName(cfg.Relay.Topic)
}

// TopicEnd names where changes are published, for BothEnds.
func TopicEnd(cfg *config.Config, env config.Lookup) string {
	return " and topic " + topicAt(cfg.Relay.Topic, env)
}

// ParkEnd names where parked items are published; "" if they are not.
func ParkEnd(cfg *config.Config, env config.Lookup) string {
	if cfg.Errors.Topic() == "" {
		return ""
	}
	return ", parked items also to topic " + topicAt(cfg.Errors.Topic(), env)
}

func topicAt(name string, env config.Lookup) string {
	to := shortName(name)
	if host, _ := env("PUBSUB_EMULATOR_HOST"); host != "" {
		to += " EMULATOR at " + host
	}
	return to
}

// SubscriptionEnd names both ends of a process that applies a topic.
func SubscriptionEnd(cfg *config.Config, env config.Lookup) string {
	from, to := "subscription "+subscriptionName(cfg), TargetName(cfg)
	if host, _ := env("PUBSUB_EMULATOR_HOST"); host != "" {
		from += " EMULATOR at " + host
	}
	if host, _ := env("BIGTABLE_EMULATOR_HOST"); host != "" {
		to += " EMULATOR at " + host
	}
	return from + " → " + to
}

// subscriptionName is the subscription of the configuration without its project.
func subscriptionName(cfg *config.Config) string {
	return shortName(cfg.Relay.Subscription)
}

// AskSubscription connects to the subscription of the configuration, and asks whether it is fit: one
// with ordering would wait for single items, and one that keeps messages for longer than removed
// rows are remembered might bring items back.
func (p *Prober) AskSubscription(ctx context.Context) {
	if p.Cfg.Relay.Subscription == "" {
		p.Failed = append(p.Failed, &diag.Error{Code: diag.TopicUnset, What: "relay.subscription is not set", Pos: p.Cfg.Where("relay"),
			Cause: "changes that are published and not written are for whoever runs `run --from pubsub`, which pulls it",
			Fix:   "set relay.subscription: projects/PROJECT/subscriptions/SUBSCRIPTION"})
		return
	}
	if p.appliedOnce() {
		p.Ask(ctx, ProbeTime, "subscription "+subscriptionName(p.Cfg), p.subscription)
	}
	if p.Cfg.Relay.DeadLetter != "" && p.Subscription != nil {
		p.Ask(ctx, ProbeTime, "dead letter "+shortName(p.Cfg.Relay.DeadLetter), p.deadLetter)
	}
}

// margin is how much longer removed rows are remembered than messages are kept.
const margin = 4 * 24 * time.Hour

func (p *Prober) subscription(ctx context.Context) (string, error) {
	what := "cannot use subscription " + p.Cfg.Relay.Subscription
	_, rest, _ := strings.Cut(p.Cfg.Relay.Subscription, "/")
	project, _, _ := strings.Cut(rest, "/")
	var err error
	if p.Subscription, err = relay.OpenSubscription(context.WithoutCancel(ctx), project, p.Cfg.Relay.Subscription); err != nil {
		return "", &diag.Error{Code: diag.TopicUnusable, What: what, Err: err}
	}
	facts, err := p.Subscription.Look(ctx)
	refuse := func(cause, fix string) (string, error) {
		return "", &diag.Error{Code: diag.SubscriptionUnfit, What: what, Cause: cause, Fix: fix}
	}
	p.Retention, p.deadTopic = facts.Retention, facts.DeadLetter
	switch {
	case err != nil:
		return "", &diag.Error{Code: diag.TopicUnusable, What: what, Err: err}
	case p.Cfg.Relay.Topic != "" && facts.Topic != p.Cfg.Relay.Topic:
		return refuse("it is of topic "+facts.Topic, "name a subscription of "+p.Cfg.Relay.Topic)
	case facts.Ordered:
		return refuse("it has ordering, which holds every later message of an item back behind one that waits", "create one without --enable-message-ordering")
	case facts.Retention+margin > p.Cfg.State.TombstoneAge:
		return refuse(fmt.Sprintf("it keeps messages for %s, and removed rows are remembered for %s: %s more are needed, or a message that comes late brings an item back",
			config.FormatDuration(facts.Retention), config.FormatDuration(p.Cfg.State.TombstoneAge), config.FormatDuration(margin)),
			"raise state.tombstone_age to "+config.FormatDuration(facts.Retention+margin)+", or keep messages for less")
	case facts.DeadLetter == "":
		return "keeps messages for " + config.FormatDuration(facts.Retention) + "; no dead letter: what cannot be read comes again and again", nil
	case p.Cfg.Relay.DeadLetter == "":
		return "keeps messages for " + config.FormatDuration(facts.Retention) + "; nobody watches its dead letter (relay.dead_letter)", nil
	}
	return "keeps messages for " + config.FormatDuration(facts.Retention), nil
}

// deadLetter asks for the subscription by which the dead letter is watched: of another topic it
// would show nothing, or what nobody need mind.
func (p *Prober) deadLetter(ctx context.Context) (string, error) {
	what := "cannot watch the dead letter through " + p.Cfg.Relay.DeadLetter
	_, rest, _ := strings.Cut(p.Cfg.Relay.DeadLetter, "/")
	project, _, _ := strings.Cut(rest, "/")
	var err error
	if p.DeadLetter, err = relay.OpenSubscription(context.WithoutCancel(ctx), project, p.Cfg.Relay.DeadLetter); err != nil {
		return "", &diag.Error{Code: diag.TopicUnusable, What: what, Err: err}
	}
	facts, err := p.DeadLetter.Look(ctx)
	switch {
	case err != nil:
		return "", &diag.Error{Code: diag.TopicUnusable, What: what, Err: err}
	case p.deadTopic == "":
		return "", &diag.Error{Code: diag.SubscriptionUnfit, What: what, Cause: subscriptionName(p.Cfg) + " has no dead letter",
			Fix: "give it one: gcloud pubsub subscriptions update " + subscriptionName(p.Cfg) + " --dead-letter-topic=" + shortName(facts.Topic)}
	case facts.Topic != p.deadTopic:
		return "", &diag.Error{Code: diag.SubscriptionUnfit, What: what, Cause: "it is of topic " + facts.Topic + ", and the dead letter is " + p.deadTopic,
			Fix: "name a subscription of " + p.deadTopic}
	}
	return "is watched", nil
}

// shortName is a topic or a subscription without its project.
func shortName(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

// AskTopic connects to the topic of the configuration, and asks whether it exists.
func (p *Prober) AskTopic(ctx context.Context) {
	if p.Cfg.Relay.Topic == "" {
		p.Failed = append(p.Failed, &diag.Error{Code: diag.TopicUnset, What: "relay.pubsub_topic is not set", Pos: p.Cfg.Where("relay")})
		return
	}
	if p.appliedOnce() {
		p.Ask(ctx, ProbeTime, "topic "+topicName(p.Cfg), p.topic)
	}
}

// appliedOnce reports whether no table is written by its application too: what is published is
// applied once, and nobody asserts it again later.
func (p *Prober) appliedOnce() bool {
	for _, t := range p.Cfg.Tables {
		if p.Cfg.DualWritten(t) {
			p.Failed = append(p.Failed, &diag.Error{Code: diag.DualWritesImpossible, What: "a relay does not go with dual_writes", Pos: p.Cfg.Where("dual_writes"),
				Cause: "what is published is applied once; nobody asserts it again when the application's own write has ended",
				Fix:   "write dual_writes: off for table " + t.From + ", or use run without a relay"})
			return false
		}
	}
	return true
}

func (p *Prober) topic(ctx context.Context) (detail string, err error) {
	p.Topic, detail, err = lookAtTopic(ctx, p.Cfg.Relay.Topic)
	return detail, err
}

// AskParkTopic asks the same of the topic to which parked items are published, if there is one.
func (p *Prober) AskParkTopic(ctx context.Context) {
	if topic := p.Cfg.Errors.Topic(); topic != "" {
		p.Ask(ctx, ProbeTime, "topic "+shortName(topic), func(ctx context.Context) (detail string, err error) {
			p.ParkTopic, detail, err = lookAtTopic(ctx, topic)
			return detail, err
		})
	}
}

// lookAtTopic connects. The client outlives the probe, so it is not made under its context.
func lookAtTopic(ctx context.Context, name string) (*relay.PubSub, string, error) {
	_, rest, _ := strings.Cut(name, "/")
	project, _, _ := strings.Cut(rest, "/")
	topic, err := relay.OpenTopic(context.WithoutCancel(ctx), project, name)
	if err != nil {
		return nil, "", &diag.Error{Code: diag.TopicUnusable, What: "cannot use topic " + name, Err: err}
	}
	detail, err := retention(ctx, topic, name)
	return topic, detail, err
}

func retention(ctx context.Context, topic *relay.PubSub, name string) (string, error) {
	facts, err := topic.Look(ctx)
	switch {
	case err != nil:
		return "", &diag.Error{Code: diag.TopicUnusable, What: "cannot use topic " + name, Err: err}
	case facts.Retention == 0:
		return "exists; it keeps nothing for later subscribers", nil
	}
	return "keeps messages for " + config.FormatDuration(facts.Retention), nil
}
