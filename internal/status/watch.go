package status

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/desk"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// Reader reads and judges the status of a migration that a command has opened.
type Reader struct {
	Config    *config.Config
	Migration *desk.Migration
	Env       config.Lookup
	Hints     string // flags to append to commands in next steps
	Shards    bool   // whether each shard is shown too

	again bool
	watch *checkpoint.Watch // watch of the driver's lease
}

// Read reads the ledger, and the targets of tables that have no coordinator.
func (r *Reader) Read(ctx context.Context) (*Document, error) {
	if r.again {
		if err := r.Migration.Refresh(ctx); err != nil {
			return nil, err
		}
	}
	r.again = true
	l, err := Of(ctx, r.Config, r.Migration)
	if err != nil {
		return nil, err
	}
	if r.watch == nil && l.Ledger != nil {
		r.watch = l.Ledger.NewWatch()
	}
	if err := l.lookForDrivers(ctx, r.watch); err != nil {
		return nil, preflight.ReadingFailed(ctx, "cannot read the ledger in table "+r.Config.State.Table, err)
	}
	l.lookWhere(ctx, r.Migration.To.Cluster)
	l.LookAtTargets(ctx, r.Migration.To.WitnessStore, r.Migration.Now(ctx))
	m := l.Judge(r.Env, r.Hints, r.Migration.Now(ctx))
	l.TellMappings(m)
	if r.Shards {
		m.looked()
	} else {
		m.Shards = nil
	}
	return m, nil
}

// looked removes advice to run the command that shows the shards, because this document already
// shows them.
func (m *Document) looked() {
	looks := func(s standing.NextStep) bool { return strings.HasPrefix(s.Command, "replicator status --shards") }
	m.NextSteps = slices.DeleteFunc(m.NextSteps, looks)
	for i := range m.Tables {
		m.Tables[i].NextSteps = slices.DeleteFunc(m.Tables[i].NextSteps, looks)
	}
}

// Watch shows the status now and at every interval, until ctx ends. Explain converts the errors of
// readings that fail after the first successful reading.
func (r *Reader) Watch(ctx context.Context, p *terminal.Console, interval time.Duration, explain func(error) error) error {
	screen, err := onScreen(p)
	if err != nil {
		return err
	}
	return watch(ctx, r.Read, views(p, r.Shards, screen, explain), interval)
}

// view is one way to show a status repeatedly.
type view struct {
	show  func(m *Document) error
	fails func(err error) error // explains a failed reading that follows a successful reading
}

// views chooses how a status is shown repeatedly: as one line of JSON for each reading, on a screen
// that is redrawn, or as a block of text for each reading.
func views(p *terminal.Console, shards, screen bool, explain func(error) error) view {
	switch {
	case p.AsJSON():
		return view{fails: explain, show: func(m *Document) error {
			line, err := json.Marshal(m)
			if err != nil {
				return err
			}
			_, err = p.Stdout.Write(append(line, '\n'))
			return err
		}}
	case screen:
		last := "" // the last status that was shown; it stays on the screen with the error
		draw := func(text string) error {
			// Draw from the top left corner, clear each line to its end, and clear the rest of the
			// screen. So the screen does not flicker.
			_, err := fmt.Fprint(p.Stdout, "\x1b[H", strings.ReplaceAll(text, "\n", "\x1b[K\n"), "\x1b[J")
			return err
		}
		return view{
			show: func(m *Document) error {
				var text bytes.Buffer
				if err := m.Render(&text, shards); err != nil {
					return err
				}
				last = fmt.Sprintf("%s\n%s UTC\n", painted(p, text.Bytes()), m.At.Format(time.TimeOnly))
				return draw(last)
			},
			fails: func(err error) error {
				var text bytes.Buffer
				_ = diag.Render(&text, err) // a write to a buffer never fails
				return draw(last + "\n" + painted(p, text.Bytes()))
			},
		}
	}
	first := true
	return view{fails: explain, show: func(m *Document) error {
		if !first {
			if _, err := fmt.Fprintln(p.Stdout); err != nil {
				return err
			}
		}
		first = false
		if _, err := fmt.Fprintf(p.Stdout, "%s\n", m.At.Format(time.RFC3339)); err != nil {
			return err
		}
		return m.Render(p.Stdout, shards) // not a terminal
	}}
}

// painted returns a text in the form in which it is drawn on the screen.
func painted(p *terminal.Console, text []byte) string {
	if p.Colored(p.Stdout) {
		text = terminal.Paint(text)
	}
	return string(text)
}

// watch shows the status now and at every interval, until ctx ends. If the first reading fails, it
// ends, because the setup is wrong. Later readings may fail temporarily; watch shows each failure.
func watch(ctx context.Context, read func(ctx context.Context) (*Document, error), v view, interval time.Duration) error {
	for seen := false; ; {
		next := task.Mono(ctx) + interval
		m, err := read(ctx)
		switch {
		case ctx.Err() != nil:
			return terminal.Ended(ctx)
		case err == nil:
			seen = true
			err = v.show(m)
		case seen:
			err = v.fails(err)
		}
		if err != nil {
			return err
		}
		if task.Sleep(ctx, next-task.Mono(ctx)) != nil {
			return terminal.Ended(ctx)
		}
	}
}

// onScreen reports whether stdout is a terminal, and if so makes room on it.
func onScreen(p *terminal.Console) (bool, error) {
	file, ok := p.Stdout.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return false, nil
	}
	_, err := fmt.Fprint(p.Stdout, "\x1b[2J")
	return true, err
}
