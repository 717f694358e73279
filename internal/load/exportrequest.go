package load

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/source"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// exportStep is the next step for a requested export.
type exportStep uint8

const (
	exportWaits  exportStep = iota // wait
	exportBegins                   // begin another attempt, for an export as of now
	exportAsked                    // request the export; a repeated request has the same token
	exportReport                   // read the export's progress from the service
	exportThere                    // the export is complete and may be loaded, so plan the load
	exportEnds                     // make no further attempt
)

const (
	// tokenLives is how long after the beginning of an attempt its requests are retried with the
	// same token. The service remembers a token for eight hours.
	tokenLives = 7 * time.Hour
	// exportGrace is how long an attempt may be refused because of its time, or be unknown to the
	// service, before it ends. DynamoDB can export a table only as of some minutes ago.
	exportGrace = 15 * time.Minute
)

// nextExportStep decides the next step. If the step is exportEnds, the result `why` is the reason.
// An export is requested again if it belongs to an earlier generation or has become too old. The
// number of requests is limited, because each export costs money (H106).
func nextExportStep(v engine.View, now time.Time, late, oldest time.Duration) (next exportStep, why string) {
	r := v.State.Load.Request
	switch {
	case r.Failed != "" || v.State.Load.Paused != "" || v.State.StreamEnded || now.IsZero():
		return exportWaits, ""
	case r.Serial > 0 && !overtaken(v, now, late, oldest):
		switch {
		case v.State.Load.Export.Address != "":
			return exportThere, ""
		case r.ARN == "":
			return exportAsked, ""
		}
		return exportReport, ""
	case r.Attempts >= checkpoint.MaxTries:
		return exportEnds, fmt.Sprintf("%d exports were requested, but each became too old or predates a new gap", r.Attempts)
	}
	at := now.Truncate(time.Second)
	if at.Before(r.NotBefore) || checkpoint.AdmissibleExport(v.State, v.Shards, at, now, late) != nil {
		return exportWaits, ""
	}
	return exportBegins, ""
}

// overtaken reports whether the current attempt can no longer lead to a load.
func overtaken(v engine.View, now time.Time, late, oldest time.Duration) bool {
	r := v.State.Load.Request
	var hole *checkpoint.NotAdmissible
	err := checkpoint.AdmissibleExport(v.State, v.Shards, r.At, now, late)
	return r.Generation != v.State.Generation || errors.As(err, &hole) && !hole.Yet || source.YoungEnough("export", r.At, now, oldest) != nil || r.ARN == "" && now.Sub(r.At) > tokenLives
}

// request executes the next step for the export from which the load was requested. It reports
// whether the export is complete. Failed calls are retried only in the next pass, because an
// operator may have changed the request.
func (c *Conductor) request(life engine.Lifecycle, v engine.View) (there bool, err error) {
	r := v.State.Load.Request
	if !r.Wanted() {
		return true, nil
	}
	if r.Incremental {
		return c.requestWindows(life, v)
	}
	ctx := life.Work
	now := c.Ledger.ServiceTime(ctx)
	switch next, why := nextExportStep(v, now, c.settings.late, c.settings.imageAge/2); next {
	case exportThere:
		return true, nil
	case exportBegins:
		_, err = c.Ledger.BeginExport(ctx, c.Source, v.State.ExportsAsked+1, v.State.Generation, now.Truncate(time.Second))
		c.wake.Signal()
	case exportEnds:
		err = c.giveUp(ctx, r, why)
	case exportAsked:
		err = c.asking(ctx, r, now, func() error { return c.orderExport(ctx, v.State) })
	case exportReport:
		err = c.asking(ctx, r, now, func() error { return c.followExport(ctx, r) })
	}
	return false, err
}

// asking makes a call about an export. It leaves time between such calls, because an export takes
// minutes or hours. If the service permanently refuses the attempt, the attempt ends.
func (c *Conductor) asking(ctx context.Context, r checkpoint.ExportRequest, now time.Time, call func() error) error {
	if c.exporter == nil {
		return source.ErrNone
	}
	mono := task.Mono(ctx)
	if about := (exportCall{r.Serial, r.ARN}); c.lastCall != about {
		c.lastCall, c.nextCall = about, 0
	}
	if mono < c.nextCall {
		return nil
	}
	c.nextCall = mono + min(max(now.Sub(r.At)/8, time.Second), 30*time.Second)
	err := call()
	var refusal *backfill.ExportRefusal
	if !errors.As(err, &refusal) {
		return err
	}
	if (refusal.OfTime() || refusal.Unknown()) && now.Sub(r.At) < exportGrace {
		return nil
	}
	return c.giveUp(ctx, r, "DynamoDB: "+refusal.Error())
}

// exportCall identifies the last call about an export.
type exportCall struct {
	serial uint32
	arn    string
}

// orderExport requests the export of the current attempt. If the service has already accepted the
// request, it finds the existing export.
func (c *Conductor) orderExport(ctx context.Context, state checkpoint.TableState) error {
	r := state.Load.Request
	arn, err := c.order(ctx, state, backfill.ExportOrder{At: r.At, Token: c.Ledger.ExportToken(state)})
	if err != nil {
		return err
	}
	if _, err := c.Ledger.AcceptExport(ctx, c.Source, r.Serial, arn); err != nil {
		return err
	}
	c.Events.Exporting(c.Source, arn, "")
	c.wake.Signal()
	return nil
}

// order requests an export of the table into the bucket of the request, and returns its ARN.
func (c *Conductor) order(ctx context.Context, state checkpoint.TableState, o backfill.ExportOrder) (arn string, err error) {
	d, err := c.database.Describe(ctx, c.Source)
	if err != nil {
		return "", err
	}
	o.TableARN = d.ARN
	o.Bucket, o.Prefix = source.Bucket(state.Load.Request.To)
	taken, err := c.exporter.Request(ctx, o)
	return taken.ARN, err
}

// followExport checks the progress of an accepted export. When the export is complete, it passes
// the export to the load.
func (c *Conductor) followExport(ctx context.Context, r checkpoint.ExportRequest) error {
	e, why, err := c.delivered(ctx, r.ARN)
	switch {
	case err != nil:
		return err
	case why == "" && !e.From.IsZero():
		why = "the export " + r.ARN + " is not a full export"
	}
	if why != "" {
		return c.giveUp(ctx, r, why)
	}
	if e.Address == "" {
		return nil
	}
	_, err = c.Ledger.FinishExport(ctx, c.Source, r.Serial, e)
	c.wake.Signal()
	return err
}

// delivered asks the service about an export. It returns the record of a complete export, or why
// there will be none. Both are zero while the service writes the export.
func (c *Conductor) delivered(ctx context.Context, arn string) (e checkpoint.Export, why string, err error) {
	report, err := c.exporter.Report(ctx, arn)
	switch {
	case err != nil:
		return e, "", err
	case report.Failed != "":
		return e, report.Failed, nil
	case report.Part != "" || !report.JSON: // the export is not the requested one
		return e, "the export " + arn + " is not of the whole table in DynamoDB JSON", nil
	case !report.Done:
		return e, "", nil
	}
	address := source.Delivered(report)
	images, err := source.Open(ctx, c.sources.From, address)
	var fault *source.Fault
	switch {
	case errors.As(err, &fault):
		return e, fault.Error(), nil
	case err != nil:
		return e, "", err
	}
	if e = images.Records()[0]; e.ARN != arn {
		return checkpoint.Export{}, "there is another export at " + address, nil
	}
	e.Address = address
	return e, "", nil
}

func (c *Conductor) giveUp(ctx context.Context, r checkpoint.ExportRequest, why string) error {
	_, err := c.Ledger.FailExport(ctx, c.Source, r.Serial, why)
	if err == nil {
		c.Events.Exporting(c.Source, r.ARN, why)
	}
	return err
}
