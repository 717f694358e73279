package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/dynamodb-bigtable/replicator/internal/admin"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

func newParkedDrop(p *program) *cobra.Command {
	var s selection
	var allowed config.Allowed
	var yes bool
	c := &cobra.Command{
		Use:   "drop [REF…] [flags]",
		Short: "Discard parked items",
		Long: `Remove the records of parked items without storing the items.

The rows of a parked item were removed when it was parked. They stay removed until the item changes in the source, or is loaded
again; if it still cannot be stored then, it is parked again. Nothing is deleted in the source. Each dropped record is logged,
without item data; its content is gone.

` + refHelp + ` With a version, the records of the item's other versions stay.`,
		Example: `  replicator parked drop Orders/2c26b46b68ffc68ff99b453c1d304134
  replicator parked drop --table Orders --reason 'attribute name' --yes`,
		RunE: func(c *cobra.Command, args []string) error {
			s.refs = args
			if err := s.check(c.CommandPath()); err != nil {
				return err
			}
			if !yes && !interactive() {
				return diag.BadUsage("replicator parked drop asks before it drops anything, and there is no terminal", "add --yes")
			}
			return p.decide(c.Context(), &s, allowed, func(d *decision, ctx context.Context) error { return d.drop(ctx, yes) })
		},
	}
	selectFlags(c, &s, &allowed)
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return c
}

// interactive tells whether somebody can be asked.
func interactive() bool {
	return term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stderr.Fd()))
}

// drop forgets the chosen records.
func (d *decision) drop(ctx context.Context, yes bool) error {
	if !yes && len(d.chosen) > 0 {
		question := fmt.Sprintf("Drop %s of %s? The rows stay removed until the items change.", terminal.Plural(len(d.chosen), "record"),
			terminal.Plural(len(byItem(d.chosen)), "parked item"))
		if err := confirm(ctx, os.Stdin, d.Stderr, question); err != nil {
			return err
		}
	}
	dropped := []parkedEntry{}
	var failed error
	for _, record := range d.chosen {
		limited, cancel := context.WithTimeoutCause(ctx, preflight.ReadTime, preflight.ErrReadTime)
		failed = parkingFailed(limited, d.cfg, d.lot.Remove(limited, record.ref))
		cancel()
		if failed != nil {
			break
		}
		d.log.Warn("a parked item is dropped", admin.KeyTable, record.Source, admin.KeyParked, string(record.ref), admin.KeyReason, record.Reason)
		dropped = append(dropped, entryOf(record.ref, record.Parked))
	}
	return errors.Join(d.writeDropped(dropped), failed)
}

func (d *decision) writeDropped(dropped []parkedEntry) error {
	if d.AsJSON() {
		return d.WriteJSON(struct {
			Schema  string        `json:"schema"`
			Dropped []parkedEntry `json:"dropped"`
		}{"replicator.parked_drop/v1", dropped})
	}
	for _, e := range dropped {
		if _, err := fmt.Fprintln(d.Stdout, e.Ref); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(d.Stdout, "%s dropped\n", terminal.Plural(len(dropped), "record"))
	return err
}

// confirm asks a question that only yes answers. Anything else is an error of usage: nothing was done. A signal ends the wait.
func confirm(ctx context.Context, in io.Reader, out io.Writer, question string) error {
	if _, err := fmt.Fprintf(out, "%s [y/N] ", question); err != nil {
		return err
	}
	type line struct {
		text string
		err  error
	}
	read := make(chan line, 1)
	go func() { // left behind if a signal comes: nothing ends a read from a terminal
		text, err := bufio.NewReader(in).ReadString('\n')
		read <- line{text, err}
	}()
	var answer line
	select {
	case answer = <-read:
	case <-ctx.Done():
		return terminal.Ended(ctx)
	}
	if answer.err != nil && !errors.Is(answer.err, io.EOF) {
		return answer.err
	}
	switch strings.ToLower(strings.TrimSpace(answer.text)) {
	case "y", "yes":
		return nil
	}
	return diag.BadUsage("not confirmed: nothing was changed", "answer y, or give --yes")
}
