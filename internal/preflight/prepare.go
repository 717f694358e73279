package preflight

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/pipeline"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// The target of a run is looked at as a whole, and changed only when the run is accepted: the sources, the app profile, the tables that exist, and
// what the ledger says of all of them. What is refused, or a dry run, leaves it as it was (H99).

// tables asks for the target's tables and the ledger in them, and makes what is missing.
func (p *Prober) tables(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, ProbeTime*time.Duration(len(p.Cfg.Tables)+1))
	missing, err := p.lacks(limited)
	cancel()
	isState := func(m Lacking) bool { return m.Spec.Name == p.Cfg.State.Table }
	begun := err == nil && !slices.ContainsFunc(missing, isState)
	state := func() { p.Ask(ctx, ProbeTime, "state table "+p.Cfg.State.Table, p.state) }
	if begun && len(p.Failed) == 0 && !p.Dry {
		p.Ask(ctx, ProbeTime, "ledger of "+p.Cfg.Name, p.ledger)
	}
	if begun && len(p.Failed) == 0 {
		state()
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

// lacks is what is missing of the target's tables; an error if something is there and unfit, or missing and not to be created.
func (p *Prober) lacks(ctx context.Context) ([]Lacking, error) {
	var missing []Lacking
	what := "the tables of " + TargetName(p.Cfg) + " are not as they must be"
	for _, spec := range Specs(p.Cfg) {
		if !p.Cfg.Target.CreateMissing {
			made, err := p.Target.Admin.Prepare(ctx, []sink.TableSpec{spec}, false)
			if err != nil {
				return nil, ExplainTarget(what, err)
			}
			p.noteLacks(spec, sink.Lacks{Ageing: made.Ageing, NoViews: len(made.NoViews) > 0})
			continue
		}
		l, err := p.Target.Admin.Lacks(ctx, spec)
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

// noteLacks keeps what is to be told of a table besides.
func (p *Prober) noteLacks(spec sink.TableSpec, l sink.Lacks) {
	p.Found.Ageing = append(p.Found.Ageing, l.Ageing...)
	if l.NoViews {
		p.noViews = append(p.noViews, spec.Name+":"+spec.View)
	}
}

// make creates what is missing, if nothing was refused, and tells the state of the tables.
func (p *Prober) make(ctx context.Context, missing []Lacking) (string, error) {
	text, notes := "there, as they should be", []string(nil)
	if len(p.Found.Ageing) > 0 {
		text = "there"
	}
	switch {
	case len(missing) == 0:
	case p.Dry:
		text = "would be created: " + strings.Join(namesOf(missing), ", ")
	case len(p.Failed) > 0:
		text = "nothing is created before the rest is accepted; missing: " + strings.Join(namesOf(missing), ", ")
	default:
		notes = p.split(ctx, missing)
		var all sink.Made
		for _, m := range missing {
			made, err := p.Target.Admin.Prepare(ctx, []sink.TableSpec{m.Spec}, true)
			if err != nil {
				return "", ExplainTarget("the tables of "+TargetName(p.Cfg)+" are not as they must be", err)
			}
			all.Tables, all.Families, all.Views = append(all.Tables, made.Tables...), append(all.Families, made.Families...), append(all.Views, made.Views...)
		}
		if created := slices.Concat(all.Tables, all.Families, all.Views); len(created) > 0 { // else others were faster
			text = "created " + strings.Join(created, ", ")
		}
	}
	if len(p.noViews) > 0 {
		notes = append(notes, "no view "+strings.Join(p.noViews, ", ")+": the service does not know authorized views (an emulator?)")
	}
	for _, family := range p.Found.Ageing {
		notes = append(notes, AgeingText(family))
	}
	return strings.Join(append([]string{text}, notes...), "; "), nil
}

// namesOf are those of what is missing: of a table that is missing as a whole only its own.
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

// split chooses where tables that are missing as a whole are split from the start, by a sample of the source's keys, and says where there is none: such
// a table begins in one piece, which is slower and nothing worse.
func (p *Prober) split(ctx context.Context, missing []Lacking) (notes []string) {
	all, asked := Samples{}, map[string]bool{}
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
			s, err := SampleTable(ctx, p.Source.Tables, t, DefaultSample)
			if err != nil {
				notes = append(notes, fmt.Sprintf("%s is not split by %s: %v", m.Spec.Name, t.Config.From, err))
				continue
			}
			all.Add(t, s)
		}
		m.Spec.SplitKeys = all.Splits(m.Spec.Name)
	}
	return notes
}

// ledger asks the ledger, if there is one, whether it would go on with what was found.
func (p *Prober) ledger(ctx context.Context) (string, error) {
	what := "cannot read the ledger in table " + p.Cfg.State.Table
	ledger, err := checkpoint.Open(ctx, p.ledgerStore(), p.Cfg.Name, checkpoint.Options{ReadOnly: true, Lease: p.Cfg.State.Lease})
	if errors.Is(err, checkpoint.ErrNoLedger) {
		return "not begun", nil
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
	var refused diag.List
	for _, t := range p.Found.Tables {
		i := slices.IndexFunc(states, func(s checkpoint.TableState) bool { return s.Source == t.Config.From })
		if i < 0 {
			continue
		}
		var e *diag.Error
		err := Explain("table "+t.Config.From+" cannot go on", pipeline.CheckState(states[i], t.Description, p.Cfg.Hash(t.Config), p.AcceptMapping))
		if errors.As(err, &e) {
			refused = append(refused, e)
		} else if err != nil {
			return "", err
		}
	}
	return "goes on", refused.Err()
}

// Lacking is a target table of which something is missing, with what its creation needs.
type Lacking struct {
	Spec  sink.TableSpec
	Lacks sink.Lacks
}
