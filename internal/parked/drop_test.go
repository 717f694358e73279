package parked

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/sink/sinktest"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// twice returns an item with two parked records, in the order of their versions.
func twice(t *testing.T, lot *sink.Parking) []Record {
	t.Helper()
	var records []Record
	for i := range uint64(2) {
		keys := attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String("a")}})
		change := cdc.Change{Event: cdc.Insert, Sequence: cdc.SequenceOf(i + 1), Time: time.Unix(1_795_170_000, 0), Keys: keys, New: keys}
		p := transform.Parked{Source: "Orders", Key: "S:YQ", Version: transform.NewVersion(1, 1, change.Sequence, transform.CountExact), Reason: "r", Change: change}
		if err := lot.Park(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		records = append(records, Record{Ref: sink.RefOf(p), Parked: p})
	}
	return records
}

var errNotDropped = errors.New("not dropped")

// lasting is a record store with one record that cannot be removed.
type lasting struct {
	*sinktest.Records
	key string // the suffix of its key
}

func (l *lasting) Delete(ctx context.Context, key string) error {
	if strings.HasSuffix(key, l.key) {
		return errNotDropped
	}
	return l.Records.Delete(ctx, key)
}

// Items dropped before a failure are reported, and so is the failure. Nothing is dropped after it.
func TestADropThatFailsSaysSo(t *testing.T) {
	for lasts, want := range []string{"0 records dropped\n", "%s\n1 record dropped\n"} {
		records := &lasting{Records: &sinktest.Records{}}
		lot := sink.NewParking(records, "default")
		chosen := twice(t, lot)
		records.key = string(chosen[lasts].Version)
		want = strings.Replace(want, "%s", string(chosen[0].Ref), 1)
		var out bytes.Buffer
		d := &Decision{Console: &terminal.Console{Stdout: &out, Stderr: io.Discard}, Cfg: &config.Config{Name: "test"}, Log: slog.New(slog.DiscardHandler), Lot: lot, Chosen: chosen}
		if err := d.Drop(t.Context(), true); !errors.Is(err, errNotDropped) || out.String() != want {
			t.Errorf("%v\n%s", err, &out)
		}
	}
}
