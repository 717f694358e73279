package main

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// aloud is a log that gives each message to whoever waits for it.
type aloud struct {
	slog.Handler
	lines chan string
}

func (aloud) Enabled(context.Context, slog.Level) bool { return true }

func (l aloud) Handle(_ context.Context, r slog.Record) error {
	l.lines <- r.Message
	return nil
}

// await waits for a message with a text in it.
func (l aloud) await(ctx context.Context, t *testing.T, text string) {
	t.Helper()
	for {
		select {
		case line := <-l.lines:
			if strings.Contains(line, text) {
				return
			}
		case <-ctx.Done():
			t.Errorf("nobody tells: %s", text)
			return
		}
	}
}

// parkedAndHealed parks the change of an item with the given number, and applies the next one.
func parkedAndHealed(t *testing.T, cfg *config.Config, to *preflight.Target, m *transform.Mapping, number uint64) *sink.Parking {
	t.Helper()
	var key []attribute.Attribute
	for _, a := range m.PrimaryKey {
		key = append(key, attribute.Attribute{Name: a.Name, Value: attribute.String("k")})
	}
	item, stamp := attribute.NewItem(key), transform.Stamp{Generation: 7, Hop: cdc.RootHop}
	change := cdc.Change{Event: cdc.Insert, Sequence: cdc.SequenceOf(number), Time: noon, Keys: item, New: item}
	before := transform.Fold(m, []cdc.Change{change}, stamp)
	parking := sink.NewParking(to.Data.Records(cfg.State.Table), cfg.Name)
	if err := parking.Park(t.Context(), before.Park(before.Rows[0], "no")); err != nil {
		t.Fatal(err)
	}
	change.Sequence = cdc.SequenceOf(number + 1)
	after := transform.Fold(m, []cdc.Change{change}, stamp)
	if err := sink.NewWriter(sink.Options{Table: to.Data, Rows: to.Data, Parking: parking}).Write(t.Context(), sink.Unfenced(), &after); err != nil {
		t.Fatal(err)
	}
	return parking
}
