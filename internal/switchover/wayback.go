package switchover

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/fallback"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
)

// wayBack returns the ways back of the tables of a group. If a fallback is to be kept, it asks the
// source for what only the items show.
func (o *Operator) wayBack(ctx context.Context, g group, keep bool) ([]preflight.WayBack, error) {
	var all []preflight.WayBack
	for _, t := range o.tablesOf(g) {
		w := preflight.WayBackOf(t)
		if source := o.ends().Source; keep && source != nil {
			var err error
			if w, err = preflight.TakeCensus(ctx, source, t); err != nil {
				return nil, err
			}
		}
		all = append(all, w)
	}
	return all, nil
}

// shown returns the ways back as a document shows them.
func shown(all []preflight.WayBack) (out []WayBack) {
	for _, w := range all {
		shown := WayBack{w.Mapping.Source, len(w.Obstacles) == 0, append([]string{}, w.Obstacles...)}
		shown.Lost = append(shown.Lost, w.Losses...)
		out = append(out, shown)
	}
	return out
}

// lossy lists, by table, what a fallback would not carry, or why there can be none.
func lossy(w []WayBack) (lines []string) {
	for _, t := range w {
		for _, why := range t.Lost {
			lines = append(lines, t.Table+": "+why)
		}
	}
	return lines
}

// keepFallback adds to a plan what a fallback must know of the items. It refuses if a table gets no
// way back.
func (o *Operator) keepFallback(g group, all []preflight.WayBack, plan *checkpoint.CutoverPlan) error {
	var causes []string
	plan.Forms = map[string]checkpoint.CutoverForm{}
	for _, w := range all {
		for _, why := range w.Obstacles {
			causes = append(causes, w.Mapping.Source+": "+why)
		}
		form := checkpoint.CutoverForm{Expires: w.Expires}
		if len(w.Types) > 0 {
			var err error
			if form.Types, err = json.Marshal(w.Types); err != nil {
				return err
			}
		}
		plan.Forms[w.Mapping.Source] = form
	}
	if len(causes) > 0 {
		return &diag.Error{Code: diag.FallbackRefused, What: "the cutover of " + o.of(g) + " cannot keep a fallback", Cause: strings.Join(causes, "\n"),
			Fix: "remove each cause, or start with --keep-fallback no"}
	}
	return nil
}

// limits says in the operator's question what the fallbacks of plans do not carry.
func limits(plans []checkpoint.CutoverPlan) string {
	var all []string
	for _, p := range plans {
		if p.KeepFallback {
			all = append(all, p.Lossy...)
		}
	}
	if len(all) == 0 {
		return ""
	}
	return " The fallback has limits: " + strings.Join(all, "; ") + "."
}

// formOf returns the form by which the items of a table follow its rows, as the plan of a cutover
// has recorded it.
func formOf(t preflight.Table, form checkpoint.CutoverForm) (fallback.Inverse, error) {
	w, err := preflight.WayBackRecorded(t, form)
	return fallback.Inverse{Mapping: w.Mapping, Types: w.Types}, err
}
