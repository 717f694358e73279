package preflight

import (
	"context"
	"strings"

	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/timespan"
	"github.com/dynamodb-bigtable/replicator/relay"
)

// topicName returns the configured topic without its project.
func topicName(cfg *config.Config) string {
	return shortName(cfg.Relay.Topic)
}

// TopicEnd names the topic to which changes are published, for BothEnds.
func TopicEnd(cfg *config.Config, env config.Lookup) string {
	return " and topic " + topicAt(cfg.Relay.Topic, env)
}

// ParkEnd names the topic to which parked items are published; "" if they are not published.
func ParkEnd(cfg *config.Config, env config.Lookup) string {
	if cfg.Errors.Topic() == "" {
		return ""
	}
	return ", parked items also to topic " + topicAt(cfg.Errors.Topic(), env)
}

func topicAt(name string, env config.Lookup) string {
	to := shortName(name)
	if host, _ := env("PUBSUB_EMULATOR_HOST"); host != "" {
		to += emulatorAt(host)
	}
	return to
}

// SubscriptionEnd names the subscription and the target of a process that applies a topic.
func SubscriptionEnd(cfg *config.Config, env config.Lookup) string {
	from, to := "subscription "+subscriptionName(cfg), TargetName(cfg)
	if host, _ := env("PUBSUB_EMULATOR_HOST"); host != "" {
		from += emulatorAt(host)
	}
	if host, _ := env("BIGTABLE_EMULATOR_HOST"); host != "" {
		to += emulatorAt(host)
	}
	return from + " → " + to
}

// subscriptionName returns the configured subscription without its project.
func subscriptionName(cfg *config.Config) string {
	return shortName(cfg.Relay.Subscription)
}

// AskSubscription connects to the configured subscription, and checks that it is suitable.
func (p *Prober) AskSubscription(ctx context.Context) {
	if p.Cfg.Relay.Subscription == "" {
		p.Failed = append(p.Failed, &diag.Error{Code: diag.TopicUnset, What: "relay.subscription is not set", Pos: p.Cfg.Where("relay"),
			Cause: "`run --from pubsub` pulls this subscription and writes the published changes",
			Fix:   "set relay.subscription: projects/PROJECT/subscriptions/SUBSCRIPTION"})
		return
	}
	if p.appliedOnce() {
		p.Ask(ctx, ProbeTime, "subscription "+subscriptionName(p.Cfg), p.subscription)
	}
	if p.Cfg.Relay.DeadLetter != "" && p.Subscription != nil {
		p.Ask(ctx, ProbeTime, "dead-letter topic "+shortName(p.Cfg.Relay.DeadLetter), p.deadLetter)
	}
}

func (p *Prober) subscription(ctx context.Context) (detail string, err error) {
	name := p.Cfg.Relay.Subscription
	what := "cannot use subscription " + name
	var facts relay.SubscriptionFacts
	if p.Subscription, facts, err = openSubscription(ctx, what, name); err != nil {
		return "", err
	}
	p.Retention, p.DeadTopic = facts.Retention, facts.DeadLetter
	if u := unfit(p.Cfg, facts); u != nil {
		return "", &diag.Error{Code: diag.SubscriptionUnfit, What: what, Cause: u.cause, Fix: u.fix}
	}
	detail = "keeps messages for " + timespan.Format(facts.Retention)
	switch {
	case facts.DeadLetter == "":
		detail += "; no dead-letter topic, so unreadable messages are redelivered indefinitely"
	case p.Cfg.Relay.DeadLetter == "":
		detail += "; its dead-letter topic is not monitored (relay.dead_letter)"
	}
	return detail, nil
}

// OpenDeadTopic connects to the dead-letter topic, to which appliers publish refused messages.
func OpenDeadTopic(ctx context.Context, name string) (*relay.PubSub, error) {
	if err := checkGoogle("PUBSUB_EMULATOR_HOST"); err != nil {
		return nil, err
	}
	topic, err := relay.OpenTopic(context.WithoutCancel(ctx), projectOf(name), name)
	if err != nil {
		return nil, ExplainTopic("cannot use topic "+name, err)
	}
	return topic, nil
}

// OpenDeadLetter connects to the subscription of the dead-letter topic, for a command.
func OpenDeadLetter(ctx context.Context, cfg *config.Config) (*relay.PubSubscription, error) {
	name := cfg.Relay.DeadLetter
	if name == "" {
		return nil, &diag.Error{Code: diag.TopicUnset, What: "relay.dead_letter is not set", Pos: cfg.Where("relay"),
			Cause: "messages are listed and dropped through this subscription of the dead-letter topic",
			Fix:   "set relay.dead_letter: projects/PROJECT/subscriptions/SUBSCRIPTION"}
	}
	s, _, err := openSubscription(ctx, "cannot read the dead-letter topic through "+name, name)
	if err != nil && s != nil {
		_ = s.Close()
	}
	return s, err
}

// openSubscription connects, and reads the subscription's settings. The client must stay usable
// after the probe, so it does not use the probe's context.
func openSubscription(ctx context.Context, what, name string) (*relay.PubSubscription, relay.SubscriptionFacts, error) {
	if err := checkGoogle("PUBSUB_EMULATOR_HOST"); err != nil {
		return nil, relay.SubscriptionFacts{}, err
	}
	s, err := relay.OpenSubscription(context.WithoutCancel(ctx), projectOf(name), name)
	if err != nil {
		return nil, relay.SubscriptionFacts{}, ExplainTopic(what, err)
	}
	facts, err := askAgain(ctx, s.Look)
	if err != nil {
		return s, facts, ExplainTopic(what, err)
	}
	return s, facts, nil
}

// deadLetter checks the subscription that watches the dead-letter topic. A subscription of another
// topic would show no messages, or wrong messages.
func (p *Prober) deadLetter(ctx context.Context) (_ string, err error) {
	name := p.Cfg.Relay.DeadLetter
	what := "cannot monitor the dead-letter topic through " + name
	var facts relay.SubscriptionFacts
	if p.DeadLetter, facts, err = openSubscription(ctx, what, name); err != nil {
		return "", err
	}
	if u := unwatchable(p.Cfg, p.DeadTopic, facts); u != nil {
		return "", &diag.Error{Code: diag.SubscriptionUnfit, What: what, Cause: u.cause, Fix: u.fix}
	}
	return "is monitored", nil
}

// shortName returns the name of a topic or a subscription without its project.
func shortName(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

// projectOf returns the project in a name of the form projects/PROJECT/….
func projectOf(name string) string {
	_, rest, _ := strings.Cut(name, "/")
	project, _, _ := strings.Cut(rest, "/")
	return project
}

// AskTopic connects to the configured topic, and checks that it exists.
func (p *Prober) AskTopic(ctx context.Context) {
	if p.Cfg.Relay.Topic == "" {
		p.Failed = append(p.Failed, &diag.Error{Code: diag.TopicUnset, What: "relay.pubsub_topic is not set", Pos: p.Cfg.Where("relay")})
		return
	}
	if p.appliedOnce() {
		p.Ask(ctx, ProbeTime, "topic "+topicName(p.Cfg), p.topic)
	}
}

// appliedOnce checks that no application also writes a target table. Dual writes need a second
// application of each change, and appliers apply a published change only once.
func (p *Prober) appliedOnce() bool {
	for _, t := range p.Cfg.Tables {
		if p.Cfg.DualWritten(t) {
			p.Failed = append(p.Failed, &diag.Error{Code: diag.DualWritesImpossible, What: "relay does not work with dual_writes", Pos: p.Cfg.Where("dual_writes"),
				Cause: "a published change is written only once, so the application's own write could remain",
				Fix:   "write dual_writes: off for table " + t.From + ", or run without a relay"})
			return false
		}
	}
	return true
}

func (p *Prober) topic(ctx context.Context) (detail string, err error) {
	var facts relay.TopicFacts
	if p.Topic, facts, err = openTopic(ctx, p.Cfg.Relay.Topic); err != nil {
		return "", err
	}
	if facts.Transformed && p.Cfg.Relay.Subscription != "" {
		return "", &diag.Error{Code: diag.TopicUnusable, What: "cannot use topic " + p.Cfg.Relay.Topic,
			Cause: "it transforms messages, so appliers would not get them as published",
			Fix:   "gcloud pubsub topics update " + p.Cfg.Relay.Topic + " --clear-message-transforms"}
	}
	return retention(facts), nil
}

// AskParkTopic connects to the topic to which parked items are published, if there is one, and
// checks that it exists.
func (p *Prober) AskParkTopic(ctx context.Context) {
	if topic := p.Cfg.Errors.Topic(); topic != "" {
		p.Ask(ctx, ProbeTime, "topic "+shortName(topic), func(ctx context.Context) (_ string, err error) {
			var facts relay.TopicFacts
			p.ParkTopic, facts, err = openTopic(ctx, topic)
			return retention(facts), err
		})
	}
}

// openTopic connects, and reads the topic's settings. The client must stay usable after the probe,
// so it does not use the probe's context.
func openTopic(ctx context.Context, name string) (*relay.PubSub, relay.TopicFacts, error) {
	what := "cannot use topic " + name
	if err := checkGoogle("PUBSUB_EMULATOR_HOST"); err != nil {
		return nil, relay.TopicFacts{}, err
	}
	topic, err := relay.OpenTopic(context.WithoutCancel(ctx), projectOf(name), name)
	if err != nil {
		return nil, relay.TopicFacts{}, ExplainTopic(what, err)
	}
	facts, err := askAgain(ctx, topic.Look)
	if err != nil {
		return topic, facts, ExplainTopic(what, err)
	}
	return topic, facts, nil
}

func retention(facts relay.TopicFacts) string {
	if facts.Retention == 0 {
		return "exists; it keeps no messages for later subscribers"
	}
	return "keeps messages for " + timespan.Format(facts.Retention)
}
