package plan

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/cost"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/forecast"
	"github.com/dynamodb-bigtable/replicator/internal/load"
	"github.com/dynamodb-bigtable/replicator/internal/policy"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/source"
	"github.com/dynamodb-bigtable/replicator/internal/status"
)

// Judge makes the plan from the input. It sends no requests.
func (in *Input) Judge() *Document {
	prices := in.question.Prices
	ends := status.NewDocument(in.Cfg, in.env, in.at)
	d := &Document{Schema: "replicator.plan/v1", Name: in.Cfg.Name, At: ends.At, Source: in.Source.Region,
		Target: in.Cfg.Target.Project + "/" + in.Cfg.Target.Instance, Emulator: ends.Emulator, Checks: in.Told,
		Create: append([]Creation{}, in.create...), Created: []string{}, Tables: []Table{}, Missing: in.privileges(),
		Prices: Prices{true, prices.Date, prices.Currency, prices.Regions, prices.Prices, prices.Rates}}
	if in.left {
		d.left, d.Cutovers, d.Shared, d.Totals, d.Warnings = true, []Cutover{}, []cost.Line{}, []cost.Total{}, diag.List{}
		return d
	}
	warnings := slices.Clone(in.configured)
	var lines []cost.Line
	var copies []cost.Copy
	for _, s := range in.sources {
		warnings = append(warnings, s.warnings...)
		if s.refused != nil && !s.copied {
			warn(&warnings, s.refused)
		}
		copying, e := in.estimate(&s)
		if e != nil {
			warn(&warnings, e)
		}
		copies = append(copies, copying)
		d.Tables = append(d.Tables, s.Table)
	}
	d.Cutovers = in.expected()
	d.Shared = []cost.Line{prices.Nodes(copies, in.cluster)}
	lines = append(lines, d.Shared...)
	for _, t := range d.Tables {
		lines = append(lines, t.Cost...)
	}
	d.Totals = cost.Totals(lines)
	d.Sizing = in.sizing(copies)
	d.round()
	if d.Warnings = append(warnings, in.targets...).WithFlags(in.Hints); d.Warnings == nil {
		d.Warnings = diag.List{}
	}
	return d
}

// sizing returns the workers and nodes that the configured tables need; nil if no stream was listed.
func (in *Input) sizing(copies []cost.Copy) *cost.Sizing {
	shards, changes := 0, 0.0
	for _, s := range in.sources {
		if s.OpenShards != nil {
			shards += *s.OpenShards
		}
		changes += s.changes
	}
	if shards == 0 {
		return nil
	}
	sizing := in.question.Prices.Size(shards, changes, copies, in.cluster)
	sizing.Changes = cost.Round(sizing.Changes)
	return &sizing
}

// expected returns what is expected of the cutovers of the groups whose streams were listed.
func (in *Input) expected() []Cutover {
	all := []Cutover{}
	var tables []config.Table
	open := map[string]int{} // open shards, by source table
	for _, s := range in.sources {
		tables = append(tables, s.found.Config)
		if s.OpenShards != nil {
			open[s.Table.Source] = *s.OpenShards
		}
	}
	for _, g := range in.Cfg.Groups(tables) {
		c := Cutover{Group: g.Name, Tables: []string{}}
		shards, listed := 0, len(g.Tables) > 0
		for _, t := range g.Tables {
			n, known := open[t.From]
			shards, listed = shards+n, listed && known
			c.Tables = append(c.Tables, t.From)
		}
		if !listed {
			continue
		}
		record := in.cutovers.OfGroup(g.Row, c.Tables, g.Patterns)
		p := checkpoint.CutoverPlan{ListingBound: in.Cfg.Cutover.ListingBound, FenceFirst: in.Cfg.FenceFirst(g.Tables), FenceUnlessQuiet: in.Cfg.FenceUnlessQuiet(),
			ByPolicy: in.Cfg.Cutover.ByTablePolicy()}
		p.FreezeAtMost, _ = in.Cfg.FreezeAtMost(g.Tables, false)
		least, _ := in.Cfg.FreezeAtMost(g.Tables, true)
		p.UnlessQuiet = p.FreezeAtMost - least
		_, c.Longer = in.Cfg.FreezeAtMost(g.Tables, record.MayBeQuiet)
		c.Longer = append([]string{}, c.Longer...)
		f := forecast.Foretell(p, shards, record, record.MayBeQuiet)
		c.Freeze, c.Measured, c.Wait, c.lines = f.Freeze.Seconds(), f.Measured, f.Wait.Seconds(), f.Lines(p, shards)
		all = append(all, c)
	}
	return all
}

// estimate adds duration and cost to a table. The error is a warning that the copy is too slow.
func (in *Input) estimate(s *sourceTable) (cost.Copy, *diag.Error) {
	t := cost.Table{Items: s.found.Description.Items, Bytes: s.found.Description.Bytes, ReadCapacity: s.found.Description.ReadCapacity,
		RowsPerSecond: float64(in.Cfg.Backfill.MaxRowsPerSecond) / float64(in.sharing), Share: 1 / float64(in.sharing),
		Published: in.Cfg.Relay.Topic != "", Applied: in.Cfg.Relay.Subscription != "", Followed: in.Cfg.Cutover.KeepFallback}
	if units, ok := in.Cfg.Backfill.MaxReadCapacity.UnitsPerSecond(t.ReadCapacity); ok {
		t.ReadLimit = units
	}
	if s.OpenShards != nil {
		t.OpenShards = *s.OpenShards
	}
	if s.Export != nil {
		t.From, t.Files = source.Noun(s.Export.Address), s.Export.Files
		_, inS3 := source.InS3(source.Folder(s.Export.Address))
		t.Outside = !inS3
	}
	copying := in.copying(s, &t)
	lease := in.Cfg.State.Lease
	timing := engine.Timing{Poll: in.Cfg.Source.Poll, Soon: in.Cfg.Source.PollActive}.OrDefault(lease)
	s.Cost = in.question.Prices.Estimate(t, in.cluster, cost.Run{Active: timing.Between(0, 0), Idle: timing.LongIdle(), Lease: lease, Pass: timing.Pass, Survey: engine.SurveyEvery})
	if !copying.TooSlow() {
		return copying, nil
	}
	return copying, &diag.Error{Code: diag.SlowCopy, What: fmt.Sprintf("the copy of table %s would take about %s", s.Table.Source, backfill.FormatDuration(copying.Time)),
		Cause: fmt.Sprintf("about %.0f rows a second, limited by %s; the stream keeps changes for 24 hours", copying.RowsPerSecond, copying.LimitedBy)}
}

// The modes of a load.
const (
	guarded = string(checkpoint.GuardedLoad)
	fast    = string(checkpoint.FastLoad)
)

// copying estimates the copy in all modes that are possible. It returns the copy in the mode that
// the first load would have, and sets that mode in t.
func (in *Input) copying(s *sourceTable, t *cost.Table) (chosen cost.Copy) {
	s.Copy = Copy{Mode: guarded, Modes: []CopyMode{}}
	modes := []string{guarded, fast}
	if why := in.notFast(s); why != "" {
		s.Copy.Guarded, modes = &why, modes[:1]
	} else if mode := in.Cfg.ModeOf(s.found.Config); mode != guarded && mode != "" {
		s.Copy.Mode = fast
	}
	for _, mode := range modes {
		t.Fast = mode == fast
		c := in.question.Prices.Copying(*t, in.cluster)
		nodes := in.question.Prices.Nodes([]cost.Copy{c}, in.cluster)
		s.Copy.Modes = append(s.Copy.Modes, CopyMode{mode, c.RowsPerSecond, c.LimitedBy, c.Time.Seconds(), nodes.Amount})
		if mode == s.Copy.Mode {
			chosen = c
		}
	}
	t.Fast = chosen.Fast
	s.Copy.RowsPerSecond, s.Copy.LimitedBy, s.Copy.Seconds = chosen.RowsPerSecond, chosen.LimitedBy, chosen.Time.Seconds()
	return chosen
}

// notFast returns why the table's next load cannot be fast; "" if it can be.
func (in *Input) notFast(s *sourceTable) string {
	m := s.found.Mapping
	if m == nil {
		return "" // the table could not be described
	}
	mode := checkpoint.Direct
	if in.Cfg.Relay.Topic != "" {
		mode = checkpoint.Both
	}
	why := cmp.Or(load.SettingsRefuse(m, mode, in.Cfg.Late(s.found.Config), in.Cfg.Target.Shared), s.guarded)
	for _, table := range m.Tables() {
		why = cmp.Or(why, in.unfit[table])
	}
	return why
}

// round rounds the estimates to a plausible precision.
func (d *Document) round() {
	for i := range d.Totals {
		d.Totals[i].Amount = cost.Round(d.Totals[i].Amount)
	}
	lines := [][]cost.Line{d.Shared}
	for i := range d.Tables {
		lines = append(lines, d.Tables[i].Cost)
		d.Tables[i].Copy.RowsPerSecond = cost.Round(d.Tables[i].Copy.RowsPerSecond)
		d.Tables[i].Copy.Seconds = cost.Round(d.Tables[i].Copy.Seconds)
		for j := range d.Tables[i].Copy.Modes {
			m := &d.Tables[i].Copy.Modes[j]
			m.RowsPerSecond, m.Seconds, m.Nodes = cost.Round(m.RowsPerSecond), cost.Round(m.Seconds), cost.Round(m.Nodes)
		}
	}
	for _, list := range lines {
		for i := range list {
			list[i].Amount = cost.Round(list[i].Amount)
		}
	}
}

// privileges returns the documents that grant the missing permissions, or nil.
func (in *Input) privileges() *MissingPrivileges {
	m := MissingPrivileges{GCP: in.lacks}
	if slices.ContainsFunc(in.Told, func(a preflight.Answer) bool { return a.Error != nil && a.Error.Code == diag.SourceDenied }) {
		p := policy.AWS(in.Cfg, in.Source.Region).WithKeys(in.keys())
		m.AWS = &p
	}
	if m.AWS == nil && m.GCP == nil {
		return nil
	}
	return &m
}

// keys returns the keys that encrypt the tables, if DynamoDB reports them.
func (in *Input) keys() []string {
	var keys []string
	for _, s := range in.sources {
		if s.Key != "" {
			keys = append(keys, s.Key)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// refusal returns the first warning about a problem for which a run would be refused; nil if there
// is none. In that case, plan creates nothing (H99).
func (d *Document) refusal(q Question) error {
	var found diag.List
	for _, w := range d.Warnings {
		switch w.Code {
		case diag.ClusterChanged, diag.SourceMoved, diag.MappingChanged, diag.TargetHoldsRows, diag.TargetTaken:
			var taken preflight.Taken
			if errors.As(w.Err, &taken) && taken.Begun {
				continue // a run continues with the tables that it already replicates
			}
			if w.Code == diag.MappingChanged && q.AcceptMapping || w.Code == diag.TargetHoldsRows && q.AdoptRows {
				continue
			}
			e := *w
			e.Warning = false
			found = append(found, &e)
		}
	}
	return found.Err()
}
