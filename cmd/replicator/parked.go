package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

func newParked(p *program) *cobra.Command {
	c := group(&cobra.Command{
		Use:     "parked",
		Short:   "list | show items that could not be mapped",
		GroupID: groupOperate,
		Long: `Look at items that could not be mapped or stored. Each is kept whole with its reason until an operator decides.

A later change of the same item that can be stored resolves its entry: correct the item in the source.`,
	})
	var table string
	list := &cobra.Command{
		Use:   "list [flags]",
		Short: "List parked items without their content",
		Long:  "List parked items: table, hash of the key, version, time and reason. Nothing of the items themselves is shown.",
		Args:  none,
		RunE: func(c *cobra.Command, _ []string) error {
			return p.withParking(c.Context(), table, func(ctx context.Context, lot *sink.Parking) error { return p.listParked(ctx, lot, table) })
		},
	}
	list.Flags().StringVar(&table, "table", "", "only this source `TABLE`")
	allowEmulatorOfReader(list)
	show := &cobra.Command{
		Use:   "show REF [flags]",
		Short: "Show a parked item whole, as JSON",
		Long: `Show a parked item whole, as JSON on stdout: its key, its reason and the change with both images in DynamoDB's own JSON.

REF is TABLE/HASH/VERSION as "list -o json" gives it; TABLE/HASH or HASH alone do where only one record has it. This is the
one place where item data is shown: mind who reads the output.`,
		Example: `  replicator parked show Orders/2c26b46b68ffc68ff99b453c1d304134`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("replicator parked show needs the item to show", "take one from `replicator parked list`")
			}
			return atMost(1)(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			return p.withParking(c.Context(), "", func(ctx context.Context, lot *sink.Parking) error { return p.showParked(ctx, lot, args[0]) })
		},
	}
	allowEmulatorOfReader(show)
	c.AddCommand(list, show)
	return c
}

// withParking opens the parking lot for a command. Before the first run there is no state table, and so nothing is parked.
func (p *program) withParking(ctx context.Context, table string, f func(ctx context.Context, lot *sink.Parking) error) error {
	ctx, cancel := p.within(ctx)
	defer cancel()
	cfg, err := p.load()
	if err != nil {
		return err
	}
	if err := knownTable(cfg, table); err != nil {
		return err
	}
	t, err := openTarget(ctx, cfg)
	if err != nil {
		return err
	}
	defer t.Close()
	if host, _ := p.env("BIGTABLE_EMULATOR_HOST"); host != "" {
		_, _ = fmt.Fprintf(p.stderr, "%s EMULATOR at %s\n", targetName(cfg), host)
	}
	ctx, done := context.WithTimeoutCause(ctx, readTime, errReadTime)
	defer done()
	err = f(ctx, sink.NewParking(t.data.Records(cfg.State.Table), cfg.Name))
	var told *diag.Error
	if err == nil || errors.As(err, &told) {
		return err
	}
	return readingFailed(ctx, "cannot read parked items in table "+cfg.State.Table, err)
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
	_, hash, _ := splitRef(ref)
	return parkedEntry{Ref: string(ref), Table: record.Source, KeyHash: hash, Version: string(record.Version),
		Event: record.Change.Event.String(), Time: record.Change.Time.UTC(), Reason: record.Reason}
}

// splitRef takes a reference apart: table, hash of the key, version. Table names have no slash.
func splitRef(ref sink.Ref) (table, hash, version string) {
	table, rest, _ := strings.Cut(string(ref), "/")
	hash, version, _ = strings.Cut(rest, "/")
	return table, hash, version
}

// list reads entries; without a state table there are none.
func list(ctx context.Context, lot *sink.Parking, table string, f func(sink.Ref, transform.Parked) error) error {
	err := lot.List(ctx, table, f)
	var failed *sink.Error
	if errors.As(err, &failed) && failed.Code == codes.NotFound.String() || status.Code(err) == codes.NotFound {
		return nil
	}
	return err
}

func (p *program) listParked(ctx context.Context, lot *sink.Parking, table string) error {
	entries := []parkedEntry{}
	if err := list(ctx, lot, table, func(ref sink.Ref, record transform.Parked) error {
		entries = append(entries, entryOf(ref, record))
		return nil
	}); err != nil {
		return err
	}
	if p.asJSON() {
		return p.writeJSON(struct {
			Schema string        `json:"schema"`
			Items  []parkedEntry `json:"items"`
		}{"replicator.parked/v1", entries})
	}
	if len(entries) == 0 {
		_, err := fmt.Fprintln(p.stdout, "nothing is parked")
		return err
	}
	tab := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(tab, "TABLE\tKEY HASH\tVERSION\tTIME\tREASON")
	for _, e := range entries {
		_, _ = fmt.Fprintf(tab, "%s\t%s\t%s\t%s\t%s\n", e.Table, e.KeyHash, e.Version, e.Time.Format(time.RFC3339), e.Reason)
	}
	return tab.Flush()
}

// errAmbiguous ends a search that found more than one record.
var errAmbiguous = errors.New("more than one")

func (p *program) showParked(ctx context.Context, lot *sink.Parking, word string) error {
	var found *transform.Parked
	var ref sink.Ref
	err := list(ctx, lot, "", func(r sink.Ref, record transform.Parked) error {
		_, hash, _ := splitRef(r)
		if string(r) != word && !strings.HasPrefix(string(r), word+"/") && hash != word {
			return nil
		}
		if found != nil {
			return errAmbiguous
		}
		found, ref = &record, r
		return nil
	})
	switch {
	case errors.Is(err, errAmbiguous):
		return usage("more than one parked record fits the reference", "give it whole: TABLE/HASH/VERSION, from `replicator parked list -o json`")
	case err != nil:
		return err
	case found == nil:
		return &diag.Error{Code: diag.Usage, What: "no parked record has this reference", Fix: "take one from `replicator parked list`",
			Cause: "a later change may have resolved it"}
	}
	change, err := cdc.MarshalChange(found.Change)
	if err != nil {
		return err
	}
	return p.writeJSON(struct {
		Schema string `json:"schema"`
		parkedEntry
		Key    string          `json:"key"`
		Change json.RawMessage `json:"change"`
	}{"replicator.parked_item/v1", entryOf(ref, *found), found.Key, change})
}
