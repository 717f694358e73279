package status

import (
	"fmt"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/clock"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"slices"
	"time"
)

// unmanned tells whether something may be left to read, and no worker is there to do it. A worker
// that holds no lease may keep a table, whose shards have all ended or were not listed yet.
func (m *Document) unmanned() bool {
	lives := slices.ContainsFunc(m.Workers, func(w workerStatus) bool { return !w.Silent })
	return m.Leases == 0 && !lives && slices.ContainsFunc(m.Tables, func(t Table) bool { return !t.drained() && t.Paused == nil })
}

// next adds a step, or another reason for the one before it. Its command finds the configuration
// that this one found.
func (m *Document) next(command, why string) {
	m.step(standing.NextStep{Command: standing.Command(command, "", m.with), Why: why})
}

// step adds a step, or another reason for the one before it.
func (m *Document) step(step standing.NextStep) {
	if n := len(m.NextSteps); n > 0 && m.NextSteps[n-1].Command == step.Command {
		m.NextSteps[n-1].Why += "; " + step.Why
		return
	}
	m.NextSteps = append(m.NextSteps, step)
}

// littleHeadroom is what an operator is warned of; the alert ReplicatorDataLossImminent uses the
// same time.
const littleHeadroom = 6 * time.Hour

// advise says what to do. Started tells that the ledger knows one of the tables.
func (m *Document) advise(started bool) {
	switch {
	case !started && !m.begun:
		m.next("run", terminal.NotStarted)
	case !started && len(m.Tables) == 0:
		m.next("run", "no table of the patterns was found yet")
	case !started:
		m.adviseUnmet()
	case m.unmanned():
		m.next("run", "no worker reads the stream, which keeps changes for 24 hours only")
	default:
		m.adviseReading()
	}
	if started && m.Leases > 0 {
		m.adviseNew()
	}
	m.adviseClocks()
	for _, t := range m.Tables {
		if t.Paused != nil {
			m.next("resume --table "+t.Source, fmt.Sprintf("%s: paused for %s; the stream keeps changes for 24 hours only", t.Source, since(&t.Paused.Since, m.At)))
		}
		look := "status --shards --table " + t.Source
		if t.outlived() {
			m.next(look, fmt.Sprintf("%s: not applied for %s, and the stream keeps changes for 24 hours: reading it again will show whether any were lost", t.Source,
				backfill.FormatDuration(cdc.Retention-AsDuration(*t.HeadroomSeconds))))
		} else if h := t.HeadroomSeconds; h != nil && *h < littleHeadroom.Seconds() {
			m.next(look, fmt.Sprintf("%s: %s until the stream drops changes that are not applied", t.Source, seconds(h)))
		}
		for _, trouble := range t.Troubles {
			m.next(look, fmt.Sprintf("%s: %s", t.Source, trouble.text(m.At)))
		}
		if t.FenceReason != nil {
			m.next("plan --print-iam gcp", fmt.Sprintf("%s: late writes are not fenced: %s", t.Source, *t.FenceReason))
		}
		if t.LongGone && t.group == "" {
			m.next("lint", t.Source+" does not exist any more: take it out of the configuration, or create it again")
		}
		if t.load != nil {
			m.step(standing.NextStep{Command: t.load.Command, Why: t.Source + ": " + t.load.Why})
		}
		if t.Parked > 0 {
			verb := "need"
			if t.Parked == 1 {
				verb = "needs"
			}
			m.next("parked list --table "+t.Source, terminal.Plural(t.Parked, "item")+" "+verb+" a decision")
		}
		for _, c := range t.stands.Conditions {
			if step, leads := c.NextStep(t.Source, m.with); leads && c.State == standing.Differs {
				m.step(standing.NextStep{Command: step.Command, Why: t.Source + ": " + step.Why})
			}
		}
	}
}

// adviseUnmet tells of tables that no worker has met, though there is a ledger: it may know others.
func (m *Document) adviseUnmet() {
	for _, t := range m.Tables {
		if t.group == "" {
			m.next("run", t.Source+": "+terminal.NotStarted)
			continue
		}
		m.next("status", fmt.Sprintf("%s matches the pattern of %s, and no worker has found it yet: is it there, and in this region?", t.Source, t.group))
	}
}

// adviseClocks tells of workers that wrote to the ledger in what is the future here. Lag and
// headroom are times of workers held against this clock. A worker whose clock is behind cannot be
// told from one that is silent.
func (m *Document) adviseClocks() {
	for _, w := range m.Workers {
		if w.ClockOffsetSeconds != nil {
			m.next("status --shards", fmt.Sprintf("the clock of worker %s is %s DynamoDB's: set it", w.ID, clock.Text(AsDuration(*w.ClockOffsetSeconds))))
			continue
		}
		if w.HeartbeatAt != nil && w.HeartbeatAt.Sub(m.At) > m.lease {
			m.next("status --shards", fmt.Sprintf("the clock of worker %s is %s ahead of this machine's: one of the two is wrong, and lag and headroom with it", w.ID, backfill.FormatDuration(w.HeartbeatAt.Sub(m.At))))
		}
	}
}

// adviseNew tells of named tables that no worker has met, though others are followed: nothing of
// them is copied, and their streams keep changes for a day only. Those that run were started before
// the table stood in their configuration, or cannot reach it.
func (m *Document) adviseNew() {
	for _, t := range m.Tables {
		if t.Generation == nil && t.group == "" {
			m.next("run", t.Source+": "+terminal.NotStarted+"; restart the workers with this configuration")
		}
	}
}

// adviseReading asks for a worker where shards are read by nobody: the leases of one that is gone,
// and shards that nobody takes.
func (m *Document) adviseReading() {
	for _, t := range m.Tables {
		switch {
		case t.silent > 0:
			m.next("run", fmt.Sprintf("%s: %s held by a worker that is silent; a running one takes over within moments", t.Source, terminal.Plural(t.silent, "shard")))
		case t.waiting > 0 && t.Old:
			m.next("run", fmt.Sprintf("%s: no worker takes %s, and the stream is kept for 24 hours only", t.Source, terminal.Plural(t.waiting, "shard")))
		case t.Old && len(t.Troubles) == 0:
			m.next("status --shards --table "+t.Source, fmt.Sprintf("%s was last read %s ago, though its worker lives", t.Source, since(t.OldestReadAt, m.At)))
		}
	}
}
