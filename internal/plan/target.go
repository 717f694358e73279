package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/cost"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/policy"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/status"
	"github.com/dynamodb-bigtable/replicator/internal/targetload"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/internal/timespan"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// examineInstance checks the target except for its tables; it returns false if the target cannot be
// reached.
func (in *Input) examineInstance(ctx context.Context) bool {
	if !in.Ask(ctx, preflight.ProbeTime, preflight.TargetName(in.Cfg), in.examineEndpoint) {
		return false
	}
	in.Ask(ctx, 2*preflight.ProbeTime, "app profile "+in.Cfg.Target.AppProfile, in.examineProfile)
	in.Ask(ctx, preflight.ProbeTime, "permissions on the instance", in.examinePermissions)
	if in.Cfg.Backfill.PauseAboveTargetCPU != "" {
		in.Ask(ctx, preflight.ProbeTime, "load of the target", in.examineLoad)
	}
	return true
}

// cutOver reports whether the tables are cut over, and records that as the only failure. Then plan
// must create nothing. The target belongs to the application, and finalize may have removed the
// resources that a run needs.
func (in *Input) cutOver(ctx context.Context) bool {
	limited, cancel := task.WithTimeout(ctx, preflight.ProbeTime)
	defer cancel()
	store := in.to.Ledger(in.Cfg.State.Table)
	ledger, err := checkpoint.Open(limited, store, in.Cfg.Name, checkpoint.Options{ReadOnly: true, Lease: in.Cfg.State.Lease})
	if err != nil {
		return false // the next check reports the error
	}
	all, err := ledger.Cutovers(limited)
	in.cutovers = all
	left := preflight.LeftOf(in.Cfg, all)
	c := left.All()
	if err != nil || c == nil {
		in.Cfg = left.Rest(in.Cfg)
		return false
	}
	in.left, in.create, in.lacks, in.Failed = true, nil, nil, nil
	in.Ask(ctx, preflight.ProbeTime, "ledger of "+in.Cfg.Name, func(context.Context) (string, error) { return "", in.CutOver(c) })
	return true
}

// examineLoad reads the CPU load of the target's clusters, as loads do. If the CPU load cannot be
// read, a load does not slow down on a busy target. The operator should know that before the first
// load.
func (in *Input) examineLoad(ctx context.Context) (string, error) {
	emulator, _ := in.env("BIGTABLE_EMULATOR_HOST")
	monitor := targetload.Monitor{Project: in.Cfg.Target.Project, Instance: in.Cfg.Target.Instance, Emulator: emulator}
	r := monitor.Read(ctx, in.at)
	if !r.Known {
		return "", preflight.Untold(r.String() + "; loads do not wait for it")
	}
	return fmt.Sprintf("%s; loads wait above %s", r, in.Cfg.Backfill.PauseAboveTargetCPU), nil
}

// examineEndpoint sends a ping. If the service cannot be reached, the ping fails immediately with
// the reason. Other calls would retry until their timeout. The ping uses the app profile, so "not
// found" may refer to the profile. If the answer does not name the instance, later checks decide.
func (in *Input) examineEndpoint(ctx context.Context) (_ string, err error) {
	if in.Target, err = preflight.Reach(ctx, in.Cfg); in.Target != nil {
		in.to = toOf(in.Target)
	}
	if in.Target != nil && diag.Has(err, diag.TargetNotFound) && !sink.NoInstance(err) {
		in.notFound, err = err, nil
	}
	return "answers", err
}

// examineProfile checks the app profile, or describes how it would be created. It records the
// cluster to which the profile routes.
func (in *Input) examineProfile(ctx context.Context) (string, error) {
	name := in.Cfg.Target.AppProfile
	profile, err := in.to.Profile(ctx)
	var unfit *sink.ProfileError
	absent := errors.As(err, &unfit) && unfit.Problem == sink.MissingProfile && name != "default"
	if err != nil && !absent {
		return "", preflight.ExplainTarget("cannot use app profile "+name, err)
	}
	var note string
	clusters, clustersErr := preflight.AskTarget(ctx, func(ctx context.Context) (clusters []sink.Cluster, err error) {
		clusters, note, err = in.to.Clusters(ctx)
		return clusters, err
	})
	switch {
	case absent && clustersErr != nil:
		return "", preflight.ExplainTarget("neither app profile "+name+" nor the clusters of instance "+in.Cfg.Target.Instance+" can be found", clustersErr)
	case absent:
		return in.planProfile(clusters, note, err)
	}
	// No other check would report that the profile was not found.
	if profile.Note != "" && in.notFound != nil {
		return "", in.notFound
	}
	in.routed = profile.Cluster
	if i := slices.IndexFunc(clusters, func(c sink.Cluster) bool { return c.Name == profile.Cluster }); i >= 0 {
		in.cluster = cost.Cluster{Nodes: max(clusters[i].Nodes, clusters[i].MaxNodes), HDD: clusters[i].HDD}
	}
	if profile.Note != "" {
		return "", preflight.Untold(profile.Note)
	}
	return "single cluster " + profile.Cluster + ", single-row transactions", nil
}

// planProfile plans the creation of a missing app profile. That is possible only in an instance
// with one cluster. Otherwise the operator must choose a cluster.
func (in *Input) planProfile(clusters []sink.Cluster, note string, err error) (string, error) {
	name := in.Cfg.Target.AppProfile
	if len(clusters) != 1 {
		e := preflight.ExplainTarget("app profile "+name+" does not exist", err)
		var known *diag.Error
		if errors.As(e, &known) && note != "" {
			known.Cause = "it does not exist, and the clusters cannot be listed: " + note
		} else if known != nil && len(clusters) > 1 {
			var names []string
			for _, c := range clusters {
				names = append(names, c.Name)
			}
			known.Fix = fmt.Sprintf("choose one of the clusters %s: gcloud bigtable app-profiles create %s --instance=%s --route-to=CLUSTER --transactional-writes",
				strings.Join(names, ", "), name, in.Cfg.Target.Instance)
		}
		return "", e
	}
	in.profile = clusters[0].Name
	in.cluster = cost.Cluster{Nodes: max(clusters[0].Nodes, clusters[0].MaxNodes), HDD: clusters[0].HDD}
	in.create = append(in.create, Creation{Kind: "app_profile", Name: name, Cluster: in.profile})
	return "does not exist; would be created", nil
}

// examinePermissions compares the identity's permissions on the instance with those that a run of
// this configuration needs. It ignores permissions that only --apply needs.
func (in *Input) examinePermissions(ctx context.Context) (string, error) {
	role := policy.GoogleWorker(in.Cfg)
	if in.question.Apply {
		role = policy.GooglePlanner(in.Cfg)
	}
	has, note, err := in.to.Permissions(ctx, role.IncludedPermissions)
	if err != nil {
		return "", preflight.ExplainTarget("cannot read the permissions on "+preflight.TargetName(in.Cfg), err)
	}
	if note != "" {
		return "", preflight.Untold("unknown: " + note)
	}
	lacks := role.Lacking(has)
	if len(lacks) == 1 && lacks[0] == policy.FencePermission && !in.Cfg.Target.CreateMissing && !in.question.Apply {
		in.lacks = lacks
		warn(&in.targets, withholds(preflight.TargetName(in.Cfg), "the permission "+policy.FencePermission+" is missing"))
		return "all but " + policy.FencePermission + " are granted", nil
	}
	if len(lacks) > 0 {
		in.lacks = lacks
		return "", &diag.Error{Code: diag.TargetDenied, What: "permissions are missing on " + preflight.TargetName(in.Cfg), Cause: strings.Join(lacks, ", "),
			Fix: "grant the role that `replicator plan --print-iam gcp` prints"}
	}
	return fmt.Sprintf("all %d are granted", len(role.IncludedPermissions)), nil
}

// examineTables finds the missing parts of the target's tables.
func (in *Input) examineTables(ctx context.Context, all preflight.Samples) {
	for _, spec := range preflight.Specs(in.Cfg) {
		name := "target table " + spec.Name
		if spec.Name == in.Cfg.State.Table {
			name = "state table " + spec.Name
		}
		in.Ask(ctx, 2*preflight.ProbeTime, name, func(ctx context.Context) (string, error) {
			lacks, err := in.to.Lacks(ctx, spec)
			if err != nil {
				return "", preflight.ExplainTarget(name+" has an unexpected schema", err)
			}
			if lacks.Table {
				spec.SplitKeys = all.Splits(spec.Name, in.cluster.Nodes)
			} else if err := in.checkView(ctx, spec, lacks); err != nil {
				return "", err
			}
			text := in.addMissing(spec, lacks)
			if lacks.Protected && spec.Name != in.Cfg.State.Table {
				const why = "the table and its families are protected against deletion"
				in.forbid(spec.Name, "table "+spec.Name+" has no fence: "+why)
				warn(&in.targets, withholds("table "+spec.Name, why))
			}
			if lacks.Tiered && spec.Name != in.Cfg.State.Table {
				warn(&in.targets, &diag.Error{Code: diag.TieredTable, What: name + " has tiered storage", Cause: "the condition of each guarded write reads cells at timestamp 0, which are in the slow tier",
					Fix: "remove the rule while replicator runs: gcloud beta bigtable tables update " + spec.Name + " --instance=" + in.Cfg.Target.Instance + " --clear-tiered-storage-config"})
			}
			for _, family := range lacks.Ageing {
				in.forbid(spec.Name, "family "+family.Family+" of table "+spec.Name+" collects cells by age")
				warn(&in.targets, preflight.ExplainAgeing(family))
				text += "; " + preflight.AgeingText(family)
			}
			if lacks.NoViews {
				text += "; no view " + spec.View + ": the service has no authorized views (an emulator?)"
			}
			if !lacks.Table && spec.Name == in.Cfg.State.Table && in.profile == "" {
				if err := in.examineLedger(ctx); err != nil {
					return "", err
				}
			}
			return text, nil
		})
	}
}

// examineRows warns of target tables with rows, for which a run needs the operator's consent.
func (in *Input) examineRows(ctx context.Context) {
	if len(in.Failed) > 0 {
		return // some tables or the ledger may be unknown, so rows cannot be checked
	}
	var tables []preflight.Table
	for _, s := range in.sources {
		tables = append(tables, s.found)
	}
	limited, cancel := task.WithTimeout(ctx, preflight.ProbeTime*time.Duration(len(tables)+1))
	defer cancel()
	absent := func(target string) bool {
		return slices.ContainsFunc(in.missing, func(m preflight.Lacking) bool { return m.Lacks.Table && m.Spec.Name == target })
	}
	taken, err := in.Taken(limited, tables, absent)
	var held []*engine.RowsError
	if err == nil {
		held, err = in.Unanswered(limited, tables, absent)
	}
	if err != nil {
		in.Ask(ctx, preflight.ProbeTime, "rows of the target", func(context.Context) (string, error) { return "", err })
	}
	for _, t := range taken {
		warn(&in.targets, takenWarning(t))
	}
	held = slices.DeleteFunc(held, func(e *engine.RowsError) bool { return preflight.IsTaken(taken, e.Table) })
	for _, rows := range held {
		in.forbid(rows.Target, "target table "+rows.Target+" holds rows")
		warn(&in.targets, &diag.Error{Code: diag.TargetHoldsRows, What: "run will refuse table " + rows.Table + ": target table " + rows.Target + " holds rows", Cause: rows.Error()})
	}
}

// takenWarning returns the warning about another migration that writes a target table.
func takenWarning(t preflight.Taken) *diag.Error {
	e := &diag.Error{Code: diag.TargetTaken}
	_ = errors.As(preflight.StrangerError(t.StrangerError), &e)
	if e.Err = t; t.Begun {
		e.What = "no orphan rows are removed for table " + t.Table + ": " + e.What
	} else {
		e.What = "run will refuse table " + t.Table + ": " + e.What
	}
	return e
}

// examineLedger warns of conflicts between an existing ledger and this configuration.
func (in *Input) examineLedger(ctx context.Context) error {
	l, err := status.Read(ctx, in.Cfg, in.to, "")
	if err != nil {
		return err
	}
	if l.Begun && in.routed != "" {
		if err := in.examineCluster(ctx, l.Ledger); err != nil {
			return err
		}
	}
	if l.Begun {
		states, err := l.Ledger.Tables(ctx)
		if err != nil {
			return preflight.ReadingFailed(ctx, "cannot read the ledger in table "+in.Cfg.State.Table, err)
		}
		if e := preflight.ExplainShared(in.Cfg, states); e != nil {
			warn(&in.targets, e)
		}
	}
	for i, t := range l.Tables {
		if why := withheld(l.Inputs[i].Targets); why != "" {
			warn(&in.targets, &diag.Error{Code: diag.FenceWithheld, What: "fence unavailable: late writes of table " + t.From + " are not rejected", Cause: why})
		}
		for n := range in.sources {
			if s := &in.sources[n]; s.Source == t.From {
				in.judgeExport(s, l.Inputs[i].State, l.Inputs[i].Shards)
				if state := l.Inputs[i].State; state.Generation > 0 {
					s.guarded = state.RefusesFast()
				}
			}
		}
		switch state := l.Inputs[i].State; {
		case l.MappingDiffers(i):
			warn(&in.targets, preflight.SuggestName(in.Cfg, &diag.Error{Code: diag.MappingChanged, What: "run refuses table " + t.From + ": " + status.DifferentMapping,
				Cause: "rows of the former mapping stay until everything is loaded again and the sweep is complete"}))
			for n := range in.sources {
				if s := &in.sources[n]; s.Source == t.From {
					s.MappingChange = changeOf(state, s.found.Mapping, s.items)
				}
			}
		case engine.CheckSource(in.described(t.From), state.StreamARN) != nil:
			warn(&in.targets, preflight.SuggestName(in.Cfg, &diag.Error{Code: diag.SourceMoved, What: "run refuses table " + t.From,
				Cause: engine.CheckSource(in.described(t.From), state.StreamARN).Error()}))
		case standing.Lost(state):
			warn(&in.targets, &diag.Error{Code: diag.NeedsLoad, What: "table " + t.From + " needs a load", Cause: status.OrDash(terminal.Known(state.Reason))})
		}
	}
	return nil
}

// withholds returns the warning that a run will work without a fence for a target table.
func withholds(target, why string) *diag.Error {
	return &diag.Error{Code: diag.FenceWithheld, What: "fence unavailable: late writes to " + target + " would not be rejected", Cause: why}
}

// withheld returns the reason why a target has no fence; "" if all targets have a fence.
func withheld(targets []checkpoint.Target) string {
	for _, t := range targets {
		if t.Withheld != "" {
			return t.Withheld
		}
	}
	return ""
}

// examineCluster warns if the app profile routes to another cluster than the ledger's (H46).
func (in *Input) examineCluster(ctx context.Context, ledger *checkpoint.Ledger) error {
	kept, err := ledger.Cluster(ctx)
	if err != nil {
		return preflight.ReadingFailed(ctx, "cannot read the ledger in table "+in.Cfg.State.Table, err)
	}
	if kept != "" && kept != in.routed {
		warn(&in.targets, &diag.Error{Code: diag.ClusterChanged, What: fmt.Sprintf("run refuses to write: app profile %s routes to cluster %s", in.Cfg.Target.AppProfile, in.routed),
			Cause: "the ledger was kept in cluster " + kept + "; rows written there may be missing in the other cluster"})
	}
	return nil
}

// forbid records why a target table does not allow a fast load.
func (in *Input) forbid(table, why string) {
	if in.unfit == nil {
		in.unfit = map[string]string{}
	}
	in.unfit[table] = cmp.Or(in.unfit[table], why)
}

// addMissing converts the missing parts of a table to creations.
func (in *Input) addMissing(spec sink.TableSpec, l sink.Lacks) string {
	families := func(specs []sink.FamilySpec) (out []Family) {
		for _, f := range specs {
			out = append(out, Family{f.Name, f.Rule()})
		}
		return out
	}
	if l.ChangeStream {
		in.create = append(in.create, Creation{Kind: "change_stream", Name: spec.Name, Kept: sink.ChangeStreamKept.Seconds()})
		in.streams = append(in.streams, spec.Name)
	}
	switch {
	case l.Table:
		c := Creation{Kind: "table", Name: spec.Name, Families: families(spec.Families)}
		if l.View {
			c.View, c.Shows = spec.View, spec.MappedFamilies()
		}
		if spec.ChangeStream {
			c.Kept = sink.ChangeStreamKept.Seconds()
		}
		for _, key := range spec.SplitKeys {
			c.SplitKeys = append(c.SplitKeys, diag.Printable(key))
		}
		in.create = append(in.create, c)
	case len(l.Families) == 0 && !l.View && l.ChangeStream:
		return "exists, but has no change stream that keeps records for " + timespan.Format(sink.LeastChangesKept) + "; it would be enabled"
	case len(l.Families) == 0 && !l.View && len(l.Ageing) > 0:
		return "there"
	case len(l.Families) == 0 && !l.View:
		return "exists, schema OK"
	default:
		for _, f := range families(l.Families) {
			in.create = append(in.create, Creation{Kind: "family", Name: spec.Name + ":" + f.Name, Families: []Family{f}})
		}
		if l.View {
			in.create = append(in.create, Creation{Kind: "view", Name: spec.Name + ":" + spec.View, Shows: spec.MappedFamilies()})
		}
	}
	in.missing = append(in.missing, preflight.Lacking{Spec: spec, Lacks: l})
	if l.Table {
		return "does not exist; would be created"
	}
	return "incomplete; the missing parts would be created"
}

// checkView warns if an existing view does not show exactly the families that the mapping writes.
func (in *Input) checkView(ctx context.Context, spec sink.TableSpec, l sink.Lacks) error {
	if spec.View == "" || l.View || l.NoViews {
		return nil
	}
	view, err := preflight.AskTarget(ctx, func(ctx context.Context) (sink.View, error) { return in.to.View(ctx, spec.Name, spec.View) })
	if err != nil {
		return preflight.ExplainTarget("cannot describe view "+spec.View+" of table "+spec.Name, err)
	}
	if want := slices.Sorted(slices.Values(spec.MappedFamilies())); !slices.Equal(want, view.Families) {
		warn(&in.targets, &diag.Error{Code: diag.ViewDiffers, What: fmt.Sprintf("the families of view %s of table %s differ from those of the mapping", spec.View, spec.Name),
			Cause: fmt.Sprintf("it shows %s; the mapping writes %s", strings.Join(view.Families, ", "), strings.Join(want, ", "))})
	}
	return nil
}
