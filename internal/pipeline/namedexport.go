package pipeline

import (
	"errors"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// askNamed asks for the first load, from the export that the configuration names, once it is known
// whether its images may be applied. One that is refused is noted, for everybody to see.
func (c *conductor) askNamed(life lifecycle) error {
	v, err := c.look(life.work)
	if err != nil {
		return err
	}
	if stage := v.state.Stage(); v.state.Suspended.Reason != "" || stage != checkpoint.StageNone && !v.state.Load.Request.Refused() {
		return nil // whatever has changed since is for the next step
	}
	now := c.ledger.ServiceTime(life.work)
	if now.IsZero() {
		return nil
	}
	var hole *checkpoint.NotAdmissible
	if err := checkpoint.Admissible(v.state, v.shards, now, c.settings.late); errors.As(err, &hole) && hole.Yet {
		return nil
	}
	c.judged = max(task.Mono(life.work), 1)
	e, err := c.settings.named.Judge(life.work, v.state, v.shards)
	var refused *ExportRefused
	switch {
	case errors.As(err, &hole) && hole.Yet:
		return nil
	case errors.As(err, &refused):
		if refused.Why == v.state.Load.Request.Failed {
			return nil
		}
		if _, err = c.ledger.RefuseExport(life.work, c.source, c.settings.named.Address, refused.Why); err == nil {
			c.events.Exporting(c.source, c.settings.named.Address, refused.Why)
		}
	case err == nil:
		_, err = c.ledger.AskExport(life.work, c.source, false, e)
	}
	c.wake.Signal()
	c.wakeAssigner.Signal()
	return err
}

// judgeAgain judges a refused export once more, now and then: its last file may have come, or a
// permission.
func (c *conductor) judgeAgain(life lifecycle, state checkpoint.TableState) error {
	if !c.settings.wanted || !c.settings.named.named() || state.Load.Paused != "" || state.StreamEnded ||
		c.judged > 0 && task.Mono(life.work)-c.judged < c.timing.List {
		return nil
	}
	return c.askNamed(life)
}
