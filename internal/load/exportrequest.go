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

// The next step for a requested export.
type exportStep uint8

const (
	exportWaits  exportStep = iota // wait
	exportBegins                   // begin another attempt, as of now
	exportAsked                    // request the export, if necessary again with the same token
	exportReport                   // read its progress from the service
	exportThere                    // it is complete and admissible: plan the load
	exportEnds                     // make no further attempt
)

const (
	// tokenLives is how long after its begin an attempt is retried with the same token, which the
	// service remembers for eight hours.
	tokenLives = 7 * time.Hour
	// exportGrace is how long an attempt may be refused for its time, or be unknown, before that
	// counts. The latest time that can be restored is minutes behind the present.
	exportGrace = 15 * time.Minute
)

// nextExportStep decides the next step. Why is the reason for exportEnds. An export of an earlier
// generation, or one that has become too old, is requested again. The number of requests is
// limited, because each costs money (H106).
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
		return exportEnds, fmt.Sprintf("%d exports were requested, but each became too old or came before a new gap", r.Attempts)
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

// request takes one step towards the export that the load was requested from, and reports whether
// it is complete. Each call is retried in the next pass, because an operator may have changed the
// request.
func (c *Conductor) request(life engine.Lifecycle, v engine.View) (there bool, err error) {
	r := v.State.Load.Request
	if !r.Wanted() {
		return true, nil
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

// asking leaves time between the calls about one attempt, which takes minutes or hours. It ends the
// attempt if the service refuses it permanently.
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

// orderExport requests the export of the current attempt, or finds it if the service has already
// accepted it.
func (c *Conductor) orderExport(ctx context.Context, state checkpoint.TableState) error {
	r := state.Load.Request
	d, err := c.database.Describe(ctx, c.Source)
	if err != nil {
		return err
	}
	bucket, prefix := source.Bucket(r.To)
	taken, err := c.exporter.Request(ctx, backfill.ExportOrder{TableARN: d.ARN, Bucket: bucket, Prefix: prefix, At: r.At, Token: c.Ledger.ExportToken(state)})
	if err != nil {
		return err
	}
	if _, err := c.Ledger.AcceptExport(ctx, c.Source, r.Serial, taken.ARN); err != nil {
		return err
	}
	c.Events.Exporting(c.Source, taken.ARN, "")
	c.wake.Signal()
	return nil
}

// followExport checks an accepted export, and passes it to the load once it is complete.
func (c *Conductor) followExport(ctx context.Context, r checkpoint.ExportRequest) error {
	report, err := c.exporter.Report(ctx, r.ARN)
	switch {
	case err != nil:
		return err
	case report.Failed != "":
		return c.giveUp(ctx, r, report.Failed)
	case report.Part != "" || !report.JSON: // it is not the requested export
		return c.giveUp(ctx, r, "the export "+r.ARN+" is not a full export in DynamoDB JSON")
	case !report.Done:
		return nil
	}
	address := source.Delivered(report)
	images, err := source.Open(ctx, c.sources.From, address)
	var fault *source.Fault
	switch {
	case errors.As(err, &fault):
		return c.giveUp(ctx, r, fault.Error())
	case err != nil:
		return err
	}
	e := images.Records()[0]
	if e.ARN != r.ARN {
		return c.giveUp(ctx, r, "there is another export at "+address)
	}
	_, err = c.Ledger.FinishExport(ctx, c.Source, r.Serial, checkpoint.Export{Address: address, ARN: e.ARN, At: e.At})
	c.wake.Signal()
	return err
}

func (c *Conductor) giveUp(ctx context.Context, r checkpoint.ExportRequest, why string) error {
	_, err := c.Ledger.FailExport(ctx, c.Source, r.Serial, why)
	if err == nil {
		c.Events.Exporting(c.Source, r.ARN, why)
	}
	return err
}
