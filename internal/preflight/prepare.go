package preflight

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/pipeline"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// A run first checks the source tables, the app profile, the existing target tables, and the
// ledger's records of all of these. It changes the target only if every check passes. So a refused
// run or a dry run leaves the target unchanged (H99).

// tables checks the target's tables and the ledger, and creates missing parts.
func (p *Prober) tables(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, ProbeTime*time.Duration(len(p.Cfg.Tables)+1))
	missing, err := p.lacks(limited)
	cancel()
	isState := func(m Lacking) bool { return m.Spec.Name == p.Cfg.State.Table }
	begun := err == nil && !slices.ContainsFunc(missing, isState)
	if begun && !p.Dry && p.cutOver(ctx) {
		return
	}
	state := func() { p.Ask(ctx, ProbeTime, "state table "+p.Cfg.State.Table, again(p.state)) }
	if begun && len(p.Failed) == 0 && !p.Dry {
		p.Ask(ctx, ProbeTime, "ledger of "+p.Cfg.Name, again(p.ledger))
	}
	if begun && len(p.Failed) == 0 {
		state()
	}
	if err == nil && len(p.Failed) == 0 && !p.Dry {
		p.admit(ctx, missing)
	}
	made := p.Ask(ctx, CreateTime*time.Duration(len(p.Cfg.Tables)+1), "target tables", func(ctx context.Context) (string, error) {
		if err != nil {
			return "", err
		}
		return p.make(ctx, missing)
	})
	if made && !begun && len(p.Failed) == 0 {
		state()
	}
}

// cutOver reports whether the application has left the source. In that case other checks do not
// apply: the source may be switched off, and replicator's metadata may be removed from the target.
// A process that is not allowed to idle then fails, with only this error.
func (p *Prober) cutOver(ctx context.Context) bool {
	left, err := LeftTables(ctx, p.ledgerStore(), p.Cfg)
	if err != nil {
		return false // the next probe reports the error
	}
	c := left.All()
	if c == nil {
		p.Cfg = left.Rest(p.Cfg)
		return false
	}
	p.Failed, p.Found = nil, Found{Cluster: p.Found.Cluster, Left: true}
	if p.Idles && p.Found.Cluster == "" {
		p.askProfile(ctx)
	}
	p.Ask(ctx, ProbeTime, "ledger of "+p.Cfg.Name, func(context.Context) (string, error) {
		if p.Idles {
			return "idle: " + c.Left().Error(), nil
		}
		return "", p.CutOver(c)
	})
	return true
}

// Left holds the tables of a configuration that the application has left: it has moved from them to
// the target.
type Left struct {
	entries map[string]*checkpoint.Cutover // by table or pattern, as the configuration names it
	tables  int                            // number of tables and patterns
}

// LeftOf returns the tables and patterns of a configuration that the application has left, from the
// records of all cutovers.
func LeftOf(cfg *config.Config, all checkpoint.Cutovers) Left {
	l := Left{map[string]*checkpoint.Cutover{}, len(cfg.Tables)}
	for i := range cfg.Tables {
		t := &cfg.Tables[i]
		if c := all.Of(t.From, t.Pattern()); c.Left() != nil {
			l.entries[t.From] = &c
		}
	}
	return l
}

// All returns the last cutover if the application has left every table and pattern, else nil.
func (l Left) All() (last *checkpoint.Cutover) {
	if len(l.entries) < l.tables {
		return nil
	}
	for _, c := range l.entries {
		if last == nil || c.SwitchedAt.After(last.SwitchedAt) {
			last = c
		}
	}
	return last
}

// Rest returns the configuration without the tables and patterns that the application has left.
func (l Left) Rest(cfg *config.Config) *config.Config {
	if len(l.entries) == 0 {
		return cfg
	}
	return cfg.Without(func(t config.Table) bool { return l.entries[t.From] != nil })
}

// LeftTables returns the tables that the application has left. It returns none if there is no ledger.
func LeftTables(ctx context.Context, store checkpoint.Store, cfg *config.Config) (Left, error) {
	ctx, cancel := context.WithTimeout(ctx, ProbeTime)
	defer cancel()
	ledger, err := checkpoint.Open(ctx, store, cfg.Name, checkpoint.Options{ReadOnly: true, Lease: cfg.State.Lease})
	if errors.Is(err, checkpoint.ErrNoLedger) || status.Code(err) == codes.NotFound {
		return LeftOf(cfg, nil), nil
	}
	if err != nil {
		return Left{}, err
	}
	all, err := ledger.Cutovers(ctx)
	return LeftOf(cfg, all), err
}

// CutOver returns the error of a run or a plan for tables that are cut over. It returns nil if c is
// nil.
func (p *Prober) CutOver(c *checkpoint.Cutover) error {
	return p.refused("the tables of "+p.Cfg.Name+" are cut over", c.Left())
}

// lacks returns the missing parts of the target's tables. It returns an error if an existing part
// is unsuitable, or if a missing part must not be created.
func (p *Prober) lacks(ctx context.Context) ([]Lacking, error) {
	var missing []Lacking
	what := "the tables of " + TargetName(p.Cfg) + " have an unexpected schema"
	for _, spec := range Specs(p.Cfg) {
		if !p.Cfg.Target.CreateMissing {
			made, err := askAgain(ctx, func(ctx context.Context) (sink.Made, error) {
				return p.Target.Admin.Prepare(ctx, []sink.TableSpec{spec}, false)
			})
			if err != nil {
				return nil, ExplainTarget(what, err)
			}
			p.noteLacks(spec, sink.Lacks{Ageing: made.Ageing, NoViews: len(made.NoViews) > 0})
			continue
		}
		l, err := p.Target.Lacks(ctx, spec)
		if err != nil {
			return nil, ExplainTarget(what, err)
		}
		p.noteLacks(spec, l)
		if l.Table || len(l.Families) > 0 || l.View {
			missing = append(missing, Lacking{spec, l})
		}
	}
	return missing, nil
}

// noteLacks records findings about the existing parts of a table. The findings are reported later.
func (p *Prober) noteLacks(spec sink.TableSpec, l sink.Lacks) {
	p.Found.Ageing = append(p.Found.Ageing, l.Ageing...)
	if l.NoViews {
		p.noViews = append(p.noViews, spec.Name+":"+spec.View)
	}
}

// make creates the missing parts if no check failed, and returns the state of the tables.
func (p *Prober) make(ctx context.Context, missing []Lacking) (string, error) {
	text, notes := "exist, schema OK", []string(nil)
	if len(p.Found.Ageing) > 0 {
		text = "there"
	}
	switch {
	case len(missing) == 0:
	case p.Dry:
		text = "would create: " + strings.Join(namesOf(missing), ", ")
	case len(p.Failed) > 0:
		text = "not created because a check failed; would create: " + strings.Join(namesOf(missing), ", ")
	default:
		var left []string
		if missing, left = p.mayMake(missing); len(left) > 0 {
			notes = append(notes, "not created here, because the ledger shows earlier writes; the tables' coordinators handle them: "+strings.Join(left, ", "))
		}
		notes = append(notes, p.split(ctx, missing)...)
		var all sink.Made
		for _, m := range missing {
			made, err := p.Target.Create(ctx, m.Spec)
			if err != nil {
				return "", ExplainTarget("the tables of "+TargetName(p.Cfg)+" have an unexpected schema", err)
			}
			all.Tables, all.Families, all.Views = append(all.Tables, made.Tables...), append(all.Families, made.Families...), append(all.Views, made.Views...)
		}
		p.Found.Made = slices.DeleteFunc(slices.Clone(all.Tables), func(name string) bool { return name == p.Cfg.State.Table })
		// Empty if other processes created the parts first.
		if created := slices.Concat(all.Tables, all.Families, all.Views); len(created) > 0 {
			text = "created " + strings.Join(created, ", ")
		}
	}
	if len(p.noViews) > 0 {
		notes = append(notes, "no view "+strings.Join(p.noViews, ", ")+": the service has no authorized views (an emulator?)")
	}
	for _, family := range p.Found.Ageing {
		notes = append(notes, AgeingText(family))
	}
	return strings.Join(append([]string{text}, notes...), "; "), nil
}

// writtenTargets returns the target tables that were written before, according to the ledger. Such a
// target has a fence number, or a source table with a generation.
func writtenTargets(cfg *config.Config, states []checkpoint.TableState, targets []checkpoint.Target) map[string]bool {
	written, sources := map[string]bool{}, []string(nil)
	for _, s := range states {
		sources = append(sources, s.Source)
	}
	for _, t := range cfg.Expand(sources) {
		if i := slices.IndexFunc(states, func(s checkpoint.TableState) bool { return s.Source == t.From }); i >= 0 && states[i].Generation > 0 && states[i].MappingHash == cfg.Hash(t) {
			for _, at := range t.Targets() {
				written[at.Table] = true
			}
		}
	}
	for _, t := range targets {
		written[t.Table] = written[t.Table] || t.Fence > 0
	}
	return written
}

// mayMake returns the missing parts that a starting process may create. If a target was written
// before, a missing table or a missing family of replicator is a gap. The process must not create
// such parts: the table's coordinator first declares the gap and then recreates them (H108).
func (p *Prober) mayMake(missing []Lacking) (may []Lacking, left []string) {
	for _, m := range missing {
		if !p.written[m.Spec.Name] {
			may = append(may, m)
			continue
		}
		if m.Lacks.Table {
			left = append(left, m.Spec.Name)
			continue
		}
		own := func(f sink.FamilySpec) bool { return sink.IsOwn(f.Name) }
		for _, f := range m.Lacks.Families {
			if own(f) {
				left = append(left, m.Spec.Name+":"+f.Name)
			}
		}
		m.Lacks.Families = slices.DeleteFunc(slices.Clone(m.Lacks.Families), own)
		m.Spec.Families = slices.DeleteFunc(slices.Clone(m.Spec.Families), own)
		if len(m.Lacks.Families) > 0 || m.Lacks.View {
			may = append(may, m)
		}
	}
	return may, left
}

// creator creates the missing parts of a target table. *sink.Admin implements it.
type creator interface {
	Prepare(ctx context.Context, specs []sink.TableSpec, create bool) (sink.Made, error)
}

// Create creates the missing parts of a target table, and retries temporary failures for ProbeTime.
// After an attempt with unknown outcome, the next attempt finds the parts that were created, and
// checks them. Create returns the parts that it created, even together with an error.
func (t *Target) Create(ctx context.Context, spec sink.TableSpec) (sink.Made, error) {
	return create(ctx, t.Admin, spec)
}

func create(ctx context.Context, admin creator, spec sink.TableSpec) (all sink.Made, err error) {
	_, err = AskTarget(ctx, func(ctx context.Context) (_ struct{}, err error) {
		made, err := admin.Prepare(ctx, []sink.TableSpec{spec}, true)
		all.Tables, all.Families, all.Views = append(all.Tables, made.Tables...), append(all.Families, made.Families...), append(all.Views, made.Views...)
		all.Ageing, all.NoViews = made.Ageing, made.NoViews
		return struct{}{}, err
	})
	return all, err
}

// PrepareTarget creates the missing parts of a target table that was lost, and reports whether the
// whole table was missing.
func PrepareTarget(ctx context.Context, admin *sink.Admin, cfg *config.Config, table string) (bool, error) {
	specs := Specs(cfg)
	n := slices.IndexFunc(specs, func(s sink.TableSpec) bool { return s.Name == table })
	if n < 0 {
		return false, nil
	}
	made, err := admin.Prepare(ctx, specs[n:n+1], true)
	return len(made.Tables) > 0, err
}

// namesOf returns the names of missing parts. If a whole table is missing, it returns only the
// table's name.
func namesOf(missing []Lacking) []string {
	var all []string
	for _, m := range missing {
		if m.Lacks.Table {
			all = append(all, m.Spec.Name)
			continue
		}
		for _, f := range m.Lacks.Families {
			all = append(all, m.Spec.Name+":"+f.Name)
		}
		if m.Lacks.View {
			all = append(all, m.Spec.Name+":"+m.Spec.View)
		}
	}
	return all
}

// split chooses split points for tables that will be created, from a sample of the source's keys.
// It notes the tables without split points. Such a table begins as a single tablet, so writes are
// slower at first.
func (p *Prober) split(ctx context.Context, missing []Lacking) (notes []string) {
	all, asked := Samples{}, map[string]bool{}
	cluster, _ := AskTarget(ctx, p.Target.Admin.Cluster) // if it is unknown, the table's size decides
	for i := range missing {
		m := &missing[i]
		if !m.Lacks.Table {
			continue
		}
		for _, t := range p.Found.Tables {
			if !slices.Contains(t.Mapping.Tables(), m.Spec.Name) || asked[t.Config.From] {
				continue
			}
			asked[t.Config.From] = true
			s, err := AskSource(ctx, func(ctx context.Context) (Sampled, error) { return SampleTable(ctx, p.Source.Tables, t, DefaultSample) })
			if err != nil {
				notes = append(notes, fmt.Sprintf("%s is not split by %s: %v", m.Spec.Name, t.Config.From, err))
				continue
			}
			all.Add(t, s)
		}
		m.Spec.SplitKeys = all.Splits(m.Spec.Name, max(cluster.Nodes, cluster.MaxNodes))
	}
	return notes
}

// ledger checks whether a run can resume an existing ledger, given the results of the other probes.
func (p *Prober) ledger(ctx context.Context) (string, error) {
	what := "cannot read the ledger in table " + p.Cfg.State.Table
	ledger, err := checkpoint.Open(ctx, p.ledgerStore(), p.Cfg.Name, checkpoint.Options{ReadOnly: true, Lease: p.Cfg.State.Lease})
	if errors.Is(err, checkpoint.ErrNoLedger) {
		return "new migration", nil
	}
	if err != nil {
		return "", ExplainLedger(what, err)
	}
	kept, err := ledger.Cluster(ctx)
	if err != nil {
		return "", ExplainLedger(what, err)
	}
	if kept != "" && p.Found.Cluster != "" && kept != p.Found.Cluster {
		return "", ExplainLedger("cannot open the ledger in table "+p.Cfg.State.Table, checkpoint.ErrClusterChanged)
	}
	states, err := ledger.Tables(ctx)
	if err != nil {
		return "", ExplainLedger(what, err)
	}
	targets, err := ledger.Targets(ctx)
	if err != nil {
		return "", ExplainLedger(what, err)
	}
	p.written = writtenTargets(p.Cfg, states, targets)
	var refused diag.List
	for _, t := range p.Found.Tables {
		i := slices.IndexFunc(states, func(s checkpoint.TableState) bool { return s.Source == t.Config.From })
		if i < 0 {
			continue
		}
		var e *diag.Error
		err := pipeline.CheckState(states[i], t.Description, p.Cfg.Hash(t.Config), p.AcceptMapping)
		if err == nil {
			err = states[i].Admits(p.Mode, p.AcceptMode)
		}
		err = p.refused("table "+t.Config.From+" cannot be resumed", err)
		if errors.As(err, &e) {
			refused = append(refused, e)
		} else if err != nil {
			return "", err
		}
	}
	if p.Found.Shared = ExplainShared(p.Cfg, states); p.Found.Shared != nil {
		return "resuming another migration, see " + p.Found.Shared.Code, refused.Err()
	}
	return "resuming the migration", refused.Err()
}

// refused explains a refusal by the ledger. A missing `name` in the configuration may be its cause.
func (p *Prober) refused(what string, err error) error {
	err = Explain(what, err)
	var e *diag.Error
	if errors.As(err, &e) {
		return SuggestName(p.Cfg, e)
	}
	return err
}

// Lacking is a target table with missing parts, and the data needed to create them.
type Lacking struct {
	Spec  sink.TableSpec
	Lacks sink.Lacks
}
