package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/source"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// windowsAtOnce is how many incremental exports of a table are requested or written concurrently.
// The service allows 300 in an account and a region, so several tables can be repaired at once.
// Source: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ServiceQuotas.html
const windowsAtOnce = 8

// nextWindowsStep decides the next step for requested windows. If the step is exportBegins, the
// result has the windows of the attempt. If the step is exportEnds, `why` is the reason.
func nextWindowsStep(v engine.View, now time.Time, late, oldest time.Duration) (next exportStep, windows []checkpoint.WindowRequest, why string) {
	s, r := v.State, v.State.Load.Request
	if r.Failed != "" || s.Load.Paused != "" || s.StreamEnded || now.IsZero() {
		return exportWaits, nil, ""
	}
	err := checkpoint.Mendable(s)
	if err == nil && !r.NotBefore.IsZero() { // an earlier loss may have been found since the request
		err = checkpoint.Unbroken(r.NotBefore, s.WindowsBy())
	}
	if never := (*checkpoint.NotAdmissible)(nil); errors.As(err, &never) {
		return exportEnds, nil, never.Reason
	}
	covered, whole := r.Covers(s.WindowsBy())
	// Images of a window get the age of its end, as in a load from named windows.
	young := whole && source.YoungEnough("window", checkpoint.Aged(r.Windows[0].To, s.AdoptedAt), now, oldest) == nil
	if young && r.Generation == s.Generation && !holed(checkpoint.AdmissibleExport(s, v.Shards, covered, now, late)) {
		if s.Load.Export.Address != "" {
			return exportThere, nil, ""
		}
		return exportReport, nil, ""
	}
	if r.Attempts >= checkpoint.MaxTries {
		return exportEnds, nil, fmt.Sprintf("windows were planned %d times, but each time they became too old or a new gap followed", r.Attempts)
	}
	end := now.Add(-source.Recoverable).Truncate(time.Second)
	if checkpoint.AdmissibleExport(s, v.Shards, end, now, late) != nil {
		return exportWaits, nil, ""
	}
	var kept []checkpoint.WindowRequest
	from := source.Since(s.WindowsBy(), end)
	if young { // a new gap: the windows of the previous attempt stay, and others follow them
		kept, from = r.Windows, covered
	} else if first := wholeSecond(r.NotBefore); from.Before(first) {
		from = first // recovery began shortly before the loss
	}
	if windows = planWindows(kept, from, end, s.ExportsAsked+1); windows == nil {
		return exportWaits, nil, "" // the time is too short for a window
	}
	return exportBegins, windows, ""
}

// holed reports whether waiting cannot make images admissible.
func holed(err error) bool {
	var hole *checkpoint.NotAdmissible
	return errors.As(err, &hole) && !hole.Yet
}

// wholeSecond rounds a time up.
func wholeSecond(at time.Time) time.Time {
	if whole := at.Truncate(time.Second); whole.Before(at) {
		return whole.Add(time.Second)
	}
	return at
}

// planWindows adds the windows between two times to those of the previous attempt; nil if that time
// is too short.
func planWindows(kept []checkpoint.WindowRequest, from, end time.Time, serial uint32) []checkpoint.WindowRequest {
	added := source.Windows(from, end)
	if len(added) == 0 {
		return nil
	}
	all := append([]checkpoint.WindowRequest{}, kept...)
	for _, w := range added {
		all = append(all, checkpoint.WindowRequest{From: w.From.UTC(), To: w.To.UTC(), Serial: serial})
	}
	return all
}

// dueWindows returns the windows that may be requested now: planned ones, as far as not too many
// are in flight, and those whose request is too old to be repeated with the same token.
func dueWindows(all []checkpoint.WindowRequest, now time.Time) (due []checkpoint.WindowRequest) {
	free := windowsAtOnce
	for _, w := range all {
		if state := w.State(); state == checkpoint.WindowRequested || state == checkpoint.WindowRunning {
			free--
		}
	}
	for _, w := range all {
		switch {
		case w.State() == checkpoint.WindowRequested && now.Sub(w.AskedAt) > tokenLives:
			due = append(due, w)
		case w.State() == checkpoint.WindowPlanned && free > 0:
			due = append(due, w)
			free--
		}
	}
	return due
}

// requestWindows executes the next step for requested windows. It reports whether all exports are
// complete.
func (c *Conductor) requestWindows(life engine.Lifecycle, v engine.View) (there bool, err error) {
	ctx, r := life.Work, v.State.Load.Request
	now := c.Ledger.ServiceTime(ctx)
	switch next, windows, why := nextWindowsStep(v, now, c.settings.late, c.settings.imageAge/2); next {
	case exportThere:
		return true, nil
	case exportBegins:
		_, err = c.Ledger.BeginWindows(ctx, c.Source, v.State.ExportsAsked+1, v.State.Generation, windows)
		c.wake.Signal()
	case exportEnds:
		err = c.giveUp(ctx, r, why)
	case exportReport:
		err = c.followWindows(ctx, v.State, now)
	}
	return false, err
}

// followWindows requests the windows whose turn it is, and reads the progress of the other ones. The
// failure of a call does not hold up the other windows, and is retried in the next pass.
func (c *Conductor) followWindows(ctx context.Context, state checkpoint.TableState, now time.Time) error {
	if c.exporter == nil {
		return source.ErrNone
	}
	r := state.Load.Request
	for _, w := range dueWindows(r.Windows, now) {
		var err error
		if state, err = c.Ledger.AskWindow(ctx, c.Source, w.From, now); err != nil {
			return err
		}
	}
	if about := (exportCall{serial: r.Serial, arn: fmt.Sprint(r.Attempts)}); c.lastCall != about {
		c.lastCall, c.nextCall = about, 0
	}
	mono := task.Mono(ctx)
	if mono < c.nextCall {
		return nil
	}
	c.nextCall = mono + min(max(now.Sub(r.At)/8, time.Second), 30*time.Second)
	var failure error
	for _, w := range state.Load.Request.Windows {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		switch w.State() {
		case checkpoint.WindowRequested:
			failure = cmp.Or(failure, c.ofWindow(ctx, w, now, c.orderWindow(ctx, state, w)))
		case checkpoint.WindowRunning:
			failure = cmp.Or(failure, c.ofWindow(ctx, w, now, c.followWindow(ctx, w)))
		}
	}
	return failure
}

// ofWindow returns the error of a call about a window, unless the service refuses the window
// permanently. Then no load can begin, and the request ends.
func (c *Conductor) ofWindow(ctx context.Context, w checkpoint.WindowRequest, now time.Time, err error) error {
	var refusal *backfill.ExportRefusal
	if !errors.As(err, &refusal) {
		return err
	}
	if (refusal.OfTime() || refusal.Unknown()) && now.Sub(w.AskedAt) < exportGrace {
		return nil
	}
	return c.failWindow(ctx, w, "DynamoDB: "+refusal.Error())
}

// orderWindow requests the export of a window. If the service has already accepted the request, it
// finds the existing export.
func (c *Conductor) orderWindow(ctx context.Context, state checkpoint.TableState, w checkpoint.WindowRequest) error {
	arn, err := c.order(ctx, state, backfill.ExportOrder{From: w.From, At: w.To, Token: c.Ledger.WindowToken(state, w)})
	if err != nil {
		return err
	}
	if _, err := c.Ledger.AcceptWindow(ctx, c.Source, w.From, arn); err != nil {
		return err
	}
	c.Events.Exporting(c.Source, arn, "")
	return nil
}

// followWindow checks the progress of a window's export.
func (c *Conductor) followWindow(ctx context.Context, w checkpoint.WindowRequest) error {
	e, why, err := c.delivered(ctx, w.ARN)
	switch {
	case err != nil:
		return err
	case why == "" && e.Address != "" && (!e.From.Equal(w.From) || !e.At.Equal(w.To)):
		why = "there is another export at " + e.Address
	}
	if why != "" {
		return c.failWindow(ctx, w, why)
	}
	if e.Address == "" {
		return nil
	}
	_, err = c.Ledger.FinishWindow(ctx, c.Source, w.From, e)
	c.wake.Signal()
	return err
}

func (c *Conductor) failWindow(ctx context.Context, w checkpoint.WindowRequest, why string) error {
	_, err := c.Ledger.FailWindow(ctx, c.Source, w.From, why)
	if err == nil {
		c.Events.Exporting(c.Source, w.ARN, w.String()+": "+why)
	}
	return err
}
