package parked

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/dynamodb-bigtable/replicator/internal/admin"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// Drop deletes the chosen records.
func (d *Decision) Drop(ctx context.Context, yes bool) error {
	if !yes && len(d.Chosen) > 0 {
		question := fmt.Sprintf("Drop %s of %s? The rows stay removed until the items change.", terminal.Plural(len(d.Chosen), "record"),
			terminal.Plural(len(ByItem(d.Chosen)), "parked item"))
		if err := terminal.Confirm(ctx, os.Stdin, d.Stderr, question); err != nil {
			return err
		}
	}
	dropped := []Entry{}
	var failed error
	for _, record := range d.Chosen {
		limited, cancel := preflight.Reading(ctx)
		failed = Explain(limited, d.Cfg, d.Lot.Remove(limited, record.Ref))
		cancel()
		if failed != nil {
			break
		}
		d.Log.Warn("dropped parked item", admin.KeyTable, record.Source, admin.KeyParked, string(record.Ref), admin.KeyReason, record.Reason)
		dropped = append(dropped, EntryOf(record.Ref, record.Parked))
	}
	return errors.Join(d.writeDropped(dropped), failed)
}

func (d *Decision) writeDropped(dropped []Entry) error {
	if d.AsJSON() {
		return d.WriteJSON(struct {
			Schema  string  `json:"schema"`
			Dropped []Entry `json:"dropped"`
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
