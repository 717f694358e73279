package loads

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/source"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// The possible actions of a decision.
const (
	ActionStart    = "start"
	ActionPause    = "pause"
	ActionResume   = "resume"
	ActionRedo     = "redo"
	ActionCancel   = "cancel"
	ActionThrottle = "throttle"
	actionNone     = "none"    // there is nothing to do
	actionRefused  = "refused" // the request is refused; the field Why has the reason and an alternative
)

// Request is an operator's request.
type Request struct {
	Action string
	// Repair is for start. It limits the command to tables that need a load.
	Repair bool
	// From is for start. It holds the addresses of exports to copy instead of a scan, in any order.
	From []string
	// Whole is the operator's confirmation that the exports contain the whole table. It is needed
	// if DynamoDB cannot confirm that.
	Whole bool
	// Wish is for start. An export to the address in From is requested first.
	Wish bool
	// Fast is for start. The load writes many rows in one request, without conditions.
	Fast bool
	// Approve is the operator's approval of the sweep.
	Approve bool
	// Limits and Reset are for throttle: the limits to set, or that the configured limits apply
	// again.
	Limits checkpoint.Limits
	Reset  bool

	named *named     // set when the exports were read
	wish  *requested // set when an export was found to be possible
}

// Check refuses a request with contradictory options. If table is "", the request is for all
// tables.
func (r Request) Check(table string) error {
	switch {
	case len(r.From) > 0 && table == "":
		return diag.BadUsage("an export holds one table, and no table is given", "add --table")
	case slices.ContainsFunc(r.From, source.Scans):
		return diag.BadUsage("--export names no export", "name its folder, or leave --export out to scan the table")
	case r.Wish && len(r.From) == 0:
		return diag.BadUsage("--request-export needs one table and a bucket", "add --table and --export s3://BUCKET/PREFIX")
	case r.Whole && (len(r.From) == 0 || r.Wish):
		return diag.BadUsage("--whole-export needs an existing export", "add --export, without --request-export")
	case r.Wish && len(r.From) > 1:
		return diag.BadUsage("--request-export takes one --export, but several are given", "keep only the --export with the destination bucket")
	case r.Wish:
		_, err := source.Destination(r.From[0])
		return err
	}
	return nil
}

// decide returns the effect that the request would have on a table. It changes nothing.
func (r Request) decide(t TableInput) Decided {
	d := Decided{Source: t.Config.From, Action: r.Action}
	s := t.State
	is := func(action, format string, args ...any) Decided {
		d.Action, d.Why = action, fmt.Sprintf(format, args...)
		return d
	}
	if !t.Found || s.Generation == 0 {
		return is(actionRefused, "the table is not followed yet; `replicator run` follows and copies it")
	}
	switch r.Action {
	case ActionStart:
		start := r.start(s, is)
		if why := r.refusesFast(t); start.acts() && why != "" {
			return is(actionRefused, "the load cannot be fast: %s; leave out --fast for a guarded load", why)
		}
		return start
	case ActionPause:
		switch {
		case !standing.LoadOf(s, false).UnderWay:
			return is(actionNone, "no load is running")
		case s.Load.Paused == checkpoint.PausedByOperator:
			return is(actionNone, "the load is already paused")
		}
		return is(ActionPause, "paused: workers finish their current pages and start no new part; changes are still applied")
	case ActionResume:
		return r.resume(s, is)
	case ActionRedo:
		if r.Fast {
			return is(actionRefused, "only the first load of a table can be fast; leave out --fast")
		}
		return is(ActionRedo, "the table is loaded again in a new generation; it is not in sync until the load and its sweep are complete")
	case ActionCancel:
		next := "the table needs another load: replicator backfill start --table " + s.Source
		switch load := standing.LoadOf(s, false); {
		case !load.UnderWay:
			return is(actionNone, "no load is running")
		case load.State == standing.LoadAsked:
			return is(ActionCancel, "the request is withdrawn; %s", next)
		}
		return is(ActionCancel, "load %d ends, and another generation begins; %s", s.Load.Number, next)
	case ActionThrottle:
		if r.Reset {
			return is(ActionThrottle, "the limits of the configuration apply again")
		}
		return is(ActionThrottle, "workers apply the limits within seconds; they stay until changed or reset")
	}
	return is(actionRefused, "no such request")
}

func (r Request) start(s checkpoint.TableState, is func(action, format string, args ...any) Decided) Decided {
	redo := "`replicator backfill redo --table " + s.Source + "`"
	from := ""
	if r.named != nil {
		from = ", " + r.named.String()
	}
	if r.wish != nil {
		from = r.wish.String()
	}
	switch load := standing.LoadOf(s, false); {
	case load.State == standing.LoadAsked && r.replaces(s.Load):
		return is(ActionStart, "it replaces the load that was requested earlier%s", from)
	case load.State == standing.LoadAsked:
		return is(actionNone, "a load is already requested; it begins once a worker has planned it")
	case load.UnderWay:
		return is(actionNone, "load %d is running", s.Load.Number)
	case load.Needed && load.State == standing.LoadDone:
		return is(actionRefused, "%s; another load of this generation would leave the same rows behind; begin a new generation with %s", s.Reason, redo)
	case load.Needed:
		return is(ActionStart, "%s%s", lost(s), from)
	case load.State == standing.LoadDone && r.Repair:
		return is(actionNone, "nothing to load")
	case load.State == standing.LoadDone:
		return is(actionRefused, "nothing to load; force with %s", redo)
	case r.Repair:
		return is(actionNone, "no change was lost; begin its first load with `replicator backfill start`")
	}
	return is(ActionStart, "its existing items are not copied yet%s", from)
}

// refusesFast returns why the load that the request asks for cannot be fast; "" if it can be, or
// need not be. A worker decides the rest when it plans the load.
func (r Request) refusesFast(t TableInput) string {
	if !r.Fast {
		return ""
	}
	s := t.State
	if err := r.ask(&s, s.Load.AskedAt); err != nil {
		return err.Error()
	}
	return cmp.Or(s.RefusesFast(), t.notFast)
}

// ask requests the load in a table's record.
func (r Request) ask(s *checkpoint.TableState, at time.Time) (err error) {
	switch {
	case r.wish != nil:
		err = s.RequestExport(at, r.Approve, r.wish.ExportRequest)
	case r.named != nil:
		err = s.AskExport(at, r.Approve, r.named.records...)
	default:
		err = s.AskLoad(at, r.Approve)
	}
	if err == nil && r.Fast {
		s.Load.Mode = checkpoint.FastLoad
	}
	return err
}

// replaces reports whether the request names another export or mode than the load that is already
// requested.
func (r Request) replaces(asked checkpoint.Load) bool {
	switch wish := asked.Request; {
	case r.Fast && asked.Mode != checkpoint.FastLoad:
		return true
	case r.wish != nil:
		return wish.To != r.wish.To || wish.Incremental != r.wish.Incremental || wish.Failed != ""
	case r.named == nil:
		return asked.Export.Address != "" || wish.Wanted()
	}
	return !slices.Equal(r.named.records, asked.Exports())
}

func (r Request) resume(s checkpoint.TableState, is func(action, format string, args ...any) Decided) Decided {
	load := standing.LoadOf(s, false)
	switch {
	case load.State == standing.LoadApproval && !r.Approve:
		return is(actionRefused, "the sweep waits for approval: it would write %s and remove %s, and leave %s unexplained; approve it with --yes", rows(s.Load.Sweep.Put),
			rows(s.Load.Sweep.Removed), rows(s.Load.Sweep.Unexplained))
	case load.State == standing.LoadApproval:
		return is(ActionResume, "the sweep begins; it writes about %s and removes about %s", rows(s.Load.Sweep.Put), rows(s.Load.Sweep.Removed))
	case s.Load.Paused != "":
		return is(ActionResume, "%s so far", pausedText(s.Load.Paused))
	case !load.UnderWay:
		return is(actionNone, "no load is running")
	case r.Approve && !s.Load.Sweep.Approved:
		return is(ActionResume, "the sweep after the copy is approved")
	}
	return is(actionNone, "the load is not paused")
}

func rows(n int64) string { return terminal.Plural(int(n), "row") }

// acts reports whether the decision changes the ledger.
func (d Decided) acts() bool { return d.Action != actionNone && d.Action != actionRefused }

// decideAll returns the effect that the request would have on each table.
func (in *Input) decideAll(r Request) []Decided {
	out := []Decided{}
	for _, t := range in.Tables {
		out = append(out, r.decide(t))
	}
	return out
}

// asked is the reason of the gap that a redo declares.
const asked = "an operator requested a load of everything"

// carryOut applies the decisions to the ledger, and reads it again. It fails if another operator or
// a worker has changed the ledger meanwhile, so that a decision can no longer be carried out.
func (in *Input) carryOut(ctx context.Context, r Request, decided []Decided) error {
	ctx, cancel := preflight.Reading(ctx)
	defer cancel()
	for i, d := range decided {
		if !d.acts() {
			continue
		}
		if err := in.carry(ctx, r, in.Tables[i], d); err != nil {
			return explain(ctx, fmt.Sprintf("cannot %s the load of table %s", r.Action, d.Source), err)
		}
	}
	return explain(ctx, "cannot read the ledger in table "+in.Cfg.State.Table, in.refresh(ctx))
}

func (in *Input) carry(ctx context.Context, r Request, t TableInput, decided Decided) (err error) {
	s := t.State
	switch r.Action {
	case ActionStart:
		at := in.ledger.Now(ctx)
		_, err = in.ledger.UpdateTable(ctx, s.Source, func(s *checkpoint.TableState) error {
			now := *s
			if err := r.ask(s, at); err != nil {
				return err
			}
			return r.stillDecided(t, now, decided)
		})
	case ActionPause:
		_, err = in.ledger.PauseLoad(ctx, s.Source, checkpoint.PausedByOperator)
	case ActionResume:
		if r.Approve {
			if _, err = in.ledger.ApproveSweep(ctx, s.Source); err != nil {
				return err
			}
		}
		_, err = in.ledger.ResumeLoad(ctx, s.Source, checkpoint.PausedByOperator)
	case ActionRedo:
		_, err = in.ledger.Redo(ctx, s.Source, s.Generation, asked, r.Approve)
	case ActionCancel:
		_, err = in.ledger.CancelLoad(ctx, s.Source)
	case ActionThrottle:
		_, err = in.ledger.SetLimits(ctx, s.Source, r.Limits, r.Reset)
	}
	return err
}

// stillDecided fails if the request would have another effect on a table than was decided. An operator
// may confirm a price minutes after it was shown. Meanwhile another operator may have requested a load,
// and DynamoDB may be writing its exports, which cost money.
func (r Request) stillDecided(t TableInput, s checkpoint.TableState, decided Decided) error {
	t.State = s
	if again := r.decide(t); again.Action != decided.Action || again.Why != decided.Why {
		return &checkpoint.LoadError{Table: s.Source, Step: r.Action, Reason: "the table's load has changed meanwhile: " + again.Why,
			Cure: "check `replicator backfill status`, then repeat the command"}
	}
	return nil
}

func explain(ctx context.Context, what string, err error) error {
	var refused *checkpoint.LoadError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused):
		return &diag.Error{Code: diag.LoadRefused, What: what, Cause: refused.Reason, Fix: refused.Cure, Err: err}
	case errors.Is(err, checkpoint.ErrRaised):
		return &diag.Error{Code: diag.LoadRefused, What: what, Cause: "a gap was declared meanwhile", Fix: "check `replicator backfill status`, then repeat the command", Err: err}
	}
	return preflight.ReadingFailed(ctx, what, err)
}

// refused returns the error for refused decisions; nil if no decision was refused. A request for
// all tables is an error only if no table changed.
func refused(decided []Decided, all bool) error {
	var found diag.List
	acts := 0
	for _, d := range decided {
		if d.acts() {
			acts++
		}
		if d.Action == actionRefused {
			found = append(found, &diag.Error{Code: diag.LoadRefused, What: "nothing was done for table " + d.Source, Cause: d.Why})
		}
	}
	if all && acts > 0 {
		return nil
	}
	return found.Err()
}
