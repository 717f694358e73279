package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/cost"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/pipeline"
	"github.com/dynamodb-bigtable/replicator/internal/policy"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/status"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// planner compares the configuration with both ends and collects what it finds.
type planner struct {
	*preflight.Prober
	program *program
	flags   planFlags
	prices  cost.Prices
	report  planReport

	cluster cost.Cluster
	sources map[string]backfill.Description // of the tables that are there
	tables  int                             // that share the copy's limits
	missing []preflight.Lacking             // in the order of the creations
	copies  []cost.Copy
	profile string // the cluster of the app profile that would be created; "" if it exists or cannot be told
	routed  string // the cluster that the app profile leads to; "" if it does not exist or cannot be told
}

func newPlanner(p *program, cfg *config.Config, s *preflight.Source, prices cost.Prices, f planFlags) *planner {
	out := p.Stdout
	if p.AsJSON() {
		out = io.Discard
	}
	pl := &planner{program: p, flags: f, prices: prices, sources: map[string]backfill.Description{}, Prober: &preflight.Prober{Out: out, Colored: p.Colored(p.Stdout), Hints: p.withConfig(), Cfg: cfg, Source: s, InFull: true}}
	ends := status.NewDocument(cfg, p.Env, time.Now())
	pl.report = planReport{Schema: "replicator.plan/v1", Name: cfg.Name, At: ends.At, Source: s.Region, Target: targetID(cfg), Emulator: ends.Emulator,
		Create: []creation{}, Created: []string{}, Tables: []planTable{}, Warnings: config.Lint(cfg),
		Prices: planPrices{true, prices.Date, prices.Currency, prices.Regions, prices.Prices, prices.Rates}}
	if cfg.Source.Region == "" { // else Lint looked at it
		if e := config.CheckRegion(s.Region, diag.Position{}); e != nil {
			pl.warn(e)
		}
	}
	_, _ = fmt.Fprintf(out, "%s: %s\n\n", cfg.Name, preflight.BothEnds(cfg, s.Region, p.Env))
	return pl
}

func targetID(cfg *config.Config) string { return cfg.Target.Project + "/" + cfg.Target.Instance }

func (pl *planner) close() {
	if pl.Target != nil {
		_ = pl.Target.Close() // everything was told by then
	}
}

// examine asks everything that can be asked: the target first, whose nodes bound the copy, but its tables last, which are split
// by what the source's sample shows.
func (pl *planner) examine(ctx context.Context) {
	reached := pl.examineInstance(ctx)
	found := preflight.Samples{}
	if pl.Ask(ctx, preflight.ProbeTime, "AWS credentials", pl.Credentials) {
		tables, _ := pl.Find(ctx)
		pl.tables = max(1, len(tables))
		for _, t := range tables {
			pl.examineSource(ctx, t, found)
		}
	}
	if reached {
		pl.examineTables(ctx, found)
	}
	if pl.denied(diag.SourceDenied) {
		p := policy.AWS(pl.Cfg, pl.Source.Region)
		pl.iam().AWS = &p
	}
}

func (pl *planner) denied(code string) bool {
	return slices.ContainsFunc(pl.Told, func(a preflight.Answer) bool { return a.Error != nil && a.Error.Code == code })
}

func (pl *planner) iam() *missingIAM {
	if pl.report.Missing == nil {
		pl.report.Missing = &missingIAM{}
	}
	return pl.report.Missing
}

func (pl *planner) warn(e *diag.Error) {
	e.Warning = true
	pl.report.Warnings = append(pl.report.Warnings, e)
}

// examineInstance looks at everything of the target but its tables; false if it cannot be reached.
func (pl *planner) examineInstance(ctx context.Context) bool {
	var err error
	if pl.Target, err = preflight.ConnectTarget(context.WithoutCancel(ctx), pl.Cfg); err != nil {
		return pl.Ask(ctx, preflight.ProbeTime, preflight.TargetName(pl.Cfg), func(context.Context) (string, error) { return "", err })
	}
	if !pl.Ask(ctx, preflight.ProbeTime, preflight.TargetName(pl.Cfg), pl.examineEndpoint) {
		return false
	}
	pl.Ask(ctx, 2*preflight.ProbeTime, "app profile "+pl.Cfg.Target.AppProfile, pl.examineProfile)
	pl.Ask(ctx, preflight.ProbeTime, "permissions on the instance", pl.examinePermissions)
	return true
}

// examineEndpoint is a ping, which says at once why the service cannot be reached, where other calls repeat until their time is
// up. It is sent through the app profile, so that not found may mean that one: what follows tells.
func (pl *planner) examineEndpoint(ctx context.Context) (string, error) {
	err := pl.Target.Ping(ctx, pl.Cfg)
	if diag.Has(err, diag.TargetNotFound) {
		err = nil
	}
	return "answers", err
}

// examineProfile judges the app profile, or says how it would be created; and it learns of the cluster that it leads to.
func (pl *planner) examineProfile(ctx context.Context) (string, error) {
	name := pl.Cfg.Target.AppProfile
	profile, err := pl.Target.Admin.Profile(ctx)
	var unfit *sink.ProfileError
	absent := errors.As(err, &unfit) && unfit.Problem == sink.MissingProfile && name != "default"
	if err != nil && !absent {
		return "", preflight.ExplainTarget("cannot use app profile "+name, err)
	}
	clusters, note, clustersErr := pl.Target.Admin.Clusters(ctx)
	switch {
	case absent && clustersErr != nil:
		return "", preflight.ExplainTarget("neither app profile "+name+" nor the clusters of instance "+pl.Cfg.Target.Instance+" can be found", clustersErr)
	case absent:
		return pl.planProfile(clusters, note, err)
	}
	pl.routed = profile.Cluster
	if i := slices.IndexFunc(clusters, func(c sink.Cluster) bool { return c.Name == profile.Cluster }); i >= 0 {
		pl.cluster = cost.Cluster{Nodes: max(clusters[i].Nodes, clusters[i].MaxNodes), HDD: clusters[i].HDD}
	}
	if profile.Note != "" {
		return "", preflight.Untold(profile.Note)
	}
	return "single cluster " + profile.Cluster + ", single-row transactions", nil
}

// planProfile decides about a profile that does not exist: only in an instance of one cluster is there no choice to make.
func (pl *planner) planProfile(clusters []sink.Cluster, note string, err error) (string, error) {
	name := pl.Cfg.Target.AppProfile
	if len(clusters) != 1 {
		e := preflight.ExplainTarget("app profile "+name+" does not exist", err)
		var known *diag.Error
		if errors.As(e, &known) && note != "" {
			known.Cause = "it was not found, and the clusters are unknown: " + note
		} else if known != nil && len(clusters) > 1 {
			var names []string
			for _, c := range clusters {
				names = append(names, c.Name)
			}
			known.Fix = fmt.Sprintf("choose one of the clusters %s: gcloud bigtable app-profiles create %s --instance=%s --route-to=CLUSTER --transactional-writes",
				strings.Join(names, ", "), name, pl.Cfg.Target.Instance)
		}
		return "", e
	}
	pl.profile = clusters[0].Name
	pl.cluster = cost.Cluster{Nodes: max(clusters[0].Nodes, clusters[0].MaxNodes), HDD: clusters[0].HDD}
	pl.report.Create = append(pl.report.Create, creation{Kind: "app_profile", Name: name, Cluster: pl.profile})
	return "does not exist; it would be created", nil
}

// examinePermissions asks what the identity may do on the instance, and holds that against what a run of this configuration
// does; what only --apply needs is no matter of a run.
func (pl *planner) examinePermissions(ctx context.Context) (string, error) {
	role := policy.GoogleWorker(pl.Cfg)
	if pl.flags.apply {
		role = policy.GooglePlanner(pl.Cfg)
	}
	has, note, err := pl.Target.Admin.Permissions(ctx, role.IncludedPermissions)
	if err != nil {
		return "", preflight.ExplainTarget("cannot read the permissions on "+preflight.TargetName(pl.Cfg), err)
	}
	if note != "" {
		return "", preflight.Untold("unknown: " + note)
	}
	lacks := role.Lacking(has)
	if len(lacks) == 1 && lacks[0] == policy.FencePermission && !pl.Cfg.Target.CreateMissing && !pl.flags.apply {
		pl.iam().GCP = lacks
		pl.warn(&diag.Error{Code: diag.FenceWithheld, What: "fence: withheld: late writes to " + preflight.TargetName(pl.Cfg) + " would not be refused",
			Cause: "the permission " + policy.FencePermission + " is missing"})
		return fmt.Sprintf("all but %s are granted", policy.FencePermission), nil
	}
	if len(lacks) > 0 {
		pl.iam().GCP = lacks
		return "", &diag.Error{Code: diag.TargetDenied, What: "permissions are missing on " + preflight.TargetName(pl.Cfg), Cause: strings.Join(lacks, ", "),
			Fix: "grant the role that `replicator plan --print-iam gcp` prints"}
	}
	return fmt.Sprintf("all %d are granted", len(role.IncludedPermissions)), nil
}

// examineTables finds what is missing of the target's tables.
func (pl *planner) examineTables(ctx context.Context, all preflight.Samples) {
	for _, spec := range preflight.Specs(pl.Cfg) {
		name := "target table " + spec.Name
		if spec.Name == pl.Cfg.State.Table {
			name = "state table " + spec.Name
		}
		pl.Ask(ctx, 2*preflight.ProbeTime, name, func(ctx context.Context) (string, error) {
			lacks, err := pl.Target.Admin.Lacks(ctx, spec)
			if err != nil {
				return "", preflight.ExplainTarget(name+" is not as it must be", err)
			}
			if lacks.Table {
				spec.SplitKeys = all.Splits(spec.Name)
			} else if err := pl.checkView(ctx, spec, lacks); err != nil {
				return "", err
			}
			text := pl.addMissing(spec, lacks)
			if lacks.Protected && spec.Name != pl.Cfg.State.Table {
				pl.warn(&diag.Error{Code: diag.FenceWithheld, What: "fence: withheld: late writes to table " + spec.Name + " would not be refused",
					Cause: "the table is protected against deletion, and its families with it"})
			}
			for _, family := range lacks.Ageing {
				pl.warn(preflight.ExplainAgeing(family))
				text += "; " + preflight.AgeingText(family)
			}
			if lacks.NoViews {
				text += "; no view " + spec.View + ": the service does not know authorized views (an emulator?)"
			}
			if !lacks.Table && spec.Name == pl.Cfg.State.Table && pl.profile == "" {
				if err := pl.examineLedger(ctx); err != nil {
					return "", err
				}
			}
			return text, nil
		})
	}
}

// examineLedger warns of what a ledger that exists already makes of this configuration.
func (pl *planner) examineLedger(ctx context.Context) error {
	l, err := status.Read(ctx, pl.Cfg, pl.Target, "")
	if err != nil {
		return err
	}
	if l.Begun && pl.routed != "" {
		if err := pl.examineCluster(ctx, l.Ledger); err != nil {
			return err
		}
	}
	for i, t := range l.Tables {
		if why := withheld(l.Inputs[i].Targets); why != "" {
			pl.warn(&diag.Error{Code: diag.FenceWithheld, What: "fence: withheld: late writes of table " + t.From + " are not refused", Cause: why})
		}
		switch in := l.Inputs[i]; {
		case l.MappingDiffers(i):
			pl.warn(&diag.Error{Code: diag.MappingChanged, What: "run refuses table " + t.From + ": " + status.DifferentMapping,
				Cause: "rows that the former mapping wrote stay as they are until everything is loaded again and the rest is swept, which this version does not do"})
		case pipeline.CheckSource(pl.sources[t.From], in.State.StreamARN) != nil:
			pl.warn(&diag.Error{Code: diag.SourceMoved, What: "run refuses table " + t.From,
				Cause: pipeline.CheckSource(pl.sources[t.From], in.State.StreamARN).Error()})
		case in.State.NeedsLoad:
			pl.warn(&diag.Error{Code: diag.NeedsLoad, What: "table " + t.From + " needs a load", Cause: status.OrDash(status.Known(in.State.Reason))})
		}
	}
	return nil
}

// withheld is why one of the targets has no fence; "" if all have.
func withheld(targets []checkpoint.Target) string {
	for _, t := range targets {
		if t.Withheld != "" {
			return t.Withheld
		}
	}
	return ""
}

// examineCluster warns if the app profile leads to another cluster than the ledger was kept in (H46).
func (pl *planner) examineCluster(ctx context.Context, ledger *checkpoint.Ledger) error {
	kept, err := ledger.Cluster(ctx)
	if err != nil {
		return preflight.ReadingFailed(ctx, "cannot read the ledger in table "+pl.Cfg.State.Table, err)
	}
	if kept != "" && kept != pl.routed {
		pl.warn(&diag.Error{Code: diag.ClusterChanged, What: fmt.Sprintf("run refuses to write: app profile %s routes to cluster %s", pl.Cfg.Target.AppProfile, pl.routed),
			Cause: "the ledger was kept in cluster " + kept + "; rows that were written there may be missing in the other one"})
	}
	return nil
}

// addMissing turns what a table lacks into creations.
func (pl *planner) addMissing(spec sink.TableSpec, l sink.Lacks) string {
	families := func(specs []sink.FamilySpec) (out []planFamily) {
		for _, f := range specs {
			out = append(out, planFamily{f.Name, f.Rule()})
		}
		return out
	}
	switch {
	case l.Table:
		c := creation{Kind: "table", Name: spec.Name, Families: families(spec.Families)}
		if l.View {
			c.View, c.Shows = spec.View, spec.MappedFamilies()
		}
		for _, key := range spec.SplitKeys {
			c.SplitKeys = append(c.SplitKeys, shownKey(key))
		}
		pl.report.Create = append(pl.report.Create, c)
	case len(l.Families) == 0 && !l.View && len(l.Ageing) > 0:
		return "there"
	case len(l.Families) == 0 && !l.View:
		return "there, as it should be"
	default:
		for _, f := range families(l.Families) {
			pl.report.Create = append(pl.report.Create, creation{Kind: "family", Name: spec.Name + ":" + f.Name, Families: []planFamily{f}})
		}
		if l.View {
			pl.report.Create = append(pl.report.Create, creation{Kind: "view", Name: spec.Name + ":" + spec.View, Shows: spec.MappedFamilies()})
		}
	}
	pl.missing = append(pl.missing, preflight.Lacking{Spec: spec, Lacks: l})
	if l.Table {
		return "does not exist; it would be created"
	}
	return "incomplete; what is missing would be created"
}

// checkView warns if a view that exists shows something else than the mapping writes.
func (pl *planner) checkView(ctx context.Context, spec sink.TableSpec, l sink.Lacks) error {
	if spec.View == "" || l.View || l.NoViews {
		return nil
	}
	view, err := pl.Target.Admin.View(ctx, spec.Name, spec.View)
	if err != nil {
		return preflight.ExplainTarget("cannot look at view "+spec.View+" of table "+spec.Name, err)
	}
	if want := slices.Sorted(slices.Values(spec.MappedFamilies())); !slices.Equal(want, view.Families) {
		pl.warn(&diag.Error{Code: diag.ViewDiffers, What: fmt.Sprintf("view %s of table %s shows other families than the mapping writes", spec.View, spec.Name),
			Cause: fmt.Sprintf("it shows %s; the mapping writes %s", strings.Join(view.Families, ", "), strings.Join(want, ", "))})
	}
	return nil
}
