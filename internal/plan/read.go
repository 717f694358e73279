package plan

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/awshost"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/cost"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// Question holds the options of a plan, in addition to the configuration.
type Question struct {
	Apply         bool // create the missing resources
	AcceptMapping bool // continue even if the ledger has another mapping
	AdoptRows     bool // continue even if target tables have rows
	Sample        int  // number of items to read from each table
	Prices        cost.Prices
	Hints         string // flags to append to commands in fixes
}

// Input holds the answers of both databases. A plan is made from them.
type Input struct {
	*preflight.Prober
	question Question
	env      config.Lookup
	at       time.Time
	from     sourceEnd
	to       targetEnd // nil before it is connected

	configured diag.List         // warnings of the configuration itself
	sources    []sourceTable     // source tables that exist
	sharing    int               // number of tables that share the copy's limits
	targets    diag.List         // warnings of the target's tables
	unfit      map[string]string // why target tables do not allow a fast load, by name

	create  []Creation
	missing []preflight.Lacking // in the order of the creations
	streams []string            // existing tables whose change stream would be enabled
	lacks   []string            // missing permissions on the instance
	cluster cost.Cluster
	profile string // the cluster of the app profile that would be created; "" if it exists or is unknown
	routed  string // the cluster to which the app profile routes; "" if unknown or without a profile
	// notFound is the error of a ping that did not find the instance or the app profile; nil if the
	// ping succeeded.
	notFound error
	left     bool                // the application has left the source, so other checks do not apply
	cutovers checkpoint.Cutovers // records of the cutovers of all groups
}

// sourceTable is one source table.
type sourceTable struct {
	Table    // the table's part of the document, without estimates
	found    preflight.Table
	items    []attribute.Item // items of the sample
	wayBack  preflight.WayBack
	refused  *diag.Error // why the configured export would not be copied
	copied   bool        // the table was loaded before
	changes  float64     // changes per second that workers measured; 0 if unknown
	guarded  string      // why the target or the ledger does not allow a fast load
	warnings diag.List
}

// Read sends all requests to both databases, and writes each answer when it arrives.
func Read(ctx context.Context, p *terminal.Console, cfg *config.Config, s *preflight.Source, q Question) *Input {
	out := p.Stdout
	if p.AsJSON() {
		out = io.Discard
	}
	in := &Input{question: q, env: p.Env, at: task.Now(ctx), from: fromOf(s), configured: config.Lint(cfg), Prober: &preflight.Prober{Out: out,
		Colored: p.Colored(p.Stdout), Hints: q.Hints, Cfg: cfg, Source: s, InFull: true}}
	if cfg.Source.Region == "" { // a region in the configuration was checked by Lint
		if e := awshost.CheckRegion(s.Region, diag.Position{}); e != nil {
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
		_ = in.Target.Close() // the error does not matter, because all answers have arrived
	}
}

// examine sends the requests. The target comes first, because its number of nodes limits the copy.
// The target's tables come last, because the sample of the source determines their splits.
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

// described returns DynamoDB's description of a source table, or an empty one.
func (in *Input) described(table string) backfill.Description {
	for _, s := range in.sources {
		if s.Source == table {
			return s.found.Description
		}
	}
	return backfill.Description{}
}
