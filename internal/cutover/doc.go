// Package cutover drives a cutover from step to step. A process may drive if its probe of all hooks
// has passed. Only one process at a time drives, under a lease.
//
// The lease only saves work. Two drivers at the same time, or a driver that slept, do no harm for
// four reasons. A driver records each step before it carries the step out, and a change of the
// record fails if the step has changed since the decision. A hook refuses a token that is lower
// than the highest token that it has seen. A table is halted only for an attempt that is running.
// The numbers of the fence only rise.
package cutover

import (
	"cmp"
	"context"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/canary"
	"github.com/dynamodb-bigtable/replicator/internal/fence"
	"github.com/dynamodb-bigtable/replicator/internal/readiness"
)

// Source holds the requests to DynamoDB that a driver needs.
type Source interface {
	Describe(ctx context.Context, table string) (backfill.Description, error)
	// Put writes one item. Delete removes one item.
	Put(ctx context.Context, table string, item attribute.Item) error
	Delete(ctx context.Context, table string, key attribute.Item) error
}

// The names of the hooks.
const (
	FreezeWrites   = "freeze_writes"
	Switch         = "switch"
	UnfreezeWrites = "unfreeze_writes"
)

// HookNames are the names of all hooks, in the order of their calls.
var HookNames = []string{FreezeWrites, Switch, UnfreezeWrites}

// The directions of a hook's call: from the source to the target, and back in a rollback.
const (
	Forward = "forward"
	Back    = "back"
)

// Outcome is the outcome of a hook's call, as far as it is known.
type Outcome string

// The outcomes. Refused is a promise of the hook that it did nothing. Quiet is Done, with a promise
// of an application that also writes the target: it has no request to the target in flight, every
// request of the last dual_writes.settle was answered, and no instance was killed or scaled down
// within that time.
const (
	HookDone    Outcome = "done"
	HookQuiet   Outcome = checkpoint.HookQuiet
	HookRefused Outcome = "refused"
	HookUnknown Outcome = "unknown"
)

// Done reports whether the hook did what it was asked for.
func (o Outcome) Done() bool { return o == HookDone || o == HookQuiet }

// Call describes one call of a hook.
type Call struct {
	Hook, Token, Step string
	// Direction is Forward, or Back in a rollback. "" means Forward.
	Direction string
	Group     string // name of the group of tables
	Tables    []string
	Probe     bool // only checks that the hook can be called; the hook must do nothing
	// Deadline is when this try must end, by the source's clock. Left is the time from now until
	// then. Both are zero in a probe.
	Deadline time.Time
	Left     time.Duration
}

// Hooks calls the hooks. If the context of a call ends first, the outcome is unknown.
type Hooks interface {
	Call(ctx context.Context, call Call) (output string, outcome Outcome)
}

// Verifier makes the final comparison of a table. It compares all items and rows.
type Verifier interface {
	// Begin starts a comparison that the workers carry out.
	Begin(ctx context.Context, state checkpoint.TableState) (number uint32, err error)
	// Compare carries out the comparison in this process. Meanwhile no program may write the source
	// or the target.
	Compare(ctx context.Context, state checkpoint.TableState) (checkpoint.VerifyResult, error)
	// Sample compares the given number of random items in this process. Meanwhile no program may
	// write the source or the target.
	Sample(ctx context.Context, state checkpoint.TableState, items int) (checkpoint.VerifyResult, error)
	// Reverse compares all items and rows of a table that is cut over, in this process. Meanwhile no
	// program may write the source or the target.
	Reverse(ctx context.Context, source string) (checkpoint.ReverseResult, error)
}

// Settings are the settings of cutovers from the configuration, and the time limits of a driver. A
// duration of zero stands for its default.
type Settings struct {
	Ready readiness.Limits
	Pass  time.Duration // time between two passes; default 1 s
	Idle  time.Duration // time between two passes while there is no cutover; default 5 s
	// Hook is the timeout of a probe of a hook, and of a request to the source; default 30 s.
	Hook time.Duration
	// Call is the timeout of a call of a hook, within the deadline of the try; default 10 min.
	Call time.Duration
	Look time.Duration // time between two reads of the streams after the switch; default 1 min
	// Silent is how long a process may take to say goodbye during the freeze; default 2 s.
	Silent time.Duration
	Ask    time.Duration // time between two checks for goodbyes; default 200 ms
	Quiet  time.Duration // how long a shard without a canary must return empty pages; default 20 s
	Brisk  time.Duration // time between two passes during the freeze; default 200 ms
	// Carried is how long after the freeze of a rollback the changes must have reached the source;
	// default 60 s. The watermarks of Bigtable are estimates.
	Carried time.Duration
	Fresh   time.Duration // maximum age of the survey when the freeze begins; default 200 ms
	// Candidates is the maximum number of canaries that a table gets; default 20,000.
	Candidates int
}

func (s Settings) orDefault() Settings {
	or := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	or(&s.Pass, time.Second)
	or(&s.Idle, 5*time.Second)
	or(&s.Hook, 30*time.Second)
	or(&s.Call, 10*time.Minute)
	or(&s.Look, time.Minute)
	or(&s.Silent, 2*time.Second)
	or(&s.Ask, 200*time.Millisecond)
	or(&s.Quiet, 20*time.Second)
	or(&s.Brisk, 200*time.Millisecond)
	or(&s.Fresh, 200*time.Millisecond)
	or(&s.Carried, readiness.Carried)
	or(&s.Ready.Lease, 20*time.Second)
	s.Candidates = cmp.Or(s.Candidates, canary.Most)
	return s
}

// Driver drives the cutover of one group of tables.
type Driver struct {
	Ledger *checkpoint.Ledger
	Row    string // the record of the group (checkpoint.Cutover.Row)
	Fence  fence.Fence
	Hooks  Hooks
	// Missing are the names of hooks that are not configured, because policies freeze the tables.
	Missing []string
	// Freezer freezes tables by their policies; nil if this process cannot.
	Freezer  Freezer
	Source   Source
	Open     func(streamARN string) cdc.Source
	Verifier Verifier
	// Parked returns the hashes of the parked items of a table.
	Parked   func(ctx context.Context, table string) ([]string, error)
	Settings Settings
	// WayBack checks whether the way back of a table is possible. It may remember its answer for some
	// minutes. If it is nil, no attempt gets a way back.
	WayBack func(ctx context.Context, source string) (WayBack, error)
	// Announce writes the fence's current number into the witness row of a source table in a target
	// table. An application that also writes the target reads the number there. Announce is nil if
	// there is no such application.
	Announce func(ctx context.Context, source, target string) error
	// Cluster returns the cluster to which the app profile routes; "" if it is unknown. If the
	// function is nil, the cluster is not checked.
	Cluster func(ctx context.Context) (string, error)
	// Version is the version of this process. The process drives no attempt that another version
	// began. If Version is "", the process drives all attempts.
	Version string
	// OnStep, if not nil, is called at the beginning of each step. Failed, if not nil, is called
	// with each failure that is retried.
	OnStep func(c checkpoint.Cutover)
	Failed func(step string, err error)

	mayBeQuiet bool // the last probe said that the application may promise to be quiet
}
