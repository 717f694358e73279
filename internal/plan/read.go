package plan

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/cost"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// Question is what a plan is asked besides its configuration.
type Question struct {
	Apply         bool // create what is missing
	AcceptMapping bool // although the ledger holds another mapping
	AdoptRows     bool // although target tables hold rows
	Sample        int  // items of each table to read
	Prices        cost.Prices
	Hints         string // flags of the commands in remedies
}

// Input is what both ends have answered: what a plan is judged from.
type Input struct {
	*preflight.Prober
	question Question
	env      config.Lookup
	at       time.Time
	from     sourceEnd
	to       targetEnd // nil until it is reached

	configured diag.List     // warnings of the configuration itself
	sources    []sourceTable // of the tables that are there
	sharing    int           // tables that share the copy's limits
	targets    diag.List     // warnings of the target's tables

	create  []Creation
	missing []preflight.Lacking // in the order of the creations
	lacks   []string            // permissions on the instance
	cluster cost.Cluster
	profile string // the cluster of the app profile that would be created; "" if it exists or is unknown
	routed  string // the cluster that the app profile leads to; "" if it does not exist or is unknown
	// notFound is what a ping did not find: the instance or the app profile; nil if it answers.
	notFound error
	left     bool // the application has left the source: nothing else matters
}

// sourceTable is one source table.
type sourceTable struct {
	Table    // without the estimates
	found    preflight.Table
	items    []attribute.Item // of the sample
	refused  *diag.Error      // why the export that the configuration names would not be copied
	copied   bool             // the table was loaded before
	warnings diag.List
}

// Read asks both ends everything that can be asked, and writes each answer where it comes in.
func Read(ctx context.Context, p *terminal.Console, cfg *config.Config, s *preflight.Source, q Question) *Input {
	out := p.Stdout
	if p.AsJSON() {
		out = io.Discard
	}
	in := &Input{question: q, env: p.Env, at: task.Now(ctx), from: fromOf(s), configured: config.Lint(cfg), Prober: &preflight.Prober{Out: out,
		Colored: p.Colored(p.Stdout), Hints: q.Hints, Cfg: cfg, Source: s, InFull: true}}
	if cfg.Source.Region == "" { // else Lint looked at it
		if e := config.CheckRegion(s.Region, diag.Position{}); e != nil {
			warn(&in.configured, e)
		}
	}
	_, _ = fmt.Fprintf(out, "%s: %s\n\n", cfg.Name, preflight.BothEnds(cfg, s.Region, p.Env))
	in.examine(ctx)
	return in
}

// Close ends the connections to the target and to the topic.
func (in *Input) Close() {
	if in.Topic != nil {
		_ = in.Topic.Close()
	}
	if in.Subscription != nil {
		_ = in.Subscription.Close()
	}
	if in.ParkTopic != nil {
		_ = in.ParkTopic.Close()
	}
	if in.DeadLetter != nil {
		_ = in.DeadLetter.Close()
	}
	if in.Target != nil {
		_ = in.Target.Close() // every answer is in by then
	}
}

// examine asks the target first, whose nodes bound the copy, but its tables last, which are split
// by what the source's sample shows.
func (in *Input) examine(ctx context.Context) {
	reached := in.examineInstance(ctx)
	if reached && in.cutOver(ctx) {
		return
	}
	samples := preflight.Samples{}
	if in.Ask(ctx, preflight.ProbeTime, "AWS credentials", in.Credentials) {
		tables, _ := in.Find(ctx)
		in.sharing = max(1, len(tables))
		for _, t := range tables {
			in.examineSource(ctx, t, samples)
		}
	}
	if in.Cfg.Relay.Topic != "" {
		in.AskTopic(ctx)
	}
	if in.Cfg.Relay.Subscription != "" {
		in.AskSubscription(ctx)
	}
	in.AskParkTopic(ctx)
	if reached {
		in.examineTables(ctx, samples)
		in.examineRows(ctx)
	}
}

func warn(list *diag.List, e *diag.Error) {
	e.Warning = true
	*list = append(*list, e)
}

// described is what DynamoDB says of a source table, nothing if it is not there.
func (in *Input) described(table string) backfill.Description {
	for _, s := range in.sources {
		if s.Source == table {
			return s.found.Description
		}
	}
	return backfill.Description{}
}
