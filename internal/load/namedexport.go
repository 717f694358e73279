package load

import (
	"errors"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/source"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// askNamed checks the export that the configuration names, and requests the first load from it. If
// the export is refused, it records the refusal, which the status shows.
func (c *Conductor) askNamed(life engine.Lifecycle) error {
	v, err := c.Look(life.Work)
	if err != nil {
		return err
	}
	if stage := v.State.Stage(); v.State.Suspended.Reason != "" || stage != checkpoint.StageNone && !v.State.Load.Request.Refused() {
		return nil // the next step handles later changes of the record
	}
	now := c.Ledger.ServiceTime(life.Work)
	if now.IsZero() {
		return nil
	}
	var hole *checkpoint.NotAdmissible
	if err := checkpoint.Admissible(v.State, v.Shards, now, c.settings.late); errors.As(err, &hole) && hole.Yet {
		return nil
	}
	c.judged = max(task.Mono(life.Work), 1)
	e, err := c.settings.named.Judge(life.Work, v.State, v.Shards)
	var refused *source.Refused
	switch {
	case errors.As(err, &hole) && hole.Yet:
		return nil
	case errors.As(err, &refused):
		if refused.Why == v.State.Load.Request.Failed {
			return nil
		}
		if _, err = c.Ledger.RefuseExport(life.Work, c.Source, c.settings.named.Address, refused.Why); err == nil {
			c.Events.Exporting(c.Source, c.settings.named.Address, refused.Why)
		}
	case err == nil:
		_, err = c.Ledger.AskExport(life.Work, c.Source, false, e)
	}
	c.wake.Signal()
	c.wakeAssigner.Signal()
	return err
}

// judgeAgain checks a refused export again from time to time. Its last file or a missing permission
// may have been added since.
func (c *Conductor) judgeAgain(life engine.Lifecycle, state checkpoint.TableState) error {
	if !c.settings.wanted || !c.settings.named.Given() || state.Load.Paused != "" || state.StreamEnded ||
		c.judged > 0 && task.Mono(life.Work)-c.judged < c.Timing.List {
		return nil
	}
	return c.askNamed(life)
}
