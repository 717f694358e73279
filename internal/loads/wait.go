package loads

import (
	"context"
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// ended reports whether the load of a table is complete, including its sweep. If the load cannot
// continue without an operator, `stuck` is the reason. The argument `again` reports whether loads
// after a gap start automatically.
func ended(s checkpoint.TableState, again bool) (over bool, stuck string) {
	load := standing.LoadOf(s, again)
	switch {
	case load.State == standing.LoadApproval:
		return false, "the sweep waits for approval"
	case s.Load.Paused == checkpoint.PausedByOperator && load.UnderWay:
		return false, pausedText(s.Load.Paused)
	case NoExport(s) != "":
		return false, NoExport(s)
	case load.Waits != "":
		return false, "the table needs a load (" + load.Waits + "): " + s.Reason
	}
	return load.Over, "" // the first load will start automatically
}

// verdict returns whether all loads are complete. If the loads of some tables cannot continue
// without an operator, it returns an error with the next command.
func (in *Input) verdict(with string) (over bool, err error) {
	if in.ledger == nil {
		return false, &diag.Error{Code: diag.LoadWaits, What: "no load is running", Cause: "the migration has not begun", Fix: "replicator run" + with}
	}
	var found diag.List
	over = true
	for _, t := range in.Tables {
		ended, stuck := ended(t.State, in.again())
		over = over && ended
		if stuck == "" {
			continue
		}
		fix := standing.Command("backfill start --table TABLE", t.Config.From, with)
		if step, ok := Next(t.State, in.again(), with); ok {
			fix = step.Command
		}
		found = append(found, &diag.Error{Code: diag.LoadWaits, What: "the load of table " + t.Config.From + " waits", Cause: stuck, Fix: fix})
	}
	return over, found.Err()
}

// The intervals of a wait: between two reads of the ledger, and between two progress lines.
const (
	lookEvery   = 2 * time.Second
	reportEvery = 10 * time.Second
)

// timekeeper is the clock of the ledger.
type timekeeper interface {
	Now(ctx context.Context) time.Time
}

// wait waits until every load is complete, and shows the progress. It fails as soon as a load
// cannot continue without an operator.
func (in *Input) wait(ctx context.Context, clock timekeeper, p *terminal.Console, with string) error {
	told := task.Mono(ctx) - reportEvery
	for {
		if over, err := in.verdict(with); over || err != nil {
			return err
		}
		if at := task.Mono(ctx); at-told >= reportEvery {
			told = at
			in.tell(p, clock.Now(ctx))
		}
		if task.Sleep(ctx, lookEvery) != nil {
			return terminal.Ended(ctx)
		}
		limited, cancel := preflight.Reading(ctx)
		err := explain(limited, "cannot read the ledger in table "+in.Cfg.State.Table, in.refresh(limited))
		cancel()
		if err != nil {
			return err
		}
	}
}

// tell writes the progress of unfinished loads to stderr.
func (in *Input) tell(p *terminal.Console, now time.Time) {
	for _, t := range in.Tables {
		if over, _ := ended(t.State, in.again()); !over {
			_, _ = fmt.Fprintln(p.Stderr, in.line(t, now))
		}
	}
}
