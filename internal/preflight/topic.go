package preflight

import (
	"context"
	"strings"

	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/relay"
)

// TopicName is the topic of the configuration without its project.
func TopicName(cfg *config.Config) string {
	return cfg.Relay.Topic[strings.LastIndexByte(cfg.Relay.Topic, '/')+1:]
}

// TopicEnd names where changes are published, for BothEnds.
func TopicEnd(cfg *config.Config, env config.Lookup) string {
	to := " and topic " + TopicName(cfg)
	if host, _ := env("PUBSUB_EMULATOR_HOST"); host != "" {
		to += " EMULATOR at " + host
	}
	return to
}

// AskTopic connects to the topic of the configuration, and asks whether it exists.
func (p *Prober) AskTopic(ctx context.Context) {
	if p.Cfg.Relay.Topic == "" {
		p.Failed = append(p.Failed, &diag.Error{Code: diag.TopicUnset, What: "relay.pubsub_topic is not set", Pos: p.Cfg.Where("relay")})
		return
	}
	p.Ask(ctx, ProbeTime, "topic "+TopicName(p.Cfg), p.topic)
}

// topic connects. The client outlives the probe, so it is not made under its context.
func (p *Prober) topic(ctx context.Context) (string, error) {
	what := "cannot use topic " + p.Cfg.Relay.Topic
	_, rest, _ := strings.Cut(p.Cfg.Relay.Topic, "/")
	project, _, _ := strings.Cut(rest, "/")
	var err error
	if p.Topic, err = relay.OpenTopic(context.WithoutCancel(ctx), project, p.Cfg.Relay.Topic); err != nil {
		return "", &diag.Error{Code: diag.TopicUnusable, What: what, Err: err}
	}
	facts, err := p.Topic.Look(ctx)
	switch {
	case err != nil:
		return "", &diag.Error{Code: diag.TopicUnusable, What: what, Err: err}
	case facts.Retention == 0:
		return "exists; it keeps nothing for later subscribers", nil
	}
	return "keeps messages for " + config.FormatDuration(facts.Retention), nil
}
