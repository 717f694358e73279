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
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/cost"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/pipeline"
	"github.com/dynamodb-bigtable/replicator/internal/policy"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// sampleTime bounds the sample of one table, which is a hundred small requests.
const sampleTime = 30 * time.Second

// pollOfRun is how often a run asks a quiet shard (pipeline.Timing).
const pollOfRun = time.Second

// planner compares the configuration with both ends and collects what it finds.
type planner struct {
	*prober
	program *program
	flags   planFlags
	prices  cost.Prices
	report  planReport

	cluster cost.Cluster
	sources map[string]backfill.Description // of the tables that are there
	tables  int                             // that share the copy's limits
	missing []lacking                       // in the order of the creations
	copies  []cost.Copy
	profile string // the cluster of the app profile that would be created; "" if it exists or cannot be told
	routed  string // the cluster that the app profile leads to; "" if it does not exist or cannot be told
}

// lacking is a target table of which something is missing, with what its creation needs.
type lacking struct {
	spec  sink.TableSpec
	lacks sink.Lacks
}

func newPlanner(p *program, cfg *config.Config, s *source, prices cost.Prices, f planFlags) *planner {
	out := p.stdout
	if p.asJSON() {
		out = io.Discard
	}
	pl := &planner{program: p, flags: f, prices: prices, sources: map[string]backfill.Description{}, prober: &prober{out: out, colored: p.colored(p.stdout), cfg: cfg, source: s, inFull: true}}
	ends := newMigration(cfg, p.env, time.Now())
	pl.report = planReport{Schema: "replicator.plan/v1", Name: cfg.Name, At: ends.At, Source: s.region, Target: targetID(cfg), Emulator: ends.Emulator,
		Create: []creation{}, Created: []string{}, Tables: []planTable{}, Warnings: config.Lint(cfg),
		Prices: planPrices{true, prices.Date, prices.Currency, prices.Regions, prices.Prices, prices.Rates}}
	_, _ = fmt.Fprintf(out, "%s: %s\n\n", cfg.Name, bothEnds(cfg, s.region, p.env))
	return pl
}

func targetID(cfg *config.Config) string { return cfg.Target.Project + "/" + cfg.Target.Instance }

func (pl *planner) close() {
	if pl.target != nil {
		_ = pl.target.Close() // everything was told by then
	}
}

// examine asks everything that can be asked: the target first, whose nodes bound the copy, but its tables last, which are split
// by what the source's sample shows.
func (pl *planner) examine(ctx context.Context) {
	reached := pl.examineInstance(ctx)
	found := samples{}
	if pl.ask(ctx, probeTime, "AWS credentials", pl.credentials) {
		tables, _ := pl.find(ctx)
		pl.tables = max(1, len(tables))
		for _, t := range tables {
			pl.examineSource(ctx, t, found)
		}
	}
	if reached {
		pl.examineTables(ctx, found)
	}
	if pl.denied(diag.SourceDenied) {
		p := policy.AWS(pl.cfg, pl.source.region)
		pl.iam().AWS = &p
	}
}

func (pl *planner) denied(code string) bool {
	return slices.ContainsFunc(pl.told, func(a answer) bool { return a.Error != nil && a.Error.Code == code })
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
	if pl.target, err = connectTarget(context.WithoutCancel(ctx), pl.cfg); err != nil {
		return pl.ask(ctx, probeTime, targetName(pl.cfg), func(context.Context) (string, error) { return "", err })
	}
	if !pl.ask(ctx, probeTime, targetName(pl.cfg), pl.examineEndpoint) {
		return false
	}
	pl.ask(ctx, 2*probeTime, "app profile "+pl.cfg.Target.AppProfile, pl.examineProfile)
	pl.ask(ctx, probeTime, "permissions on the instance", pl.examinePermissions)
	return true
}

// examineEndpoint is a ping, which says at once why the service cannot be reached, where other calls repeat until their time is
// up. It is sent through the app profile, so that not found may mean that one: what follows tells.
func (pl *planner) examineEndpoint(ctx context.Context) (string, error) {
	err := pl.target.ping(ctx, pl.cfg)
	if diag.Has(err, diag.TargetNotFound) {
		err = nil
	}
	return "answers", err
}

// examineProfile judges the app profile, or says how it would be created; and it learns of the cluster that it leads to.
func (pl *planner) examineProfile(ctx context.Context) (string, error) {
	name := pl.cfg.Target.AppProfile
	profile, err := pl.target.admin.Profile(ctx)
	var unfit *sink.ProfileError
	absent := errors.As(err, &unfit) && unfit.Problem == sink.MissingProfile && name != "default"
	if err != nil && !absent {
		return "", explainTarget("cannot use app profile "+name, err)
	}
	clusters, note, clustersErr := pl.target.admin.Clusters(ctx)
	switch {
	case absent && clustersErr != nil:
		return "", explainTarget("neither app profile "+name+" nor the clusters of instance "+pl.cfg.Target.Instance+" can be found", clustersErr)
	case absent:
		return pl.planProfile(clusters, note, err)
	}
	pl.routed = profile.Cluster
	if i := slices.IndexFunc(clusters, func(c sink.Cluster) bool { return c.Name == profile.Cluster }); i >= 0 {
		pl.cluster = cost.Cluster{Nodes: max(clusters[i].Nodes, clusters[i].MaxNodes), HDD: clusters[i].HDD}
	}
	if profile.Note != "" {
		return "", untold(profile.Note)
	}
	return "single cluster " + profile.Cluster + ", single-row transactions", nil
}

// planProfile decides about a profile that does not exist: only in an instance of one cluster is there no choice to make.
func (pl *planner) planProfile(clusters []sink.Cluster, note string, err error) (string, error) {
	name := pl.cfg.Target.AppProfile
	if len(clusters) != 1 {
		e := explainTarget("app profile "+name+" does not exist", err)
		var known *diag.Error
		if errors.As(e, &known) && note != "" {
			known.Cause = "it is not found, and the clusters cannot be told: " + note
		} else if known != nil && len(clusters) > 1 {
			var names []string
			for _, c := range clusters {
				names = append(names, c.Name)
			}
			known.Fix = fmt.Sprintf("choose one of the clusters %s: gcloud bigtable app-profiles create %s --instance=%s --route-to=CLUSTER --transactional-writes",
				strings.Join(names, ", "), name, pl.cfg.Target.Instance)
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
	role := policy.GoogleWorker(pl.cfg)
	if pl.flags.apply {
		role = policy.GooglePlanner(pl.cfg)
	}
	has, note, err := pl.target.admin.Permissions(ctx, role.IncludedPermissions)
	if err != nil {
		return "", explainTarget("cannot tell the permissions on "+targetName(pl.cfg), err)
	}
	if note != "" {
		return "", untold("cannot be told: " + note)
	}
	if lacks := role.Lacking(has); len(lacks) > 0 {
		pl.iam().GCP = lacks
		return "", &diag.Error{Code: diag.TargetDenied, What: "permissions are missing on " + targetName(pl.cfg), Cause: strings.Join(lacks, ", "),
			Fix: "grant the role that `replicator plan --print-iam gcp` prints"}
	}
	return fmt.Sprintf("all %d are granted", len(role.IncludedPermissions)), nil
}

// examineSource looks at a source table, its stream, and a sample of its items.
func (pl *planner) examineSource(ctx context.Context, t config.Table, all samples) {
	found, ok := pl.describe(ctx, t)
	if !ok {
		return
	}
	pl.sources[t.From] = found.description
	out := planTable{Source: t.From, Target: t.TargetNames(), Items: found.description.Items, Bytes: found.description.Bytes,
		Billing: found.description.BillingMode, RowKeys: []string{}, Unmappable: map[string]int{}, Unmapped: []string{}}
	if pl.ask(ctx, probeTime, "stream of "+t.From, func(ctx context.Context) (string, error) { return pl.stream(ctx, found) }) {
		pl.ask(ctx, probeTime, "records of "+t.From, func(ctx context.Context) (string, error) {
			return pl.examineRecords(ctx, found, &out)
		})
		pl.warnReaders(found)
	}
	if e := explainExpiry(found); e != nil {
		pl.warn(e)
	}
	if t.ExpiresByGC() {
		pl.ask(ctx, probeTime, "time to live of "+t.From, func(ctx context.Context) (string, error) { return pl.expiry(ctx, t), nil })
	}
	for _, e := range t.Warnings(found.description.PrimaryKey) {
		if e.Code == diag.ItemsMove { // what needs the key schema; the rest was told before
			pl.warn(e)
		}
	}
	if pl.flags.sample > 0 {
		pl.ask(ctx, sampleTime, "items of "+t.From, func(ctx context.Context) (string, error) {
			s, err := sampleTable(ctx, pl.source.tables, found, pl.flags.sample)
			if err != nil {
				return "", explainSource("cannot read items of table "+t.From, t.From, err)
			}
			all.add(found, s)
			pl.addSample(&out, s)
			pl.tryKey(ctx, found, s.items)
			if rows, each := s.wide(found.description.Bytes); rows > 0 {
				pl.warn(&diag.Error{Code: diag.WideRows, What: fmt.Sprintf("table %s becomes few rows, of about %s each", t.From, cost.Size(each)),
					Cause: fmt.Sprintf("%s of a sample of %s share %s; Bigtable allows 256 MB in a row and recommends less than 100 MB", plural(s.sharing(), "item"),
						plural(len(s.items), "item"), plural(rows, "row"))})
			}
			if names := s.unmapped(found); len(names) > 0 {
				out.Unmapped = names
				pl.warn(&diag.Error{Code: diag.AttributesUnmapped, What: "attributes of table " + t.From + " reach no cell of the target",
					Cause: strings.Join(names, ", ")})
			}
			return fmt.Sprintf("%s sampled", plural(len(s.items), "item")), nil
		})
	}
	pl.estimate(&out, found)
	pl.report.Tables = append(pl.report.Tables, out)
}

// examineRecords lists the shards and reads a page of one, which takes the permissions that only a run would use.
func (pl *planner) examineRecords(ctx context.Context, t probedTable, out *planTable) (string, error) {
	what := "cannot read the stream of table " + t.config.From
	stream := pl.source.stream(t.description.StreamARN)
	listing, err := cdc.ListShards(ctx, stream, "")
	if err != nil {
		return "", explainSource(what, "", err)
	}
	open, shard := 0, ""
	for _, s := range listing.Shards {
		if shard == "" || !s.Closed {
			shard = s.ID
		}
		if !s.Closed {
			open++
		}
	}
	out.OpenShards = &open
	if shard == "" {
		return "no shard yet", nil
	}
	at, err := stream.Seek(ctx, shard, cdc.Position{})
	if err == nil {
		_, err = stream.Read(ctx, at)
	}
	if err != nil {
		return "", explainSource(what, "", err)
	}
	return fmt.Sprintf("readable; %s", plural(open, "open shard")), nil
}

func (pl *planner) warnReaders(t probedTable) {
	cause := "DynamoDB does not tell who else reads it; Lambda triggers are listed by: aws lambda list-event-source-mappings --event-source-arn " + t.description.StreamARN
	if len(t.description.Replicas) > 0 {
		cause = "the table is a global table with replicas in " + strings.Join(t.description.Replicas, ", ") + "; " + cause
	}
	pl.warn(&diag.Error{Code: diag.StreamReaders, What: "a shard of the stream of table " + t.config.From + " serves two readers, and a run is one of them", Cause: cause})
}

// expiry compares what the source's items expire by with what their cells do. No run asks that, so that a plan which may not is none the worse.
func (pl *planner) expiry(ctx context.Context, t config.Table) string {
	attribute, err := pl.source.expiry.Attribute(ctx, t.From)
	switch {
	case err != nil:
		return "cannot be told"
	case attribute == t.TTL.Attribute:
		return attribute
	}
	e := &diag.Error{Code: diag.ExpiryDiffers, What: fmt.Sprintf("cells of table %s expire by %s, and its items do not", t.From, t.TTL.Attribute),
		Cause: "the table's time to live is off", Fix: "turn it on for this attribute, or leave ttl out"}
	told := "off"
	if attribute != "" {
		told = attribute
		e.Cause, e.Fix = "the table's time to live looks at "+attribute, "write attribute: "+attribute
	}
	pl.warn(e)
	return told
}

// shownKeys is how many row keys plan shows of each table.
const shownKeys = 10

func (pl *planner) addSample(out *planTable, s sampled) {
	out.Sampled, out.Unmappable = len(s.items), s.unmappable
	// Spread over the sample, which is in the order of segments.
	for table, rows := range s.rows {
		of := ""
		if len(s.rows) > 1 {
			of = table + ": "
		}
		for i := range min(shownKeys, len(rows)) {
			out.RowKeys = append(out.RowKeys, of+shownKey(rows[i*len(rows)/min(shownKeys, len(rows))]))
		}
	}
	slices.Sort(out.RowKeys)
	if n := total64(s.unmappable); n > 0 {
		var reasons []string
		for reason, count := range s.unmappable {
			reasons = append(reasons, fmt.Sprintf("%d: %s", count, reason))
		}
		slices.Sort(reasons)
		pl.warn(&diag.Error{Code: diag.SampleUnmappable, Cause: strings.Join(reasons, "\n"),
			What: fmt.Sprintf("%s of %d sampled of table %s cannot be mapped", plural(n, "item"), len(s.items), out.Source)})
	}
}

func total64(counts map[string]int) int {
	n := 0
	for _, c := range counts {
		n += c
	}
	return n
}

// estimate adds time and cost.
func (pl *planner) estimate(out *planTable, t probedTable) {
	in := cost.Table{Items: t.description.Items, Bytes: t.description.Bytes, ReadCapacity: t.description.ReadCapacity,
		RowsPerSecond: float64(pl.cfg.Backfill.MaxRowsPerSecond) / float64(pl.tables), Share: 1 / float64(pl.tables)}
	if out.OpenShards != nil {
		in.OpenShards = *out.OpenShards
	}
	copying := pl.prices.Copying(in, pl.cluster)
	out.Copy = planCopy{copying.RowsPerSecond, copying.LimitedBy, copying.Time.Seconds()}
	pl.copies = append(pl.copies, copying)
	out.Cost = pl.prices.Estimate(in, pl.cluster, pollOfRun)
	if copying.TooSlow() {
		pl.warn(&diag.Error{Code: diag.SlowCopy, What: fmt.Sprintf("the copy of table %s would take about %s", out.Source, backfill.FormatDuration(copying.Time)),
			Cause: fmt.Sprintf("about %.0f rows a second, limited by %s; the stream keeps changes for 24 hours", copying.RowsPerSecond, copying.LimitedBy)})
	}
}

// examineTables finds what is missing of the target's tables.
func (pl *planner) examineTables(ctx context.Context, all samples) {
	for _, spec := range specs(pl.cfg) {
		name := "target table " + spec.Name
		if spec.Name == pl.cfg.State.Table {
			name = "state table " + spec.Name
		}
		pl.ask(ctx, 2*probeTime, name, func(ctx context.Context) (string, error) {
			lacks, err := pl.target.admin.Lacks(ctx, spec)
			if err != nil {
				return "", explainTarget(name+" is not as it must be", err)
			}
			if lacks.Table {
				spec.SplitKeys = all.splits(spec.Name)
			} else if err := pl.checkView(ctx, spec, lacks); err != nil {
				return "", err
			}
			text := pl.addMissing(spec, lacks)
			for _, family := range lacks.Ageing {
				pl.warn(explainAgeing(family))
				text += "; " + ageingText(family)
			}
			if lacks.NoViews {
				text += "; no view " + spec.View + ": the service does not know authorized views (an emulator?)"
			}
			if !lacks.Table && spec.Name == pl.cfg.State.Table && pl.profile == "" {
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
	l, err := readLedger(ctx, pl.cfg, pl.target, "")
	if err != nil {
		return err
	}
	if l.begun && pl.routed != "" {
		if err := pl.examineCluster(ctx); err != nil {
			return err
		}
	}
	for i, t := range l.tables {
		switch in := l.inputs[i]; {
		case l.mappingDiffers(i):
			pl.warn(&diag.Error{Code: diag.MappingChanged, What: "run refuses table " + t.From + ": " + differentMapping,
				Cause: "rows that the former mapping wrote stay as they are until everything is loaded again and the rest is swept, which this version does not do"})
		case pipeline.CheckSource(pl.sources[t.From], in.state.StreamARN) != nil:
			pl.warn(&diag.Error{Code: diag.SourceMoved, What: "run refuses table " + t.From,
				Cause: pipeline.CheckSource(pl.sources[t.From], in.state.StreamARN).Error()})
		case in.state.NeedsLoad:
			pl.warn(&diag.Error{Code: diag.NeedsLoad, What: "table " + t.From + " needs a load", Cause: orDash(known(in.state.Reason))})
		}
	}
	return nil
}

// tryKey reads one of the items by its key, as `parked retry` does: a run does not, and would not tell that it may not.
func (pl *planner) tryKey(ctx context.Context, t probedTable, items []cdc.Item) {
	if len(items) == 0 {
		return
	}
	_, _, err := pl.source.tables.Get(ctx, t.config.From, t.mapping.Keys(items[0]))
	var e *diag.Error
	if err != nil && errors.As(explainSource("cannot read an item of table "+t.config.From+" by its key", t.config.From, err), &e) {
		pl.warn(e)
	}
}

// examineCluster warns if the app profile leads to another cluster than the ledger was kept in (H46).
func (pl *planner) examineCluster(ctx context.Context) error {
	what := "cannot read the ledger in table " + pl.cfg.State.Table
	ledger, err := checkpoint.Open(ctx, ledgerStore(pl.target, pl.cfg), pl.cfg.Name, checkpoint.Options{ReadOnly: true, Lease: pl.cfg.State.Lease})
	if err != nil {
		return readingFailed(ctx, what, err)
	}
	kept, err := ledger.Cluster(ctx)
	if err != nil {
		return readingFailed(ctx, what, err)
	}
	if kept != "" && kept != pl.routed {
		pl.warn(&diag.Error{Code: diag.ClusterChanged, What: fmt.Sprintf("run refuses to write: app profile %s routes to cluster %s", pl.cfg.Target.AppProfile, pl.routed),
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
	pl.missing = append(pl.missing, lacking{spec, l})
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
	view, err := pl.target.admin.View(ctx, spec.Name, spec.View)
	if err != nil {
		return explainTarget("cannot look at view "+spec.View+" of table "+spec.Name, err)
	}
	if want := slices.Sorted(slices.Values(spec.MappedFamilies())); !slices.Equal(want, view.Families) {
		pl.warn(&diag.Error{Code: diag.ViewDiffers, What: fmt.Sprintf("view %s of table %s shows other families than the mapping writes", spec.View, spec.Name),
			Cause: fmt.Sprintf("it shows %s; the mapping writes %s", strings.Join(view.Families, ", "), strings.Join(want, ", "))})
	}
	return nil
}
