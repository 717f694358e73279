package deadletter

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"text/tabwriter"

	"github.com/dynamodb-bigtable/replicator/internal/admin"
	"github.com/dynamodb-bigtable/replicator/internal/apply"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/desk"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/environment"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/relay"
)

// Letter is the subscription of a dead-letter topic.
type Letter interface {
	relay.Subscription
	Close() error
}

// Operator runs the commands about dead-letter messages.
type Operator struct {
	Console *terminal.Console
	Cfg     *config.Config
	Log     *slog.Logger
	Allowed environment.Allowed
	Ends    desk.Ends
	With    string // flags to append to commands in messages
	// Open connects to the dead-letter subscription. If it is nil, the subscription of the
	// configuration is used.
	Open func(ctx context.Context) (Letter, error)
}

// with reads the messages and their fates, and passes them to f. Afterwards it gives back the
// messages that f has not dropped.
func (o *Operator) with(ctx context.Context, r desk.Request, f func(from Letter, all []*entry) error) error {
	m, err := o.Ends.Open(ctx, o.Console, o.Cfg, r)
	if err != nil {
		return err
	}
	defer m.Close()
	open := o.Open
	if open == nil {
		open = func(ctx context.Context) (Letter, error) { return preflight.OpenDeadLetter(ctx, o.Cfg) }
	}
	from, err := open(ctx)
	if err != nil {
		return err
	}
	defer from.Close()
	all, err := read(ctx, from)
	defer func() { giveBack(context.WithoutCancel(ctx), from, all) }()
	if err != nil {
		return preflight.ExplainTopic("cannot read the dead-letter topic", err)
	}
	limited, done := preflight.Reading(ctx)
	defer done()
	if err := judge(limited, m.Ledger, all); err != nil {
		return preflight.ReadingFailed(limited, "cannot read the ledger in table "+o.Cfg.State.Table, err)
	}
	return f(from, all)
}

// List writes the messages, one line each or as one document.
func (o *Operator) List(ctx context.Context, s *Selection) error {
	return o.with(ctx, desk.Request{Command: "relay dead-letter list", Table: s.Table, Allowed: o.Allowed, With: o.With}, func(_ Letter, all []*entry) error {
		found, err := s.find(all)
		if err != nil {
			return err
		}
		if o.Console.AsJSON() {
			return o.Console.WriteJSON(document{Schema: "replicator.dead_letter/v1", Messages: present(found), Next: o.next(found)})
		}
		if len(found) == 0 {
			_, err := fmt.Fprintln(o.Console.Stdout, "no messages found in the dead-letter topic")
			return err
		}
		return o.Console.Show(o.Console.Stdout, func(w io.Writer) error {
			if err := write(w, found); err != nil {
				return err
			}
			return o.writeNext(w, found)
		})
	})
}

// Drop removes the selected messages permanently. Without yes, it asks for confirmation. A dry run
// removes no message.
func (o *Operator) Drop(ctx context.Context, s *Selection, dry, yes bool) error {
	return o.with(ctx, desk.Request{Command: "relay dead-letter drop", Table: s.Table, Allowed: o.Allowed, With: o.With}, func(from Letter, all []*entry) error {
		found, err := s.find(all)
		if err != nil {
			return err
		}
		if !dry && !yes && len(found) > 0 {
			if err := write(o.Console.Stderr, found); err != nil {
				return err
			}
			if err := terminal.Confirm(ctx, os.Stdin, o.Console.Stderr, question(found)); err != nil {
				return err
			}
		}
		if !dry && len(found) > 0 {
			if err := from.Ack(ctx, idsOf(found)); err != nil {
				return preflight.ExplainTopic("cannot drop dead-letter messages", err)
			}
			for _, e := range found {
				e.ids = nil
				o.Log.Warn("dropped dead-letter message", admin.KeyTable, e.Table, "ref", e.Ref, "state", string(e.State), admin.KeyReason, e.Reason)
			}
		}
		return o.told(found, dry)
	})
}

// question describes the messages to drop and the consequences, and asks for confirmation.
func question(found []*entry) string {
	text := fmt.Sprintf("Drop %s for good?", terminal.Plural(len(found), "message"))
	if lost := ofFate(found, apply.Missing); len(lost) > 0 {
		text += fmt.Sprintf(" %s not known to be applied. Their rows stay wrong until they are repaired.", terminal.Are(len(lost), "message"))
	}
	return text
}

// document is the JSON document of the commands that list and drop messages.
type document struct {
	Schema   string   `json:"schema"`
	DryRun   *bool    `json:"dry_run,omitempty"`
	Messages []*entry `json:"messages,omitempty"`
	Dropped  []*entry `json:"dropped,omitempty"`
	// Lost is the number of dropped messages with changes that are not known to be applied.
	Lost *int     `json:"lost,omitempty"`
	Next []string `json:"next"` // commands that repair the rows
}

// present returns a list that is encoded as [] in JSON, and not as null, if it is empty.
func present(all []*entry) []*entry { return append([]*entry{}, all...) }

// told shows the messages that were dropped. In a dry run, it shows the messages that a drop would
// remove.
func (o *Operator) told(found []*entry, dry bool) error {
	lost := len(ofFate(found, apply.Missing))
	if o.Console.AsJSON() {
		return o.Console.WriteJSON(document{Schema: "replicator.dead_letter_drop/v1", DryRun: &dry, Dropped: present(found), Lost: &lost, Next: o.next(found)})
	}
	return o.Console.Show(o.Console.Stdout, func(w io.Writer) error {
		if len(found) > 0 {
			if err := write(w, found); err != nil {
				return err
			}
		}
		verb := "dropped"
		if dry {
			verb = "would be dropped"
		}
		if _, err := fmt.Fprintf(w, "%s %s\n", terminal.Plural(len(found), "message"), verb); err != nil {
			return err
		}
		return o.writeNext(w, found)
	})
}

// ofFate returns the messages with one fate.
func ofFate(all []*entry, fate apply.Fate) (out []*entry) {
	for _, e := range all {
		if e.State == fate {
			out = append(out, e)
		}
	}
	return out
}

// next returns the commands that repair the rows of missing changes, table by table. A verify with
// --repair repairs the rows. After that, only a load can prove that all changes are applied.
func (o *Operator) next(all []*entry) []string {
	out := []string{}
	for _, e := range ofFate(all, apply.Missing) {
		for _, command := range []string{"replicator verify --repair --table " + e.Table, "replicator backfill redo --table " + e.Table} {
			if command += o.With; !slices.Contains(out, command) {
				out = append(out, command)
			}
		}
	}
	return out
}

// writeNext explains the consequences of missing changes.
func (o *Operator) writeNext(w io.Writer, all []*entry) error {
	next := o.next(all)
	if len(next) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "\n%s missing: not known to be applied. Repair the rows, then load the table, or it is never in sync:\n",
		terminal.Are(len(ofFate(all, apply.Missing)), "change"))
	for _, command := range next {
		if err == nil {
			_, err = fmt.Fprintln(w, "  "+command)
		}
	}
	return err
}

// With short names, the list fits a terminal of 100 columns.
const (
	shownHash = 12
	shownName = 40
)

// write writes messages for people.
func write(w io.Writer, all []*entry) error {
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(tab, "REF\tTABLE\tKEY HASH\tSTATE\tREASON")
	for _, e := range all {
		_, _ = fmt.Fprintf(tab, "%s\t%s\t%.*s\t%s\t%s\n", e.Ref, dash(diag.Printable(fmt.Sprintf("%.*s", shownName, e.Table))), shownHash, dash(e.KeyHash), e.State, diag.Printable(e.Reason))
	}
	return tab.Flush()
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
