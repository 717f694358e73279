package switchover

import (
	"fmt"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/readiness"
)

// CanRollBack reports whether the application can be moved back now. If not, it lists the reasons.
type CanRollBack struct {
	Ready   bool     `json:"ready"`
	Reasons []string `json:"reasons"`
}

// FallbackState is the state of the way back of a table.
type FallbackState struct {
	Table string `json:"table"`
	State string `json:"state"`
	// LagSeconds is how far DynamoDB is behind Bigtable; null if it is unknown.
	LagSeconds *float64 `json:"lag_seconds"`
	Parked     int      `json:"parked"`   // rows that cannot be carried
	InDoubt    int      `json:"in_doubt"` // requests whose outcome is unknown
	// LostSince and Reason describe changes that were lost; null if none were.
	LostSince *time.Time `json:"lost_since"`
	Reason    *string    `json:"reason"`
}

// canRollBack returns the reasons why a rollback is refused, from its gates.
func canRollBack(c checkpoint.Cutover, gates []checkpoint.CutoverGate) *CanRollBack {
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

// following adds the states of the ways back to the document.
func (d *Document) following(all []checkpoint.Fallback, now time.Time) {
	for _, f := range all {
		s := FallbackState{Table: f.Source, State: string(f.State), Parked: f.Parked, InDoubt: f.Doubts}
		if f.DoubtUntil.After(now) {
			s.InDoubt++
		}
		if !f.Settled.IsZero() {
			lag := max(now.Sub(f.Settled), 0).Seconds()
			s.LagSeconds = &lag
		}
		if f.State == checkpoint.FallbackGap {
			since, reason := f.Since, f.Reason
			s.LostSince, s.Reason = &since, &reason
		}
		d.Fallbacks = append(d.Fallbacks, s)
	}
}

// text describes the way back in one line.
func (s FallbackState) text() string {
	if s.LostSince != nil {
		return fmt.Sprintf("lost since %s, because %s", s.LostSince.UTC().Format(time.RFC3339), *s.Reason)
	}
	parts := []string{s.State}
	if s.LagSeconds != nil {
		parts = append(parts, backfill.FormatDuration(time.Duration(*s.LagSeconds*float64(time.Second)))+" behind")
	}
	return strings.Join(append(parts, fmt.Sprintf("%d parked", s.Parked), fmt.Sprintf("%d in doubt", s.InDoubt)), ", ")
}

func (d *Document) writeFallbacks(b *strings.Builder) {
	for _, s := range d.Fallbacks {
		of := ""
		if len(d.Fallbacks) > 1 {
			of = " of " + s.Table
		}
		fmt.Fprintf(b, "  way back%s: %s\n", of, s.text())
	}
	if r := d.CanRollBack; r != nil && !r.Ready {
		fmt.Fprintf(b, "  cannot roll back: %s\n", strings.Join(r.Reasons, "; "))
	}
}
