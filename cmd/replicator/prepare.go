package main

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
func (p *prober) tables(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, probeTime*time.Duration(len(p.cfg.Tables)+1))
	missing, err := p.lacks(limited)
	cancel()
	isState := func(m lacking) bool { return m.spec.Name == p.cfg.State.Table }
	begun := err == nil && !slices.ContainsFunc(missing, isState)
	state := func() { p.ask(ctx, probeTime, "state table "+p.cfg.State.Table, p.state) }
	if begun && len(p.failed) == 0 && !p.dry {
		p.ask(ctx, probeTime, "ledger of "+p.cfg.Name, p.ledger)
	}
	if begun && len(p.failed) == 0 {
		state()
	}
	made := p.ask(ctx, createTime*time.Duration(len(p.cfg.Tables)+1), "target tables", func(ctx context.Context) (string, error) {
		if err != nil {
			return "", err
		}
		return p.make(ctx, missing)
	})
	if made && !begun && len(p.failed) == 0 {
		state()
	}
}

// lacks is what is missing of the target's tables; an error if something is there and unfit, or missing and not to be created.
func (p *prober) lacks(ctx context.Context) ([]lacking, error) {
	var missing []lacking
	what := "the tables of " + targetName(p.cfg) + " are not as they must be"
	for _, spec := range specs(p.cfg) {
		if !p.cfg.Target.CreateMissing {
			made, err := p.target.admin.Prepare(ctx, []sink.TableSpec{spec}, false)
			if err != nil {
				return nil, explainTarget(what, err)
			}
			p.noteLacks(spec, sink.Lacks{Ageing: made.Ageing, NoViews: len(made.NoViews) > 0})
			continue
		}
		l, err := p.target.admin.Lacks(ctx, spec)
		if err != nil {
			return nil, explainTarget(what, err)
		}
		p.noteLacks(spec, l)
		if l.Table || len(l.Families) > 0 || l.View {
			missing = append(missing, lacking{spec, l})
		}
	}
	return missing, nil
}

// noteLacks keeps what is to be told of a table besides.
func (p *prober) noteLacks(spec sink.TableSpec, l sink.Lacks) {
	p.found.ageing = append(p.found.ageing, l.Ageing...)
	if l.NoViews {
		p.noViews = append(p.noViews, spec.Name+":"+spec.View)
	}
}

// make creates what is missing, if nothing was refused, and tells the state of the tables.
func (p *prober) make(ctx context.Context, missing []lacking) (string, error) {
	text, notes := "there, as they should be", []string(nil)
	if len(p.found.ageing) > 0 {
		text = "there"
	}
	switch {
	case len(missing) == 0:
	case p.dry:
		text = "would be created: " + strings.Join(namesOf(missing), ", ")
	case len(p.failed) > 0:
		text = "nothing is created before the rest is accepted; missing: " + strings.Join(namesOf(missing), ", ")
	default:
		notes = p.split(ctx, missing)
		var all sink.Made
		for _, m := range missing {
			made, err := p.target.admin.Prepare(ctx, []sink.TableSpec{m.spec}, true)
			if err != nil {
				return "", explainTarget("the tables of "+targetName(p.cfg)+" are not as they must be", err)
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
	for _, family := range p.found.ageing {
		notes = append(notes, ageingText(family))
	}
	return strings.Join(append([]string{text}, notes...), "; "), nil
}

// namesOf are those of what is missing: of a table that is missing as a whole only its own.
func namesOf(missing []lacking) []string {
	var all []string
	for _, m := range missing {
		if m.lacks.Table {
			all = append(all, m.spec.Name)
			continue
		}
		for _, f := range m.lacks.Families {
			all = append(all, m.spec.Name+":"+f.Name)
		}
		if m.lacks.View {
			all = append(all, m.spec.Name+":"+m.spec.View)
		}
	}
	return all
}

// split chooses where tables that are missing as a whole are split from the start, by a sample of the source's keys, and says where there is none: such
// a table begins in one piece, which is slower and nothing worse.
func (p *prober) split(ctx context.Context, missing []lacking) (notes []string) {
	all, asked := samples{}, map[string]bool{}
	for i := range missing {
		m := &missing[i]
		if !m.lacks.Table {
			continue
		}
		for _, t := range p.found.tables {
			if !slices.Contains(t.mapping.Tables(), m.spec.Name) || asked[t.config.From] {
				continue
			}
			asked[t.config.From] = true
			s, err := sampleTable(ctx, p.source.tables, t, defaultSample)
			if err != nil {
				notes = append(notes, fmt.Sprintf("%s is not split by %s: %v", m.spec.Name, t.config.From, err))
				continue
			}
			all.add(t, s)
		}
		m.spec.SplitKeys = all.splits(m.spec.Name)
	}
	return notes
}

// ledger asks the ledger, if there is one, whether it would go on with what was found.
func (p *prober) ledger(ctx context.Context) (string, error) {
	what := "cannot read the ledger in table " + p.cfg.State.Table
	ledger, err := checkpoint.Open(ctx, p.ledgerStore(), p.cfg.Name, checkpoint.Options{ReadOnly: true, Lease: p.cfg.State.Lease})
	if errors.Is(err, checkpoint.ErrNoLedger) {
		return "not begun", nil
	}
	if err != nil {
		return "", explainLedger(what, err)
	}
	kept, err := ledger.Cluster(ctx)
	if err != nil {
		return "", explainLedger(what, err)
	}
	if kept != "" && p.found.cluster != "" && kept != p.found.cluster {
		return "", explainLedger("cannot open the ledger in table "+p.cfg.State.Table, checkpoint.ErrClusterChanged)
	}
	states, err := ledger.Tables(ctx)
	if err != nil {
		return "", explainLedger(what, err)
	}
	var refused diag.List
	for _, t := range p.found.tables {
		i := slices.IndexFunc(states, func(s checkpoint.TableState) bool { return s.Source == t.config.From })
		if i < 0 {
			continue
		}
		var e *diag.Error
		err := explain("table "+t.config.From+" cannot go on", pipeline.CheckState(states[i], t.description, p.cfg.Hash(t.config), p.acceptMapping))
		if errors.As(err, &e) {
			refused = append(refused, e)
		} else if err != nil {
			return "", err
		}
	}
	return "goes on", refused.Err()
}
