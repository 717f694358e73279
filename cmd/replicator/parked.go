package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

func newParked(p *program) *cobra.Command {
	c := group(&cobra.Command{
		Use:     "parked",
		Short:   "list | show | retry | drop items that could not be mapped",
		GroupID: groupOperate,
		Long: `Look at items that could not be mapped or stored, and decide about them. Each is kept whole with its reason.

The item's former row is removed from the target, so that nobody reads stale data. A later change of the item that can be stored,
or its removal, resolves its entry by itself. Otherwise correct the cause and retry, or drop the entry. Of several changes of an
item that cannot be stored, the last one is kept.`,
	})
	c.AddCommand(newParkedList(p), newParkedShow(p), newParkedRetry(p), newParkedDrop(p))
	return c
}

func newParkedList(p *program) *cobra.Command {
	var s selection
	c := &cobra.Command{
		Use:   "list [flags]",
		Short: "List parked items without their content",
		Long:  "List parked items: table, hash of the key, version, time and reason. Nothing of the items themselves is shown.",
		Example: `  replicator parked list --table Orders
  replicator parked list -o json | jq -r '.items[].ref'`,
		Args: none,
		RunE: func(c *cobra.Command, _ []string) error {
			s.all = true
			return p.withParking(c.Context(), s.table, func(ctx context.Context, _ *config.Config, lot *sink.Parking) error {
				return p.listParked(ctx, lot, &s)
			})
		},
	}
	c.Flags().StringVar(&s.table, "table", "", "only this source `TABLE`")
	c.Flags().StringVar(&s.reason, "reason", "", "only those whose reason contains `TEXT`")
	allowEmulatorOfReader(c)
	return c
}

func newParkedShow(p *program) *cobra.Command {
	var s selection
	c := &cobra.Command{
		Use:   "show [REF] [flags]",
		Short: "Show a parked item whole, as JSON",
		Long: `Show a parked item whole, as JSON on stdout: its key, its reason and the change with both images in DynamoDB's own JSON.

` + refHelp + ` This shows item data: mind who reads the output.`,
		Example: `  replicator parked show Orders/2c26b46b68ffc68ff99b453c1d304134
  replicator parked show --table Orders --key '{"PK":"hats","SK":"fedoras"}'`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 && s.key == "" {
				return diag.BadUsage("replicator parked show needs the item to show", "take one from `replicator parked list`, or give --table and --key")
			}
			return atMost(1)(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			s.refs = args
			if err := s.check(c.CommandPath()); err != nil {
				return err
			}
			return p.withParking(c.Context(), s.table, func(ctx context.Context, _ *config.Config, lot *sink.Parking) error {
				return p.showParked(ctx, lot, &s)
			})
		},
	}
	c.Flags().StringVar(&s.table, "table", "", "source `TABLE` of --key")
	c.Flags().StringVar(&s.key, "key", "", preflight.KeyHelp)
	allowEmulatorOfReader(c)
	return c
}

// withParking opens the parking lot for a command that asks the target only.
func (p *program) withParking(ctx context.Context, table string, f func(ctx context.Context, cfg *config.Config, lot *sink.Parking) error) error {
	ctx, cancel := p.within(ctx)
	defer cancel()
	cfg, err := p.load()
	if err != nil {
		return err
	}
	if err := preflight.KnownTable(cfg, table); err != nil {
		return err
	}
	t, err := preflight.OpenTarget(ctx, cfg)
	if err != nil {
		return err
	}
	defer t.Close()
	if host, _ := p.Env("BIGTABLE_EMULATOR_HOST"); host != "" {
		_, _ = fmt.Fprintf(p.Stderr, "%s EMULATOR at %s\n", preflight.TargetName(cfg), host)
	}
	ctx, done := context.WithTimeoutCause(ctx, preflight.ReadTime, preflight.ErrReadTime)
	defer done()
	return parkingFailed(ctx, cfg, f(ctx, cfg, sink.NewParking(t.Data.Records(cfg.State.Table), cfg.Name)))
}

// parkingFailed explains an error of the parking lot; one that is explained already stays.
func parkingFailed(ctx context.Context, cfg *config.Config, err error) error {
	var told *diag.Error
	if err == nil || errors.As(err, &told) {
		return err
	}
	return preflight.ReadingFailed(ctx, "cannot read parked items in table "+cfg.State.Table, err)
}

// parkedEntry is one line of the list.
type parkedEntry struct {
	Ref     string    `json:"ref"`
	Table   string    `json:"table"`
	KeyHash string    `json:"key_hash"`
	Version string    `json:"version"`
	Event   string    `json:"event"` // INSERT, MODIFY or REMOVE; of a loaded item, the one the load stands for
	Time    time.Time `json:"time"`  // of the change
	Reason  string    `json:"reason"`
}

func entryOf(ref sink.Ref, record transform.Parked) parkedEntry {
	_, hash, _ := ref.Parts()
	return parkedEntry{Ref: string(ref), Table: record.Source, KeyHash: hash, Version: string(record.Version),
		Event: record.Change.Event.String(), Time: record.Change.Time.UTC(), Reason: record.Reason}
}

func (p *program) listParked(ctx context.Context, lot *sink.Parking, s *selection) error {
	entries := []parkedEntry{}
	if err := s.each(ctx, lot, func(ref sink.Ref, record transform.Parked) error {
		entries = append(entries, entryOf(ref, record))
		return nil
	}); err != nil {
		return err
	}
	if p.AsJSON() {
		return p.WriteJSON(struct {
			Schema string        `json:"schema"`
			Items  []parkedEntry `json:"items"`
		}{"replicator.parked/v1", entries})
	}
	if len(entries) == 0 {
		_, err := fmt.Fprintln(p.Stdout, s.nothing())
		return err
	}
	tab := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(tab, "TABLE\tKEY HASH\tVERSION\tTIME\tREASON")
	for _, e := range entries {
		_, _ = fmt.Fprintf(tab, "%s\t%s\t%s\t%s\t%s\n", e.Table, e.KeyHash, e.Version, e.Time.Format(time.RFC3339), e.Reason)
	}
	return tab.Flush()
}

func (p *program) showParked(ctx context.Context, lot *sink.Parking, s *selection) error {
	found, err := s.find(ctx, lot)
	if err != nil {
		return err
	}
	if len(found) > 1 {
		return diag.BadUsage("more than one parked record fits", "give one whole: TABLE/HASH/VERSION, from `replicator parked list -o json`")
	}
	record := found[0]
	change, err := cdc.MarshalChange(record.Change)
	if err != nil {
		return err
	}
	return p.WriteJSON(struct {
		Schema string `json:"schema"`
		parkedEntry
		Key    string          `json:"key"`
		Change json.RawMessage `json:"change"`
	}{"replicator.parked_item/v1", entryOf(record.ref, record.Parked), record.Key, change})
}
