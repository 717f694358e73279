package main

import (
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/admin"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// The phases of a migration, in order. This version comes as far as in_sync.
const (
	phasePrepare = "prepare"
	phaseCopy    = "copy"
	phaseInSync  = "in_sync"
)

var phases = admin.Phases

// migration is where a migration stands: the document of `status -o json` and of /api/v1/status. What cannot be told is null.
type migration struct {
	Schema    string        `json:"schema"` // replicator.status/v1
	Name      string        `json:"name"`
	Phase     string        `json:"phase"`
	At        time.Time     `json:"at"`
	Source    string        `json:"source"`
	Target    string        `json:"target"`
	Emulator  bool          `json:"emulator"`
	Workers   int           `json:"workers"` // that hold a lease
	Leases    int           `json:"leases"`
	Tables    []tableStatus `json:"tables"`
	Shards    []shardStatus `json:"shards,omitempty"`
	NextSteps []nextStep    `json:"next_steps"`

	owners map[string]bool
	silent time.Duration // how long the table that was not read for the longest time has not been read
	lease  time.Duration
}

// tableStatus is one source table.
type tableStatus struct {
	Source string `json:"source"`
	Target string `json:"target"`
	Phase  string `json:"phase"`
	// Generation is null before the first start.
	Generation       *uint32        `json:"generation"`
	NeedsLoad        bool           `json:"needs_load"`
	NeedsLoadReason  *string        `json:"needs_load_reason"`
	Gaps             int            `json:"gaps"`
	Copy             copyStatus     `json:"copy"`
	LagSeconds       *float64       `json:"lag_seconds"`
	LagEstimated     bool           `json:"lag_estimated"` // the time since the stream was last found empty
	HeadroomSeconds  *float64       `json:"headroom_seconds"`
	ChangesPerSecond *float64       `json:"changes_per_second"` // the ledger does not tell
	Parked           int            `json:"parked"`
	Verify           *string        `json:"verify"` // comes with a later version
	Shards           map[string]int `json:"shards"`

	oldestRead time.Time // of the shards that are being read; zero if none is
}

// copyStatus is the copy of the items that existed at the start.
type copyStatus struct {
	State    string     `json:"state"` // not_started, running, done
	Items    *int64     `json:"items"`
	Estimate *int64     `json:"estimate"`
	Started  *time.Time `json:"started_at"`
	Done     *time.Time `json:"done_at"`
}

// shardStatus is one shard.
type shardStatus struct {
	Source    string     `json:"source"`
	ID        string     `json:"id"`
	Parent    *string    `json:"parent"`
	State     string     `json:"state"`
	Hop       uint32     `json:"hop"`
	Epoch     uint64     `json:"epoch"`
	Owner     *string    `json:"owner"`
	EventTime *time.Time `json:"event_time"` // of the last applied change
	ReadAt    *time.Time `json:"read_at"`
	Reason    *string    `json:"reason"`
}

// nextStep is something to do.
type nextStep struct {
	Command string `json:"command"`
	Why     string `json:"why"`
}

// tableInput is what the ledger holds of a table.
type tableInput struct {
	found  bool
	state  checkpoint.TableState
	shards []checkpoint.Shard
	parked int
	copied int64 // items that a running load has made durable
}

func newMigration(cfg *config.Config, env config.Lookup, now time.Time) *migration {
	m := &migration{Schema: "replicator.status/v1", Name: cfg.Name, At: now.UTC(), Tables: []tableStatus{}, NextSteps: []nextStep{},
		owners: map[string]bool{}, lease: cfg.State.Lease, Source: cfg.Source.Region, Target: cfg.Target.Project + "/" + cfg.Target.Instance}
	if m.Source == "" {
		m.Source, _ = env("AWS_REGION")
	}
	if m.Source == "" {
		m.Source = "DynamoDB"
	}
	if host, _ := env("BIGTABLE_EMULATOR_HOST"); host != "" {
		m.Emulator = true
		m.Target += " EMULATOR"
	}
	return m
}

// add judges one table.
func (m *migration) add(c config.Table, in tableInput) {
	t := tableStatus{Source: c.From, Target: c.To, Phase: phasePrepare, Parked: in.parked, Shards: map[string]int{}}
	for _, state := range admin.ShardStates {
		t.Shards[state] = 0
	}
	t.Copy.State = "not_started"
	if in.found {
		t.Generation = &in.state.Generation
		t.NeedsLoad, t.NeedsLoadReason, t.Gaps = in.state.NeedsLoad, known(in.state.Reason), in.state.GapCount
		t.Copy = copyOf(in.state, in.copied)
		t.Phase = phaseCopy
		// A table that needs a load is never in sync, whatever else holds.
		if in.state.Loaded() && in.state.Adopted == in.state.Generation {
			t.Phase = phaseInSync
		}
	}
	for i := range in.shards {
		s := &in.shards[i]
		t.Shards[string(s.State)]++
		if s.Owner != "" && !s.Finished() {
			m.owners[s.Owner] = true
			m.Leases++
		}
		m.Shards = append(m.Shards, shardStatus{Source: c.From, ID: s.ID, Parent: known(s.Parent), State: string(s.State), Hop: s.Hop,
			Epoch: s.Epoch, Owner: known(s.Owner), EventTime: knownTime(s.EventTime), ReadAt: knownTime(s.ReadAt), Reason: known(s.Reason)})
	}
	t.measure(in, m.At)
	if !t.oldestRead.IsZero() {
		m.silent = max(m.silent, m.At.Sub(t.oldestRead))
	}
	m.Tables = append(m.Tables, t)
}

// measure takes the lag of the shard that is furthest behind.
func (t *tableStatus) measure(in tableInput, now time.Time) {
	var worst time.Duration
	estimated, any, unread := false, false, false
	consider := func(covered time.Time, empty bool) {
		lag := max(0, now.Sub(covered))
		if !any || lag > worst {
			worst, estimated = lag, empty
		}
		any = true
	}
	parents := map[string]*checkpoint.Shard{}
	for i := range in.shards {
		if s := &in.shards[i]; s.Label == in.state.Label {
			parents[s.ID] = s
		}
	}
	for i := range in.shards {
		s := &in.shards[i]
		if s.Finished() || s.Label != in.state.Label {
			continue
		}
		if s.State == checkpoint.Reading && !s.ReadAt.IsZero() && (t.oldestRead.IsZero() || s.ReadAt.Before(t.oldestRead)) {
			t.oldestRead = s.ReadAt
		}
		switch parent := parents[s.Parent]; {
		case s.CaughtUp && !s.ReadAt.IsZero():
			consider(s.ReadAt, true)
		case !s.EventTime.IsZero():
			consider(s.EventTime, false)
		case !s.ReadAt.IsZero():
			consider(s.ReadAt, true)
		case parent != nil && !parent.Finished():
			// Its parent is behind, and counts.
		case parent != nil && !parent.DoneAt.IsZero():
			consider(parent.DoneAt, true)
		default:
			unread = true
		}
	}
	if !any || unread { // of a shard that was never read nothing can be said
		return
	}
	lag, headroom := worst.Seconds(), (cdc.Retention - worst).Seconds()
	t.LagSeconds, t.LagEstimated, t.HeadroomSeconds = &lag, estimated, &headroom
}

func copyOf(state checkpoint.TableState, copied int64) copyStatus {
	load := state.Load
	if load.Generation != state.Generation || load.StartedAt.IsZero() {
		return copyStatus{State: "not_started"}
	}
	c := copyStatus{State: "running", Items: &copied, Estimate: &load.Estimate, Started: &load.StartedAt}
	if !load.DoneAt.IsZero() {
		c.State, c.Items, c.Done = "done", &load.Items, &load.DoneAt
	}
	return c
}

// String is the cell of the text table.
func (c copyStatus) String() string {
	switch {
	case c.State == "done":
		return "done (" + backfill.FormatDuration(c.Done.Sub(*c.Started)) + ")"
	case c.State == "not_started":
		return "-"
	case *c.Estimate > 0 && *c.Items <= *c.Estimate:
		return fmt.Sprintf("%d%%", *c.Items*100 / *c.Estimate)
	default:
		return backfill.FormatCount(float64(*c.Items)) + " items"
	}
}

// conclude judges the migration as a whole, and says what to do next.
func (m *migration) conclude() {
	m.Workers = len(m.owners)
	m.Phase = phaseInSync
	begun := false
	for _, t := range m.Tables {
		begun = begun || t.Phase != phasePrepare
		if t.Phase != phaseInSync {
			m.Phase = phaseCopy
		}
	}
	if !begun {
		m.Phase = phasePrepare
	}
	next := func(command, why string) { m.NextSteps = append(m.NextSteps, nextStep{command, why}) }
	switch {
	case !begun:
		next("replicator run", "nothing was started yet")
	case m.Leases == 0:
		next("replicator run", "no worker reads the stream, which keeps changes for 24 hours only")
	case m.silent > 2*m.lease:
		next("replicator run", "the stream was last read "+backfill.FormatDuration(m.silent)+" ago, and is kept for 24 hours only")
	}
	for _, t := range m.Tables {
		if t.NeedsLoad {
			next("replicator run -c OTHER.yaml", fmt.Sprintf("%s lost changes: copy it anew, with another `name` and another `to`", t.Source))
		}
		if t.Parked > 0 {
			verb := "need"
			if t.Parked == 1 {
				verb = "needs"
			}
			next("replicator parked list --table "+t.Source, plural(t.Parked, "item")+" "+verb+" a decision")
		}
	}
}

// known is nil for what is not known.
func known(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func knownTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// verdict is the answer of a run that has done all it could: nil, or why the target is not the image of the source.
func (m *migration) verdict() error {
	var found diag.List
	for _, t := range m.Tables {
		if t.NeedsLoad {
			found = append(found, &diag.Error{Code: diag.NeedsLoad, What: fmt.Sprintf("table %s needs a load", t.Source), Cause: orDash(t.NeedsLoadReason)})
		}
		if t.Parked > 0 {
			found = append(found, &diag.Error{Code: diag.ItemsParked, What: plural(t.Parked, "item") + " of table " + t.Source + " could not be stored",
				Cause: "parked with their reasons; everything else is applied", Fix: "replicator parked list --table " + t.Source})
		}
	}
	return found.Err()
}
