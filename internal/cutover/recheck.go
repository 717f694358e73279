package cutover

import (
	"context"
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/readiness"
)

// A large table cannot be compared as a whole while writes are frozen. So workers compare the rows
// of every change again (recheck), and a full verify runs while the application writes. Only then
// is the application frozen. The rechecks must begin before the verify, so that a recheck or the
// verify compares every change.

const (
	// recheckFor is how long workers recheck before the cutover must extend the time. The cutover
	// extends it after half of the time.
	recheckFor = 2 * time.Hour
	// recheckSlack is how long before the full verify the recheck of every shard must have begun. A
	// worker may use a slightly outdated record, and the clocks differ slightly.
	recheckSlack = 10 * time.Second
	// sampled is the number of random items that are compared at the end. The sample finds damage
	// that no change shows. If one row in a thousand is damaged, the sample contains a damaged row
	// with a probability of 86 %.
	sampled = 2000
)

// rechecks reports whether the final comparison of a table relies on rechecks. In mode topic, a
// worker does not know when its changes are written. There, the workers compare the whole table
// instead.
func rechecks(s checkpoint.TableState, most int64) bool {
	return s.Apply != checkpoint.Topic && !readiness.Small(s.Verify.Full, most)
}

// recheck prepares the final comparison of all large tables. If the attempt has to wait, `waits` is
// the condition for which it waits. If the application must not be switched, `why` is the reason.
func (v *drive) recheck(ctx context.Context, c checkpoint.Cutover, now time.Time) (waits, why string, err error) {
	found := make([]rechecked, len(c.Tables))
	err = eachTable(ctx, c, "recheck", func(ctx context.Context, i int, source string) error {
		s, _, err := v.Ledger.Table(ctx, source)
		if err == nil && (s.Recheck.Verify > 0 || rechecks(s, v.settings.Ready.Small)) {
			found[i].waits, found[i].why, err = v.recheckTable(ctx, s, now)
		}
		return err
	})
	if err != nil {
		return "", "", err
	}
	for i, source := range c.Tables {
		switch r := found[i]; {
		case r.why != "":
			return "", "table " + source + ": " + r.why, nil
		case r.waits != "" && waits == "":
			waits = "table " + source + ": " + r.waits
		}
	}
	return waits, "", nil
}

// recheckTable carries out the next step of the rechecks of one table.
func (v *drive) recheckTable(ctx context.Context, s checkpoint.TableState, now time.Time) (waits, why string, err error) {
	shards, err := v.Ledger.Shards(ctx, s.Source)
	if err != nil {
		return "", "", err
	}
	r := recheckOf(s, shards, now)
	switch {
	case r.begin:
		_, err = v.Ledger.UpdateTable(ctx, s.Source, func(s *checkpoint.TableState) error { s.BeginRecheck(now.Add(recheckFor)); return nil })
	case r.verify:
		_, err = v.Verifier.Begin(ctx, s)
	case s.Recheck.Until.Sub(now) < recheckFor/2:
		_, err = v.Ledger.UpdateTable(ctx, s.Source, func(s *checkpoint.TableState) error { s.Recheck.Until = now.Add(recheckFor); return nil })
	}
	return r.waits, r.why, err
}

// rechecked is the state of a table's rechecks before the freeze, and the next step.
type rechecked struct {
	begin  bool   // the workers must be asked for rechecks, for the first time or again
	verify bool   // the full verify must begin
	waits  string // the condition for which the attempt waits; "" if all changes are rechecked
	why    string // why the application must not be switched
}

// recheckOf judges the rechecks of a table before the freeze. It depends only on its arguments.
func recheckOf(s checkpoint.TableState, shards []checkpoint.Shard, now time.Time) rechecked {
	n, full := s.Recheck.Number(now), s.Verify.Full
	again := func(why string) rechecked { return rechecked{begin: true, waits: why} }
	if n == 0 {
		return again("workers compare the rows of all changes again")
	}
	if full.Number < n { // the full verify has not begun, or is running
		unready, youngest := unrechecked(s, shards, n)
		switch {
		case s.Verify.Number >= n && s.Verify.Running():
			return rechecked{waits: "a full verify is running while the application writes"}
		case s.Verify.Number >= n: // the full verify was cancelled
			return again("the full verify was cancelled; it begins again")
		case unready > 0:
			return rechecked{waits: fmt.Sprintf("the changes of %d shards are not compared again yet", unready)}
		case s.Verify.Running():
			return rechecked{waits: "another verify is running"}
		case now.Sub(youngest) < recheckSlack:
			return rechecked{waits: "the full verify is about to begin"}
		}
		return rechecked{verify: true, waits: "a full verify begins while the application writes"}
	}
	if full.Generation != s.Generation || !full.Clean() {
		return rechecked{why: "result of the full verify: " + full.Verdict(now)}
	}
	if lost := recheckLost(s, shards, full.BegunAt); lost != "" {
		return again(lost)
	}
	differing := 0
	for i := range shards {
		if shards[i].Label == s.Label {
			differing += shards[i].Rechecked.Differing
		}
	}
	if differing > 0 {
		return rechecked{waits: fmt.Sprintf("rows of changed items differ: %d", differing)}
	}
	return rechecked{}
}

// unrechecked returns the number of open shards without a recheck, and the time at which the last
// recheck began.
func unrechecked(s checkpoint.TableState, shards []checkpoint.Shard, n uint32) (unready int, youngest time.Time) {
	for i := range shards {
		sh := &shards[i]
		if sh.Label != s.Label || sh.Finished() || sh.State == checkpoint.Waiting && sh.FirstRead.IsZero() {
			continue
		}
		if sh.Rechecked.Verify != n {
			unready++
		} else if sh.Rechecked.Since.After(youngest) {
			youngest = sh.Rechecked.Since
		}
	}
	return unready, youngest
}

// recheckLost describes a shard with changes since the beginning of the full verify that were not
// rechecked; "" if there is none. A shard that was done before the full verify began needs no
// recheck, because the verify has compared all its changes.
func recheckLost(s checkpoint.TableState, shards []checkpoint.Shard, began time.Time) string {
	for i := range shards {
		sh := &shards[i]
		r := sh.Rechecked
		switch {
		case sh.Label != s.Label, sh.State == checkpoint.Gap:
		// No change of this shard was applied.
		case sh.State == checkpoint.Waiting && sh.FirstRead.IsZero():
		case sh.State == checkpoint.Done && !sh.DoneAt.IsZero() && sh.DoneAt.Add(recheckSlack).Before(began):
		case r.Verify != s.Recheck.Verify && r.Lost != "":
			return "changes of shard " + sh.ID + " were not compared again: " + r.Lost
		case r.Verify != s.Recheck.Verify:
			return "changes of shard " + sh.ID + " were not compared again"
		case !r.Since.IsZero() && r.Since.Add(recheckSlack).After(began):
			return "changes of shard " + sh.ID + " were compared again too late"
		case sh.State == checkpoint.Done && (r.Through.Compare(sh.Position) < 0 || r.Differing > 0):
			return "changes of shard " + sh.ID + ", which is done, were not all compared again"
		}
	}
	return ""
}

// recheckedTo describes a shard that is not rechecked up to the position in its proof; "" if there
// is none.
func recheckedTo(s checkpoint.TableState, shards []checkpoint.Shard, proofs []checkpoint.CutoverProof) string {
	proved := map[string]cdc.SequenceNumber{}
	for _, p := range proofs {
		if p.Table == s.Source {
			proved[p.Shard], _ = cdc.ParseSequenceNumber(p.Position)
		}
	}
	differing, behind := 0, 0
	for i := range shards {
		sh := &shards[i]
		if sh.Label != s.Label || sh.Rechecked.Verify != s.Recheck.Verify {
			continue
		}
		differing += sh.Rechecked.Differing
		if sh.Rechecked.Through.Compare(proved[sh.ID]) < 0 {
			behind++
		}
	}
	switch {
	case differing > 0:
		return fmt.Sprintf("rows of changed items differ: %d", differing)
	case behind > 0:
		return fmt.Sprintf("the last changes of %d shards are not compared again yet", behind)
	}
	return ""
}

// finalRecheck completes the comparison of a large table during the freeze. It waits for the
// rechecks of the last changes, and compares a sample of all items.
func (v *drive) finalRecheck(ctx context.Context, c checkpoint.Cutover, s checkpoint.TableState) (final, error) {
	shards, err := v.Ledger.Shards(ctx, s.Source)
	if err != nil {
		return final{}, err
	}
	full := s.Verify.Full
	if s.Recheck.Verify == 0 || full.Number < s.Recheck.Verify {
		return final{why: "its changes were not compared again"}, nil
	}
	if lost := recheckLost(s, shards, full.BegunAt); lost != "" {
		return final{why: lost}, nil
	}
	if waits := recheckedTo(s, shards, c.Proofs); waits != "" {
		return final{waits: waits}, nil
	}
	result := full
	if !c.Rehearse { // in a rehearsal the application still writes
		sample, err := v.Verifier.Sample(ctx, s, sampled)
		if err != nil {
			return final{}, err
		}
		result.Add(checkpoint.VerifyCounts{Missing: sample.Missing, Different: sample.Different, Extra: sample.Extra, Foreign: sample.Foreign, InFlight: sample.InFlight})
		result.EndedAt = sample.EndedAt
		result.Why = fmt.Sprintf("all rows by verify %d, then the rows of every change, at last %d random items", full.Number, sample.Compared)
	} else {
		result.Why = fmt.Sprintf("all rows by verify %d, then the rows of every change", full.Number)
	}
	result.Number = 0 // no verify in the ledger has this result
	return final{result: result}, nil
}
