package tablepolicy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// Freezer freezes one table and ends the freeze. It must not be used concurrently, except for
// Watch.
type Freezer struct {
	Table    string   // the table's ARN
	Hash     string   // the ledger's hash (HashOf)
	Exempt   []string // ARNs of the principals that may write, with this program's role
	Probe    string   // ARN of the probe's role
	Policies Policies
	Prober   Prober
	// Proof returns a time of the source at which this process held the driver's lease. It must not
	// be ahead of the source's clock. It fails if the lease is lost.
	Proof func(ctx context.Context) (signed time.Time, err error)
	// Record is the record of the attempt, as it is in the ledger (Begin).
	Record Record
	// Save writes the record into the ledger. It must fail, and write nothing, if another process
	// has changed the record since this process has read or written it.
	Save    func(ctx context.Context, r Record) error
	Timings Timings
	// Failed, if not nil, is called with each failure that is retried.
	Failed func(step string, err error)

	quiet time.Duration // on the monotonic clock; no change is sent before
}

// errBlind is the error of a probe that proves nothing.
var errBlind = errors.New("the writes of the probe's role are denied before the freeze, so the freeze cannot be probed: give the role the right to write the table, and wait until the last freeze shows no more")

// Freeze puts the statement into the policy. It returns nil when a read shows the statement, and
// the probe's writes were refused without a break for Timings.Frozen. The delay is the time from
// the answer to this process's request until the first refusal, zero if another process sent it.
// Freeze fails if ctx ends, if the lease is lost, if the record has changed, or if DynamoDB can
// never accept the policy. Another process may continue the freeze.
func (f *Freezer) Freeze(ctx context.Context) (delay time.Duration, err error) {
	s, err := f.statement()
	if err != nil {
		return 0, err
	}
	if f.Record.Ends {
		return 0, errEnds
	}
	t, held, answered := f.Timings.orDefault(), streak{}, time.Duration(-1)
	for {
		signed, p, err := f.look(ctx)
		if err != nil {
			return 0, err
		}
		c, err := toFreeze(p, s)
		if err != nil {
			return 0, fmt.Errorf("freeze %s: %w", f.Table, err)
		}
		if c.kind == nothing {
			held = held.after(f.round(ctx), t.Gap)
			if held.rounds == 1 && answered >= 0 {
				delay = held.since - answered
			}
			if held.proves(t.Frozen) {
				return delay, nil
			}
		} else {
			held = streak{}
			if done, err := f.request(ctx, p, c, signed); err != nil {
				return 0, err
			} else if done {
				answered = task.Mono(ctx)
			}
		}
		if err := task.Sleep(ctx, t.Look); err != nil {
			return 0, err
		}
	}
}

// opened reports whether the probe's writes were let through before the first freeze request (P4).
func (f *Freezer) opened(ctx context.Context) (bool, error) {
	if f.Record.Open {
		return true, nil
	}
	if r := f.round(ctx); r.denied {
		return false, fmt.Errorf("freeze %s: %w", f.Table, errBlind)
	} else if !r.open {
		return false, nil
	}
	next := f.Record
	next.Open = true
	return true, f.save(ctx, next)
}

// request saves the time of the signature and sends a freeze request with it (P1). It sends nothing
// while the policy rests, or if the probe has not seen the table open.
func (f *Freezer) request(ctx context.Context, p Policy, c change, signed time.Time) (done bool, err error) {
	if task.Mono(ctx) < f.quiet {
		return false, nil
	}
	if open, err := f.opened(ctx); err != nil || !open {
		return false, err
	}
	next, err := f.Record.signing(p, signed)
	if err != nil {
		return false, err
	}
	if err := f.save(ctx, next); err != nil {
		return false, err
	}
	return f.send(ctx, c, signed)
}

// Watch makes one round of probes. After Freeze, the caller must call it until the application is
// switched: LetThrough means that the table is no longer frozen.
func (f *Freezer) Watch(ctx context.Context) Seen { return f.round(ctx).seen }

// Unfreeze takes the statements of this attempt and of former ones out of the policy. It returns
// nil when a read shows none of them, and the probe's writes are let through. The delay is the time
// from the answer to this process's request until then, zero if another process sent it. Unfreeze
// fails as Freeze does, and must then be called again. The freeze is not over before Over says so.
func (f *Freezer) Unfreeze(ctx context.Context) (delay time.Duration, err error) {
	answered := time.Duration(-1)
	for {
		look, err := f.unfreezeOnce(ctx)
		if err != nil {
			return 0, err
		}
		if look.done {
			answered = task.Mono(ctx)
		}
		if look.clear {
			if r := f.round(ctx); r.open {
				if answered >= 0 {
					delay = r.ended - answered
				}
				return delay, nil
			}
		}
		if err := task.Sleep(ctx, f.Timings.orDefault().Look); err != nil {
			return 0, err
		}
	}
}

// Over looks once more, after Unfreeze. It removes the statement again if a late freeze request has
// put it. It returns true, and saves it, when no freeze request can be executed any more. The
// caller must call it again until then (Record.OverAt).
func (f *Freezer) Over(ctx context.Context) (bool, error) {
	if f.Record.Over {
		return true, nil
	}
	look, err := f.unfreezeOnce(ctx)
	if err != nil || !f.Record.isOver(look.clear, look.began, f.Timings) {
		return false, err
	}
	next := f.Record
	next.Over = true
	return true, f.save(ctx, next)
}

// looked is the result of one look of a freeze that ends.
type looked struct {
	began time.Time // in the source's time; not later than the begin of the read
	clear bool      // the read shows no statement to remove
	done  bool      // the removal is answered
}

// unfreezeOnce looks at the policy, and removes the statements if there are any.
func (f *Freezer) unfreezeOnce(ctx context.Context) (looked, error) {
	if !f.Record.Ends {
		next := f.Record
		next.Ends = true
		if err := f.save(ctx, next); err != nil {
			return looked{}, err
		}
	}
	signed, p, err := f.look(ctx)
	if err != nil {
		return looked{}, err
	}
	l := looked{began: signed}
	c, err := toUnfreeze(p, f.Hash, f.Record.Attempt)
	switch {
	case err != nil:
		return l, fmt.Errorf("end the freeze of %s: %w", f.Table, err)
	case c.kind == nothing:
		l.clear = true
	case task.Mono(ctx) >= f.quiet:
		l.done, err = f.send(ctx, c, signed)
	}
	return l, err
}

// look proves the lease and then reads the policy. It repeats a read that fails.
func (f *Freezer) look(ctx context.Context) (signed time.Time, p Policy, err error) {
	t := f.Timings.orDefault()
	for {
		if signed, err = f.Proof(ctx); err != nil {
			return signed, p, fmt.Errorf("prove the lease for the policy of %s: %w", f.Table, err)
		}
		call, cancel := task.WithTimeout(ctx, t.Call)
		p, err = f.Policies.Get(call, f.Table)
		cancel()
		if err == nil {
			return signed, p, nil
		}
		f.failed("read the resource policy of "+f.Table, err)
		if err := task.Sleep(ctx, t.Look); err != nil {
			return signed, p, err
		}
	}
}

// send makes one attempt of a change. DynamoDB accepts no change for a while after one. Meanwhile,
// reads may still show the former policy. So after a change that may be executed, the next one
// waits for the rest.
func (f *Freezer) send(ctx context.Context, c change, signed time.Time) (done bool, err error) {
	t := f.Timings.orDefault()
	call, cancel := task.WithTimeout(ctx, t.Call)
	defer cancel()
	var a Answer
	if c.kind == remove {
		a = f.Policies.Delete(call, f.Table, c.revision, signed)
	} else {
		a = f.Policies.Put(call, f.Table, c.text, c.revision, signed)
	}
	switch a.Outcome {
	case Done, Unknown:
		f.quiet = task.Mono(ctx) + t.Rest
	case Resting:
		// The rest began at an unknown time, so it is asked for several times.
		f.quiet = task.Mono(ctx) + t.Rest/5
	case Unfitting:
		return false, fmt.Errorf("change the resource policy of %s: %s", f.Table, a.Reason)
	case Refused:
		f.failed("change the resource policy of "+f.Table, errors.New(a.Reason))
	}
	return a.Outcome == Done, nil
}

// round makes one round of probes.
func (f *Freezer) round(ctx context.Context) round {
	t := f.Timings.orDefault()
	began := task.Mono(ctx)
	call, cancel := task.WithTimeout(ctx, t.Call)
	one := f.Prober.Put(call)
	cancel()
	call, cancel = task.WithTimeout(ctx, t.Call)
	other := f.Prober.Transact(call)
	cancel()
	return roundOf(began, task.Mono(ctx), one, other)
}

// statement returns the statement of the attempt.
func (f *Freezer) statement() (Statement, error) {
	if f.Record.Rehearse {
		return denyOnly(f.Hash, f.Record.Attempt, f.Table, f.Probe)
	}
	return denyWrites(f.Hash, f.Record.Attempt, f.Table, f.Exempt)
}

// save writes the record. A record that is not saved is not used.
func (f *Freezer) save(ctx context.Context, next Record) error {
	if err := f.Save(ctx, next); err != nil {
		return fmt.Errorf("save the record of the freeze of %s: %w", f.Table, err)
	}
	f.Record = next
	return nil
}

func (f *Freezer) failed(step string, err error) {
	if f.Failed != nil {
		f.Failed(step, err)
	}
}
