// Package cutover drives a cutover from step to step. Any process may drive whose probe of all
// hooks passed; one at a time does, under a lease.
//
// Nothing rests on that lease. Each step is persisted before it is made, every change of the record
// demands the step that it was decided in, hooks refuse tokens below the highest they saw, a table is
// halted only for an attempt that is not over, and numbers of the fence only rise. So two drivers,
// or one that slept, do no harm.
package cutover

import (
	"context"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/fence"
)

// Source is what a driver needs of DynamoDB.
type Source interface {
	Describe(ctx context.Context, table string) (backfill.Description, error)
	// Put writes one item, Delete removes one.
	Put(ctx context.Context, table string, item attribute.Item) error
	Delete(ctx context.Context, table string, key attribute.Item) error
}

// The hooks.
const (
	FreezeWrites   = "freeze_writes"
	Switch         = "switch"
	UnfreezeWrites = "unfreeze_writes"
)

// HookNames are all hooks, in the order of their calls.
var HookNames = []string{FreezeWrites, Switch, UnfreezeWrites}

// Outcome is what is known of a hook after its call.
type Outcome string

// The outcomes. Refused promises that the hook did nothing.
const (
	HookDone    Outcome = "done"
	HookRefused Outcome = "refused"
	HookUnknown Outcome = "unknown"
)

// Call is one call of a hook.
type Call struct {
	Hook, Token, Step string
	Tables            []string
	Probe             bool // nothing is to be done: can it be called?
}

// Hooks calls them. A call ends with its context, and is unknown then.
type Hooks interface {
	Call(ctx context.Context, call Call) (output string, outcome Outcome)
}

// Verifier makes the final comparison of a table, of all items and rows.
type Verifier interface {
	// Begin begins one that the workers make.
	Begin(ctx context.Context, state checkpoint.TableState) (number uint32, err error)
	// Compare makes one in this process. Nothing writes meanwhile.
	Compare(ctx context.Context, state checkpoint.TableState) (checkpoint.VerifyResult, error)
	// Sample compares so many random items in this process. Nothing writes meanwhile.
	Sample(ctx context.Context, state checkpoint.TableState, items int) (checkpoint.VerifyResult, error)
}

// Settings are what a configuration says of cutovers, and periods. A zero period is its default.
type Settings struct {
	Ready  Ready
	Pass   time.Duration // between two looks; 1 s
	Idle   time.Duration // while there is no cutover; 5 s
	Hook   time.Duration // a probe of a hook, and an answer of the source, may take; 30 s
	Call   time.Duration // one call of a hook may take, within the deadline of its step; 10 min
	Look   time.Duration // between two looks at the streams after the switch; 1 min
	Silent time.Duration // a process may take to say goodbye while the application is frozen; 2 s
	Ask    time.Duration // between two looks for its answer; 200 ms
	Quiet  time.Duration // W: empty pages of a shard without a canary; 20 s
	Brisk  time.Duration // between two looks while the application is frozen; 200 ms
	Fresh  time.Duration // age of the look at which all held when the application is frozen; 200 ms
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
	or(&s.Ready.Lease, 20*time.Second)
	return s
}

// Driver drives the cutover of one pipeline.
type Driver struct {
	Ledger   *checkpoint.Ledger
	Fence    fence.Fence
	Hooks    Hooks
	Source   Source
	Open     func(streamARN string) cdc.Source
	Verifier Verifier
	// Parked are the hashes of the items of a table that are parked.
	Parked   func(ctx context.Context, table string) ([]string, error)
	Settings Settings
	// Announce has the witness of a source table in a target table name the number of the fence that
	// holds now, for an application that writes the target too; nil: nothing of its kind.
	Announce func(ctx context.Context, source, target string) error
	// Cluster says which cluster the app profile routes to, "" if that is unknown; nil: nobody asks.
	Cluster func(ctx context.Context) (string, error)
	// Version is that of this process: it drives no attempt that another version began. "" drives all.
	Version string
	// OnStep, if not nil, hears of each step; Failed of what goes wrong and is repeated.
	OnStep func(c checkpoint.Cutover)
	Failed func(step string, err error)
}
