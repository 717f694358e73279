package status

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/admin"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/loads"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// The phases of a migration, in order.
const (
	phasePrepare = "prepare"
	PhaseCopy    = "copy"
	PhaseInSync  = "in_sync"
	phaseDone    = "done"
)

var phases = admin.Phases

// statusSchema identifies the document's schema, status.schema.json.
const statusSchema = "replicator.status/v1"

// Document is the state of a migration: the document of `status -o json` and of /api/v1/status.
// Unknown values are null.
type Document struct {
	Schema   string         `json:"schema"`
	Name     string         `json:"name"`
	Phase    string         `json:"phase"`
	Standing                // the state of the whole migration
	At       time.Time      `json:"at"`
	Source   string         `json:"source"`
	Target   string         `json:"target"`
	Emulator bool           `json:"emulator"`
	Workers  []workerStatus `json:"workers"`  // workers that answer or hold a lease
	Standbys int            `json:"standbys"` // workers that hold no lease, coordinate no table and are not idle
	Leases   int            `json:"leases"`
	Tables   []Table        `json:"tables"`
	Shards   []Shard        `json:"shards,omitempty"`
	Cutover  Cutover        `json:"cutover"`  // the most urgent of Cutovers
	Cutovers []Cutover      `json:"cutovers"` // one for each group of tables
	// Receivers are the receivers of notifications that have failed for long or lost a notification.
	Receivers []receiverStatus    `json:"receivers,omitempty"`
	NextSteps []standing.NextStep `json:"next_steps"`

	loadsAgain bool // loads after a gap start automatically
	cutovers   checkpoint.Cutovers
	otherPlace string    // the cluster to which the app profile routes; "" if that is the ledger's cluster
	readAt     time.Time // when the ledger was read; if zero, at the time At
	lease      time.Duration
	with       string // flags to append to commands in next steps
	begun      bool   // true if the ledger exists, even if it has none of these tables
	workers    map[string]*workerStatus
}

// Standing is the state of a migration or of a table, the first of standing.States that applies.
type Standing struct {
	State  standing.State `json:"state"`  // the first state that applies; docs/http.md lists the states in this order
	Reason *string        `json:"reason"` // reason in one word; null if the state needs no reason
	Since  *time.Time     `json:"since"`  // time since which the state applies; null if unknown
	Detail *string        `json:"detail"` // to what the reason applies: a count, a name or the words of an error; null if there is nothing to add
}

// standingOf converts a condition for the document.
func standingOf(c standing.Condition) Standing {
	return Standing{State: c.State, Reason: terminal.Known(string(c.Reason)), Since: terminal.KnownTime(c.Since), Detail: terminal.Known(c.Detail)}
}

// workerStatus is one process, according to the ledger.
type workerStatus struct {
	ID      string   `json:"id"`
	Host    *string  `json:"host"`
	Version *string  `json:"version"`
	Leases  int      `json:"leases"`
	Keeps   []string `json:"keeps"` // source tables that have this worker as coordinator
	// HeartbeatAt is the time at which the worker last wrote to the ledger, by its own clock.
	HeartbeatAt *time.Time `json:"heartbeat_at"`
	// Silent reports whether the last heartbeat is older than three lease durations. Other
	// workers may acquire the shards of a silent worker.
	Silent bool `json:"silent"`
	// Idle reports whether the worker has no work, because the tables are cut over.
	Idle bool `json:"idle"`
	// ClockOffsetSeconds is how far the worker's clock is ahead of DynamoDB's; null if the
	// difference is less than a minute.
	ClockOffsetSeconds *float64 `json:"clock_offset_seconds"`

	beat  checkpoint.Heartbeat // last heartbeat
	parts int                  // number of parts of loads that the worker copies or sweeps
}

// Standby reports whether a worker is a standby: it answers and holds no lease, but would acquire a
// free lease.
func (w *workerStatus) Standby() bool {
	return !w.Silent && !w.Idle && w.Leases+w.parts == 0 && len(w.Keeps) == 0
}

// role returns the worker's role, one of admin.Roles, or "" if it does not answer.
func (w *workerStatus) role() string {
	switch {
	case w.Silent:
		return ""
	case w.Idle:
		return "idle"
	case w.Standby():
		return "standby"
	}
	return "active"
}

// WorkersByRole counts the workers that answer by their role, one of admin.Roles.
func (m *Document) WorkersByRole() map[string]int {
	counts := map[string]int{}
	for i := range m.Workers {
		if role := m.Workers[i].role(); role != "" {
			counts[role]++
		}
	}
	return counts
}

// TableInput is the ledger's data about a table.
type TableInput struct {
	Found       bool
	State       checkpoint.TableState
	Shards      []checkpoint.Shard
	Parked      int
	Merged      []checkpoint.Applied // in mode topic: the changes that are known to be applied
	Dead        checkpoint.DeadLetter
	Coordinator CoordinatorInput
	Parts       []checkpoint.Part   // parts of the load's current phase
	Targets     []checkpoint.Target // targets that the ledger knows
	findings    []targetFinding     // for targets that were checked
	// Listings is read only if a shard's children are unknown or unread.
	Listings checkpoint.Listings
}

// CoordinatorInput is the part of a coordinator's lease that status uses. The lease's row may also
// contain keys of items, so only its numbers are copied.
type CoordinatorInput struct {
	Owner     string
	Heartbeat checkpoint.Heartbeat
	pace      checkpoint.Pace
}

func NewDocument(cfg *config.Config, env config.Lookup, now time.Time) *Document {
	m := &Document{Schema: statusSchema, Name: cfg.Name, At: now.UTC(), Tables: []Table{}, NextSteps: []standing.NextStep{}, Workers: []workerStatus{},
		workers: map[string]*workerStatus{}, lease: cfg.State.Lease, loadsAgain: cfg.Backfill.OnGap == "load", Source: cfg.Source.Region, Target: cfg.Target.Project + "/" + cfg.Target.Instance}
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

// add judges one table, and adds it to the document.
func (m *Document) add(c config.Table, in TableInput) {
	t := Table{Source: c.From, Target: c.TargetNames(), Apply: in.State.Apply.String(), Parked: in.Parked, Shards: map[string]int{}, coordinator: in.Coordinator.Owner,
		Throttled: []throttledStatus{}, Troubles: []troubleStatus{}, NextSteps: []standing.NextStep{}}
	if c.Pattern() != "" {
		t.group = c.Group()
	}
	t.stands = standing.Of(m.facts(c, in))
	t.judged(m)
	for _, state := range admin.ShardStates {
		t.Shards[state] = 0
	}
	t.Copy.State = copyNotStarted
	if in.Found {
		t.recorded(&in.State)
		if step, ok := loads.Next(in.State, m.loadsAgain, m.with); ok {
			t.load = &step
		}
		t.noExport, t.copiedFrom = loads.NoExport(in.State), loads.CopiedFrom(in.State.Load)
		t.undeclared()
		t.fenced(in)
		progress := loads.ProgressOf(in.State, in.Parts, m.At, m.lease)
		t.Copy, t.slowed = copyOf(in.State, progress), progress.Slowed
		t.Verify = verifyOf(in.State, m.At)
	}
	if in.Coordinator.Owner != "" {
		w := m.worker(in.Coordinator.Owner, in.Coordinator.Heartbeat)
		w.Keeps = append(w.Keeps, c.From)
		if trouble := in.Coordinator.Heartbeat.Trouble; trouble != (checkpoint.Trouble{}) && standing.Answers(in.Coordinator.Heartbeat, m.At, m.lease) {
			trouble.Since = standing.TroubleSince(in.Coordinator.Heartbeat, m.At)
			t.troubled(trouble, 0)
		}
	}
	for _, p := range in.Parts {
		if p.Owner != "" {
			m.worker(p.Owner, p.Heartbeat).parts++
		}
	}
	t.suspended(in)
	if in.State.Paused() {
		t.Paused = &pausedStatus{Since: in.State.Pause.Since.UTC(), Reason: terminal.Known(in.State.Pause.Reason)}
	}
	m.addShards(&t, in)
	t.fromTopic(in)
	t.misplaced(in, m.At)
	t.throttledBy(in.Coordinator.pace, m.At)
	if t.stands.Left {
		t.leave()
	}
	m.Tables = append(m.Tables, t)
}

// leave clears the figures that have no meaning after the application has left the source.
func (t *Table) leave() {
	t.Troubles, t.Throttled, t.Paused, t.FenceReason = []troubleStatus{}, []throttledStatus{}, nil, nil
	t.load, t.noExport, t.copiedFrom, t.slowed = nil, "", "", nil
	t.Settling, t.waiting, t.silent, t.Suspended = 0, 0, 0, ""
}

// facts returns the data from which a table is judged.
func (m *Document) facts(c config.Table, in TableInput) standing.Facts {
	f := standing.Facts{Table: in.State, Named: c.Pattern() == "", Shards: in.Shards, Listings: in.Listings, Coordinator: in.Coordinator.Heartbeat, Merged: in.Merged,
		DeadLetter: in.Dead, Parked: in.Parked, Cutover: m.cutovers.Of(c.From, c.Pattern()), Doubts: in.doubts(m.At), LoadsAgain: m.loadsAgain, Lease: m.lease, ReadAt: m.readAt, Now: m.At}
	f.Table.Source = c.From
	if m.otherPlace != "" {
		f.Doubts = append(f.Doubts, standing.Doubt{Reason: standing.OtherCluster, Cause: m.otherPlace, Since: m.At})
	}
	return f
}

// judged copies the judged state into the table.
func (t *Table) judged(m *Document) {
	s := &t.stands
	t.Standing, t.Phase = standingOf(s.Conditions[0]), s.State().Phase()
	for _, c := range s.Conditions {
		step, leads := c.NextStep(t.Source, m.with)
		if leads && !slices.ContainsFunc(t.NextSteps, func(o standing.NextStep) bool { return o.Command == step.Command }) {
			t.NextSteps = append(t.NextSteps, step)
		}
	}
	t.LoadNeeded, t.NeedsLoadReason = s.LoadNeeded, terminal.Known(s.LoadReason)
	t.LagSeconds, t.LagEstimated = inSeconds(s.Lag), s.Estimated
	t.HeadroomSeconds, t.HeadroomAtMost = inSeconds(s.Headroom), s.AtMost
	t.OldestReadAt, t.Old, t.Childless, t.LongGone = terminal.KnownTime(s.OldestRead), s.Old, s.Childless, s.LongGone
	t.Behind = s.Behind
	if s.TopicLag != nil {
		lag := s.TopicLag.Seconds()
		t.TopicLag = &lag
	}
}

// dropped reports whether the source table no longer exists.
func (t *Table) dropped() bool { return t.stands.Dropped }

// drained reports whether the table's stream is read to its end.
func (t *Table) drained() bool { return t.stands.Drained }

// outlived reports whether some changes have waited longer than the stream keeps changes.
func (t *Table) outlived() bool { return t.HeadroomSeconds != nil && *t.HeadroomSeconds <= 0 }

// undeclared adds gaps that are only in the rows of their shards. The worker that found such a gap
// ended before it updated the table's record. The next coordinator declares the gap.
func (t *Table) undeclared() {
	for _, s := range t.stands.Undeclared {
		t.Gaps, t.LastGap = t.Gaps+1, &gapStatus{At: s.DoneAt.UTC(), Shard: terminal.Known(s.ID), Reason: s.Reason}
	}
}

// suspended adds the trouble of a table that cannot be replicated. Such a table matched a pattern,
// or was dropped. A dropped table is shown as trouble for one day. After that, if its stream was
// read to its end in time, only the table's line in the status shows the drop.
func (t *Table) suspended(in TableInput) {
	a := in.State.Suspended
	t.Suspended = a.Reason
	if a.Reason != "" && !t.LongGone {
		t.troubled(checkpoint.Trouble{Step: stepFollow, Cause: a.Reason, Since: a.Since}, 0)
	}
}

// stepFollow is the step that is shown as failing for a suspended table.
const stepFollow = "follow the table"

// standby adds the processes that answer to the workers, even if they hold no lease.
func (m *Document) standby(processes []checkpoint.Process) {
	for _, p := range processes {
		if standing.Answers(p.Heartbeat, m.At, m.lease) {
			m.worker(p.Worker, p.Heartbeat).Idle = p.Role == checkpoint.RoleIdle
		}
	}
}

// Beats reports whether a worker holds a lease or coordinates a table, according to the ledger.
func (m *Document) Beats(worker string) bool {
	w := m.workers[worker]
	return w != nil && !w.Silent && !w.Idle && !w.Standby()
}

// Working returns the workers that answer and are not idle, with their versions.
func (m *Document) Working() []string {
	return m.workersThat(func(w workerStatus) bool { return !w.Silent && !w.Idle })
}

// Outdated returns the workers that answer and do not know the cutovers of groups, with their versions.
func (m *Document) Outdated() []string {
	return m.workersThat(func(w workerStatus) bool { return !w.Silent && !w.beat.Records() })
}

func (m *Document) workersThat(match func(w workerStatus) bool) (names []string) {
	for _, w := range m.Workers {
		if !match(w) {
			continue
		}
		name := w.ID
		if w.Version != nil {
			name += " (version " + *w.Version + ")"
		}
		names = append(names, name)
	}
	return names
}

// worker returns the entry of a worker. It updates the entry with the heartbeat from one of the
// worker's rows.
func (m *Document) worker(id string, sign checkpoint.Heartbeat) *workerStatus {
	w := m.workers[id]
	if w == nil {
		w = &workerStatus{ID: id, Keeps: []string{}}
		m.workers[id] = w
	}
	if w.Host == nil {
		w.Host, w.Version = terminal.Known(sign.Holder.Host), terminal.Known(sign.Holder.Version)
	}
	if at := terminal.KnownTime(sign.WrittenAt); at != nil && (w.HeartbeatAt == nil || at.After(*w.HeartbeatAt)) {
		w.beat, w.HeartbeatAt, w.ClockOffsetSeconds = sign, at, nil
		if offset := sign.ClockOffset; offset != 0 {
			w.ClockOffsetSeconds = &offset
		}
	}
	return w
}

// throttledBy copies the limits for which a load waited, if the report is recent.
func (t *Table) throttledBy(pace checkpoint.Pace, now time.Time) {
	if t.Copy.State != copyRunning || now.Sub(pace.At) > time.Hour {
		return
	}
	for _, w := range pace.Throttled {
		window := max(0, pace.At.Sub(w.Since))
		t.Throttled = append(t.Throttled, throttledStatus{Reason: w.Reason, Seconds: w.Seconds, WindowSeconds: *inSeconds(&window), LastAt: w.Last})
	}
}

// conclude judges the whole migration, and computes the next steps.
func (m *Document) conclude() {
	for _, id := range slices.Sorted(maps.Keys(m.workers)) {
		w := m.workers[id]
		w.Silent = w.HeartbeatAt != nil && !standing.Answers(w.beat, m.At, m.lease)
		if w.Standby() {
			m.Standbys++
		}
		m.Workers = append(m.Workers, *w)
	}
	m.Standing, m.Phase = Standing{State: standing.Preparing}, phasePrepare
	if of := overall(m.Tables); of != nil {
		m.Standing, m.Phase = of.Standing, of.Phase
		m.Since = m.sharedSince()
	}
	m.NextSteps = m.steps()
}

// overall returns the table with the state that is shown for the whole migration; nil if there are
// no tables.
func overall(tables []Table) *Table {
	if i := standing.Overall(stand(tables)); i >= 0 {
		return &tables[i]
	}
	return nil
}

// stand returns the standings of the tables.
func stand(tables []Table) []standing.Standing {
	all := make([]standing.Standing, len(tables))
	for i := range tables {
		all[i] = tables[i].stands
	}
	return all
}

// text describes a failing step: which step, for how long, and where.
func (t troubleStatus) text(now time.Time) string {
	var about []string
	if !t.Since.IsZero() {
		about = append(about, "for "+since(&t.Since, now))
	}
	if t.Shards > 0 {
		about = append(about, "in "+terminal.Plural(t.Shards, "shard"))
	}
	if len(about) == 0 {
		return fmt.Sprintf("cannot %s: %s", t.Step, t.Cause)
	}
	return fmt.Sprintf("cannot %s (%s): %s", t.Step, strings.Join(about, " "), t.Cause)
}

// troubled adds a failure that affects a number of shards; 0 means the whole table. Failures of the
// same step are reported once, with the earliest start.
func (t *Table) troubled(trouble checkpoint.Trouble, shards int) {
	for i := range t.Troubles {
		if o := &t.Troubles[i]; o.Step == trouble.Step && o.Cause == trouble.Cause {
			o.Shards += shards
			if trouble.Since.Before(o.Since) {
				o.Since = trouble.Since
			}
			return
		}
	}
	t.Troubles = append(t.Troubles, troubleStatus{Step: trouble.Step, Cause: trouble.Cause, Since: trouble.Since.UTC(), Shards: shards, Throttled: trouble.Throttled})
	slices.SortFunc(t.Troubles, func(a, b troubleStatus) int {
		return cmp.Or(strings.Compare(a.Step, b.Step), strings.Compare(a.Cause, b.Cause))
	})
}
