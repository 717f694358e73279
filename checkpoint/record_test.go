package checkpoint_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
)

// readers are the functions that read a stored record, by the row that they read.
var readers = map[string]func(ctx context.Context, l *checkpoint.Ledger) error{
	"p/pipeline": func(ctx context.Context, l *checkpoint.Ledger) error { return l.Check(ctx) },
	"p/table/T": func(ctx context.Context, l *checkpoint.Ledger) error {
		_, _, err := l.Table(ctx, source)
		_, all := l.Tables(ctx)
		return errors.Join(err, all)
	},
	"p/shard/T/l1/s": func(ctx context.Context, l *checkpoint.Ledger) error {
		_, err := l.Shards(ctx, source)
		return err
	},
	"p/keeper/T": func(ctx context.Context, l *checkpoint.Ledger) error {
		_, err := l.CoordinatorLease(ctx, source)
		return err
	},
	"p/part/T/00000001/0001/copy/0000000": func(ctx context.Context, l *checkpoint.Ledger) error {
		load := checkpoint.Load{Generation: 1, Number: 1}
		_, err := l.Parts(ctx, checkpoint.TableState{Source: source, Load: load}, checkpoint.PhaseCopy)
		return err
	},
	"p/open/T": func(ctx context.Context, l *checkpoint.Ledger) error {
		_, err := l.Listings(ctx, source, label)
		return err
	},
	"p/target/orders": func(ctx context.Context, l *checkpoint.Ledger) error {
		_, _, err := l.Target(ctx, "orders")
		_, all := l.Targets(ctx)
		return errors.Join(err, all)
	},
}

// ledgerHolding returns a ledger whose row with the key has the given data.
func ledgerHolding(t *testing.T, ctx context.Context, key string, data []byte) (*checkpointtest.Memory, *checkpoint.Ledger) {
	t.Helper()
	store := &checkpointtest.Memory{}
	l := openOn(t, ctx, store, "w", lease)
	was := uint64(0)
	if key == "p/pipeline" {
		was = 1
	}
	if done, err := store.Swap(ctx, key, was, was+1, data); err != nil || !done {
		t.Fatal(done, err)
	}
	return store, l
}

func TestNewerFormatIsRefused(t *testing.T) {
	ctx := context.Background()
	newer := fmt.Appendf(nil, `{"format":%d,"by":"x","n":1,"ledger":"ledger of w"}`, checkpoint.Format+1)
	for key, read := range readers {
		store, l := ledgerHolding(t, ctx, key, newer)
		if err := read(ctx, l); !errors.Is(err, checkpoint.ErrFormat) || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", key, err)
		}
		// Nothing overwrites it either.
		switch key {
		case "p/table/T":
			_, err := l.UpdateTable(ctx, source, func(*checkpoint.TableState) error { return nil })
			if !errors.Is(err, checkpoint.ErrFormat) {
				t.Error(err)
			}
		case "p/pipeline":
			_, err := checkpoint.Open(ctx, store, "p", checkpoint.Options{Worker: "v", ID: "v"})
			if !errors.Is(err, checkpoint.ErrFormat) {
				t.Error(err)
			}
		}
	}
	store, l := ledgerHolding(t, ctx, witnessKey, newer)
	if _, _, err := l.Beat(ctx, source, checkpoint.Place{Store: store, Key: witnessKey}); !errors.Is(err, checkpoint.ErrFormat) {
		t.Errorf("witness: %v", err)
	}
}

// A member that this version does not know is ignored, not refused: only the format decides whether
// a record can be read.
func TestUnknownFieldsOfAKnownFormatAreRead(t *testing.T) {
	ctx := context.Background()
	for key, read := range readers {
		_, l := ledgerHolding(t, ctx, key, []byte(`{"format":1,"by":"x","n":1,"ledger":"ledger of w","from_the_future":{"a":[1]}}`))
		check(t, read(ctx, l))
	}
}

func TestWhatIsNoRecordIsRefused(t *testing.T) {
	ctx := context.Background()
	for _, data := range []string{"", "null", "{}", "[]", "7", `"text"`, `{"format":0}`, `{"format":-1}`, `{"format":"1"}`, `{"format":1,"by":7}`, `{"format":1}}`, "\xff"} {
		for key, read := range readers {
			_, l := ledgerHolding(t, ctx, key, []byte(data))
			if err := read(ctx, l); err == nil || errors.Is(err, checkpoint.ErrFormat) {
				t.Errorf("%s holding %q: %v", key, data, err)
			}
		}
	}
}

// Reading any row returns a record or an error, and a record that was read can be written.
func FuzzRecords(f *testing.F) {
	shard, err := json.Marshal(map[string]any{
		"format": 1, "by": "w", "n": 3, "source": "T", "label": "l1", "id": "s", "parent": "p", "state": "reading", "hop": 500000,
		"generation": 1, "epoch": 2, "owner": "w", "position": "123456789012345678901", "event_time": begin, "loss": "trimmed",
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(shard)
	for _, text := range []string{
		"", "null", `{"format":1}`, `{"format":2}`, `{"format":1,"ledger":"l","cluster":"c","created":"2026-11-01T00:00:00Z"}`,
		`{"format":1,"generation":1,"gaps":[{"at":"2026-11-01T00:00:00Z","reason":"r"}],"load":{"items":1}}`,
		`{"format":1,"owner":"w","epoch":1,"scan":{"a":[1,2]}}`, `{"format":1,"label":"l1","open":{"s":"2026-11-01T00:00:00Z"}}`,
		`{"format":1,"position":"-1"}`, `{"format":1,"position":"99999999999999999999999999999999999999999"}`, `{"format":1,"event_time":"x"}`,
		`{"format":1e99}`, `{"format":1,"epoch":-1}`, `{"FORMAT":1,"Format":9}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if data == nil {
			data = []byte{}
		}
		ctx := context.Background()
		for key, read := range readers {
			_, l := ledgerHolding(t, ctx, key, data)
			if read(ctx, l) != nil {
				continue
			}
			switch key {
			case "p/table/T":
				_, err := l.UpdateTable(ctx, source, func(s *checkpoint.TableState) error { s.Load.Items++; return nil })
				check(t, err)
				check(t, read(ctx, l))
			case "p/keeper/T":
				lease, err := l.CoordinatorLease(ctx, source)
				check(t, err)
				_, err = l.TakeCoordinatorLease(ctx, lease)
				check(t, err)
			}
		}
		store, l := ledgerHolding(t, ctx, witnessKey, data)
		_, _, _ = l.Beat(ctx, source, checkpoint.Place{Store: store, Key: witnessKey})
	})
}

// A service may accept only the exact text that it returned, with leading zeros. The row keeps that
// text, for the holder and its successors.
func TestPositionKeepsItsText(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, a := p.worker("a")
		_, b := p.worker("b")
		create(t, ctx, a, shard("s", ""))
		const text = "000000000000000000935"
		number, err := cdc.ParseSequenceNumber(text)
		check(t, err)
		held := take(t, ctx, a, "s")
		check(t, held.Commit(ctx, checkpoint.Progress{Position: cdc.Position{After: number}}))
		if got := row(t, ctx, b, "s").Position.String(); got != text {
			t.Errorf("stored as %s", got)
		}
		check(t, held.Release(ctx))
		next := take(t, ctx, b, "s")
		taken := next.Shard()
		if got := taken.Progress().Position.After.String(); got != text {
			t.Errorf("taken over at %s", got)
		}
		check(t, next.Commit(ctx, at(936))) // a number equal to the padded one
		if err := next.Commit(ctx, checkpoint.Progress{Position: cdc.Position{After: number}}); err == nil {
			t.Error("the position moved back")
		}
	})
}
