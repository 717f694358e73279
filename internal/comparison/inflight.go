package comparison

import (
	"context"
	"encoding/hex"
	"errors"
	"slices"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/verify"
)

// recheckInFlight compares the rows again that stayed in flight in the last verify of each table, and
// replaces the counts of that verify. The other rows were compared by the verify itself. So the verify
// is clean if all rows that stayed in flight are equal now.
func (o *Operator) recheckInFlight(ctx context.Context) error {
	if err := o.checkReport(); err != nil {
		return err
	}
	if err := o.open(ctx, "verify"); err != nil {
		return err
	}
	defer o.migration.Close()
	if err := o.findings(ctx); err != nil {
		return err
	}
	var failed error
	for i := range o.tables {
		t := &o.tables[i]
		err := o.recheckTable(ctx, t)
		failed = errors.Join(failed, explain(ctx, "cannot compare the rows in flight of table "+t.config.From, err))
		if ctx.Err() != nil {
			return failed
		}
	}
	d := o.judge(o.now(ctx))
	if err := errors.Join(o.write(d), o.report(d)); err != nil {
		return errors.Join(failed, err)
	}
	return errors.Join(failed, o.verdict())
}

// recheckTable compares the rows in flight of a table again. It does nothing if the last verify has
// none.
func (o *Operator) recheckTable(ctx context.Context, t *table) error {
	refuse := func(cause string) error {
		return &checkpoint.LoadError{Table: t.config.From, Step: "verify --in-flight", Reason: cause, Cure: "compare all rows: replicator verify --table " + t.config.From + o.With}
	}
	if err := t.ready(); err != nil {
		return err
	}
	result := t.state.Verify.Result
	var waiting []verify.Place
	listed := int64(0)
	for _, f := range t.list {
		if f.Kind == verify.InFlight {
			listed++
			waiting = append(waiting, placeOf(f))
		}
	}
	switch {
	case t.state.Verify.Running():
		return refuse("a verify is running")
	case !result.Known():
		return refuse("the table has no result of a verify")
	case result.Generation != t.state.Generation:
		return refuse("the table has begun a new generation since the last verify")
	case result.InFlight == 0:
		return nil
	case listed < result.InFlight:
		return refuse("the last verify did not list all of its rows in flight")
	}
	var checked verify.Checked
	err := engine.Traced(ctx, o.tracer, engine.SpanVerifyInFlight, t.config.From, func(ctx context.Context) (facts engine.SpanFacts, err error) {
		places := merge(waiting)
		checked, err = o.rowByRow(ctx, t).Check(ctx, ctx, places...)
		return engine.SpanFacts{Rows: len(places)}, err
	})
	if err != nil {
		return err
	}
	r := checkpoint.VerifyRecheck{Of: result, Name: hex.EncodeToString(newKey()[:8]), At: o.now(ctx), Counts: result.VerifyCounts}
	t.list, r.Counts = rechecked(t.list, r.Counts, checked)
	if err := verify.KeepRecheck(ctx, o.ledger, t.state, r.Name, t.list); err != nil {
		return err
	}
	t.state, err = o.ledger.RecheckVerify(ctx, t.config.From, r)
	return err
}

func placeOf(f verify.Finding) verify.Place {
	p := verify.Place{Table: f.Table, Row: f.Row}
	if f.Keys.Exists() {
		p.Keys = []attribute.Item{f.Keys}
	}
	return p
}

// merge returns each row once, with the keys of all its items.
func merge(places []verify.Place) (all []verify.Place) {
	index := map[[2]string]int{}
	for _, p := range places {
		at := [2]string{p.Table, p.Row}
		i, known := index[at]
		if !known {
			index[at] = len(all)
			all = append(all, p)
			continue
		}
		for _, keys := range p.Keys {
			if !slices.ContainsFunc(all[i].Keys, keys.Equal) {
				all[i].Keys = append(slices.Clone(all[i].Keys), keys)
			}
		}
	}
	return all
}

// rechecked returns the findings and counts of a verify after a second comparison of its rows in
// flight. Rows that are equal are removed. Rows that differ count as such. A row that changed at every
// check stays in flight. It is a pure function.
func rechecked(list []verify.Finding, counts checkpoint.VerifyCounts, c verify.Checked) ([]verify.Finding, checkpoint.VerifyCounts) {
	at := func(f verify.Finding) [2]string { return [2]string{f.Table, f.Row} }
	judged := map[[2]string]bool{}
	for _, p := range c.Equal {
		judged[[2]string{p.Table, p.Row}] = true
	}
	for _, f := range slices.Concat(c.Findings, c.Pending) {
		judged[at(f)] = true
	}
	var now []verify.Finding
	known := map[string]bool{}
	for _, f := range list {
		if f.Kind != verify.InFlight || !judged[at(f)] {
			now = append(now, f)
			known[f.ID()] = true
		} else {
			counts.InFlight--
		}
	}
	for _, f := range slices.Concat(c.Findings, c.Pending) {
		if !known[f.ID()] {
			known[f.ID()] = true
			now = append(now, f)
			verify.Count(&counts, f.Kind)
		}
	}
	return now, counts
}
