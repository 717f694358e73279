package status

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/fallback"
	"github.com/dynamodb-bigtable/replicator/internal/readiness"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
)

// WayBack is the state of the way back of a table after a cutover.
type WayBack struct {
	State string `json:"state"` // a state of checkpoint.Fallback
	// LagSeconds is how far DynamoDB is behind Bigtable; null if it is unknown.
	LagSeconds *float64 `json:"lag_seconds"`
	Parked     int      `json:"parked"`   // rows that cannot be carried
	InDoubt    int      `json:"in_doubt"` // requests whose outcome is unknown
	// LostSince and Reason describe changes that were lost; null if none were.
	LostSince *time.Time `json:"lost_since"`
	Reason    *string    `json:"reason"`
}

// WayBackOf returns the state of a way back from its record.
func WayBackOf(f checkpoint.Fallback, now time.Time) WayBack {
	w := WayBack{State: string(f.State), Parked: f.Parked, InDoubt: f.Doubts}
	if f.DoubtUntil.After(now) {
		w.InDoubt++
	}
	if !f.Settled.IsZero() {
		lag := max(now.Sub(f.Settled), 0).Seconds()
		w.LagSeconds = &lag
	}
	if f.State == checkpoint.FallbackGap {
		since, reason := f.Since.UTC(), f.Reason
		w.LostSince, w.Reason = &since, &reason
	}
	return w
}

// Text describes the way back in one line.
func (w *WayBack) Text() string {
	if w.LostSince != nil {
		return fmt.Sprintf("lost since %s, because %s", w.LostSince.Format(time.RFC3339), *w.Reason)
	}
	parts := []string{w.State}
	if w.LagSeconds != nil {
		parts = append(parts, backfill.FormatDuration(AsDuration(*w.LagSeconds))+" behind")
	}
	return strings.Join(append(parts, fmt.Sprintf("%d parked", w.Parked), fmt.Sprintf("%d in doubt", w.InDoubt)), ", ")
}

// CanRollBack reports whether the application can be moved back now. If not, it lists the reasons.
type CanRollBack struct {
	Ready   bool     `json:"ready"`
	Reasons []string `json:"reasons"`
}

// CanRollBackOf returns the reasons why a rollback of the cutover c is refused, from its gates.
func CanRollBackOf(c checkpoint.Cutover, gates []checkpoint.CutoverGate) *CanRollBack {
	r := &CanRollBack{Reasons: []string{}}
	if c.RollingBack() {
		r.Reasons = append(r.Reasons, "a rollback is running")
	}
	for _, g := range readiness.Open(gates) {
		r.Reasons = append(r.Reasons, "table "+g.Table+": "+g.Figure)
	}
	r.Ready = len(r.Reasons) == 0
	return r
}

// keepsWayBack reports whether the cutover c has records of ways back that count.
func keepsWayBack(c *checkpoint.Cutover) bool {
	return c.WayBack && c.Step.Active() && c.FallbackEndedAt.IsZero()
}

// readWaysBack reads the records of the ways back of all cutovers, by table.
func readWaysBack(ctx context.Context, ledger *checkpoint.Ledger, all checkpoint.Cutovers) (map[string]checkpoint.Fallback, error) {
	var tables []string
	for i := range all {
		if keepsWayBack(&all[i]) {
			tables = append(tables, all[i].Tables...)
		}
	}
	found, err := ledger.Fallbacks(ctx, tables)
	if err != nil {
		return nil, err
	}
	byTable := map[string]checkpoint.Fallback{}
	for _, f := range found {
		byTable[f.Source] = f
	}
	return byTable, nil
}

// waysBack adds the states of the ways back to the tables.
func (m *Document) waysBack(l *Input) {
	for i, t := range l.Tables {
		c := l.Cutovers.Of(t.From, t.Pattern())
		f, found := l.WaysBack[t.From]
		if found && keepsWayBack(&c) && f.Attempt == c.Attempt {
			w := WayBackOf(f, m.At)
			m.Tables[i].WayBack = &w
		}
	}
}

// canRollBack judges whether the cutover c can be rolled back; nil if nothing follows.
func (l *Input) canRollBack(c checkpoint.Cutover, env config.Lookup, now time.Time) *CanRollBack {
	if !c.HasFallback() {
		return nil
	}
	var found []checkpoint.Fallback
	for _, source := range c.Tables {
		f := l.WaysBack[source]
		f.Source = source
		found = append(found, f)
	}
	return CanRollBackOf(c, readiness.RollbackGates(c, found, ReadyOf(l.Cfg), fallback.TimingsOf(env).Carried, now))
}

// followed returns the tables of the cutover that have a way back.
func (s subject) followed() (tables []*Table) {
	for i := range s.m.Tables {
		if t := &s.m.Tables[i]; t.WayBack != nil && slices.Contains(s.c.Tables, t.Source) {
			tables = append(tables, t)
		}
	}
	return tables
}

// wayBackLines describes the way back of each table of a cutover.
func wayBackLines(s subject) (lines []string) {
	tables := s.followed()
	for _, t := range tables {
		of := ""
		if len(s.c.Tables) > 1 || s.c.flag != "" {
			of = " of " + t.Source
		}
		lines = append(lines, fmt.Sprintf("Way back%s: %s", of, t.WayBack.Text()))
	}
	return lines
}

// kind names the attempt that is shown, at the beginning of a sentence.
func (s *Cutover) kind() string {
	if s.Latest().Direction == checkpoint.Back {
		return "Rollback"
	}
	return "Cutover"
}

// lostSteps returns the repair of each way back on which changes were lost.
func lostSteps(s subject) (steps []standing.NextStep) {
	for _, t := range s.followed() {
		if t.lost() {
			steps = append(steps, leads("verify --reverse --repair --table TABLE", about("changes were lost on the way back: "+*t.WayBack.Reason))(subject{m: s.m, t: t})...)
		}
	}
	return steps
}

// lost reports whether changes were lost on the way back of a table.
func (t *Table) lost() bool { return t.WayBack != nil && t.WayBack.LostSince != nil }
