package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/status"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// view is one way of showing a status again and again.
type view struct {
	show  func(m *status.Document) error
	fails func(err error) error // tells of a reading that failed, after one that did not
}

// views chooses how --watch shows: one line of JSON for each reading, a screen that is drawn again, or a block under the last one.
func (p *program) views(shards, screen bool) view {
	tell := p.tell
	switch {
	case p.AsJSON():
		return view{fails: tell, show: func(m *status.Document) error {
			line, err := json.Marshal(m)
			if err != nil {
				return err
			}
			_, err = p.Stdout.Write(append(line, '\n'))
			return err
		}}
	case screen:
		last := "" // what was shown last, which stays on the screen beside the error
		draw := func(text string) error {
			// From the top left corner, each line to its end, and what is left of the last drawing away: nothing flickers.
			_, err := fmt.Fprint(p.Stdout, "\x1b[H", strings.ReplaceAll(text, "\n", "\x1b[K\n"), "\x1b[J")
			return err
		}
		return view{
			show: func(m *status.Document) error {
				var text bytes.Buffer
				if err := m.Render(&text, shards); err != nil {
					return err
				}
				last = fmt.Sprintf("%s\n%s UTC\n", text.String(), m.At.Format(time.TimeOnly))
				return draw(last)
			},
			fails: func(err error) error {
				var text bytes.Buffer
				_ = diag.Render(&text, err) // a buffer takes everything
				return draw(last + "\n" + text.String())
			},
		}
	}
	first := true
	return view{fails: tell, show: func(m *status.Document) error {
		if !first {
			if _, err := fmt.Fprintln(p.Stdout); err != nil {
				return err
			}
		}
		first = false
		if _, err := fmt.Fprintf(p.Stdout, "%s\n", m.At.Format(time.RFC3339)); err != nil {
			return err
		}
		return m.Render(p.Stdout, shards)
	}}
}

// watch shows the status now and at every tick, until ctx ends. A first reading that fails ends it, because then something is set up
// wrongly; later ones may fail for a while, and are told.
func watch(ctx context.Context, read func(ctx context.Context) (*status.Document, error), v view, ticks <-chan time.Time) error {
	for seen := false; ; {
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
		select {
		case <-ctx.Done():
			return terminal.Ended(ctx)
		case <-ticks:
		}
	}
}

// onScreen tells whether stdout is a terminal, and makes room on it.
func (p *program) onScreen() (bool, error) {
	file, ok := p.Stdout.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return false, nil
	}
	_, err := fmt.Fprint(p.Stdout, "\x1b[2J")
	return true, err
}

// checkInterval refuses a watch that would read without a pause.
func checkInterval(interval time.Duration) error {
	if interval < minInterval {
		return diag.BadUsage("--interval is less than "+minInterval.String(), "every reading asks Bigtable for the whole ledger; 2s is the default")
	}
	return nil
}

// minInterval is the shortest time between two readings of --watch.
const minInterval = 100 * time.Millisecond
