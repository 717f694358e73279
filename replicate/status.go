package replicate

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/desk"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/status"
)

// State is the state of a migration or of a table. Of the states that apply to a table, the first
// in the order of these constants is its state. docs/http.md describes the states.
type State string

// The states.
const (
	Done       State = "done"        // the application no longer uses the source
	Cutover    State = "cutover"     // the application is being moved, or was moved and late writers are watched for
	Unknown    State = "unknown"     // the ledger or the target cannot be read
	Paused     State = "paused"      // an operator paused the table
	NeedsLoad  State = "needs_load"  // changes or rows are missing
	Stalled    State = "stalled"     // the stream is not read
	Preparing  State = "preparing"   // no worker has followed the table yet
	Copying    State = "copying"     // existing items are being copied
	Sweeping   State = "sweeping"    // rows that the copy did not write are compared with the source
	Parked     State = "parked"      // items could not be stored
	Differs    State = "differs"     // a comparison found rows that differ
	CatchingUp State = "catching_up" // changes are not applied yet
	InSync     State = "in_sync"     // every change is applied
)

// Status is the state of a migration according to its ledger, which covers the workers of all
// processes.
type Status struct {
	Name      string
	State     State
	Reason    string    // reason of the state, in one word; "" if it needs none
	Since     time.Time // time since which the state applies; zero if unknown
	At        time.Time // time at which the ledger was read
	Workers   int       // workers that answer or hold a lease
	Standbys  int       // those of them that have no work
	Tables    []TableStatus
	NextSteps []NextStep

	document *status.Document
}

// TableStatus is the state of one source table.
type TableStatus struct {
	Source string
	Target string
	State  State
	Reason string    // as in Status
	Since  time.Time // as in Status
	// Lag is the age of the last applied change while changes wait, and otherwise the time since
	// the stream was last empty; nil if it is unknown.
	Lag *time.Duration
	// Headroom is the time until the stream drops changes that are not applied; nil if it is
	// unknown.
	Headroom  *time.Duration
	Parked    int // items that could not be stored
	NextSteps []NextStep
}

// NextStep is a command of the program replicator to run next.
type NextStep struct {
	Command string
	Why     string
}

// Document returns the whole status in JSON: the document of `replicator status -o json`, with the
// schema replicator.status/v1.
func (s *Status) Document() ([]byte, error) { return json.Marshal(s.document) }

// Status reads the ledger once. It opens connections and closes them. Before the first Run, the
// state is Preparing.
func (r *Replicator) Status(ctx context.Context) (*Status, error) {
	read, closed, err := r.reader(ctx)
	if err != nil {
		return nil, public(err)
	}
	defer closed()
	d, err := read.Read(preflight.WithClients(ctx, r.clients))
	if err != nil {
		return nil, public(err)
	}
	return statusOf(d), nil
}

// Goal is what Wait waits for.
type Goal string

// The goals.
const (
	GoalInSync Goal = Goal(standing.GoalInSync) // the state is InSync or Done
	GoalCopied Goal = Goal(standing.GoalCopied) // existing items are copied: the state is Sweeping or one of the states after it
	GoalDone   Goal = Goal(standing.GoalDone)   // the state is Done
)

// waitEvery is the time between two reads of Wait.
const waitEvery = time.Second

// Wait reads the ledger every second until a goal is reached, and returns the last status that it
// read; nil if it read none. It fails if the goal cannot be reached without an operator, for
// example because items are parked. If ctx ends first, the error is the cause of ctx.
func (r *Replicator) Wait(ctx context.Context, goal Goal) (*Status, error) {
	if !slices.Contains(standing.Goals, standing.Goal(goal)) {
		return nil, public(&diag.Error{Code: diag.Usage, What: fmt.Sprintf("%q is not a goal", string(goal)), Cause: "Wait waits for one of the goals of this package",
			Fix: "give replicate.GoalInSync, GoalCopied or GoalDone"})
	}
	read, closed, err := r.reader(ctx)
	if err != nil {
		return nil, public(err)
	}
	defer closed()
	var last *Status
	d, err := read.Wait(preflight.WithClients(ctx, r.clients), standing.Goal(goal), waitEvery)
	if d != nil {
		last = statusOf(d)
	}
	if err != nil && ctx.Err() != nil {
		return last, context.Cause(ctx)
	}
	return last, public(err)
}

// reader opens the migration. The caller must call `closed` in the end.
func (r *Replicator) reader(ctx context.Context) (read *status.Reader, closed func(), err error) {
	console := r.console()
	console.Stderr = io.Discard // it would repeat the target's name
	m, err := desk.Ends{}.Open(preflight.WithClients(ctx, r.clients), console, r.cfg, desk.Request{Command: "status"})
	if err != nil {
		return nil, nil, err
	}
	return &status.Reader{Config: r.cfg, Migration: m, Env: console.Env, Hints: r.hints}, func() { _ = m.Close() }, nil
}

// statusOf converts the document.
func statusOf(d *status.Document) *Status {
	s := &Status{Name: d.Name, At: d.At, Workers: len(d.Workers), Standbys: d.Standbys, NextSteps: nextSteps(d.NextSteps), document: d}
	s.State, s.Reason, s.Since = conditionOf(d.Standing)
	for i := range d.Tables {
		t := &d.Tables[i]
		one := TableStatus{Source: t.Source, Target: t.Target, Lag: seconds(t.LagSeconds), Headroom: seconds(t.HeadroomSeconds), Parked: t.Parked, NextSteps: nextSteps(t.NextSteps)}
		one.State, one.Reason, one.Since = conditionOf(t.Standing)
		s.Tables = append(s.Tables, one)
	}
	return s
}

func conditionOf(c status.Standing) (state State, reason string, since time.Time) {
	if c.Reason != nil {
		reason = *c.Reason
	}
	if c.Since != nil {
		since = *c.Since
	}
	return State(c.State), reason, since
}

func nextSteps(steps []standing.NextStep) (out []NextStep) {
	for _, step := range steps {
		out = append(out, NextStep(step))
	}
	return out
}

// seconds returns a number of seconds as a duration; nil if it is unknown.
func seconds(n *float64) *time.Duration {
	if n == nil {
		return nil
	}
	return new(time.Duration(*n * float64(time.Second)))
}
