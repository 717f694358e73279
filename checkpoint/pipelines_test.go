package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
)

// A state table lists its pipelines by name, at most as many as requested, with one read for each
// name. Names that begin with other names and rows of other programs do not disturb it.
func TestPipelines(t *testing.T) {
	begun := func(names ...string) *checkpointtest.Memory {
		store := &checkpointtest.Memory{}
		for _, name := range names {
			if _, err := checkpoint.Open(t.Context(), store, name, checkpoint.Options{Worker: "w", ID: name}); err != nil {
				t.Fatal(err)
			}
			for n := range 30 {
				put(t, store, fmt.Sprintf("%s/shard/T/L/%d", name, n), `{"format":2}`)
			}
		}
		return store
	}
	var hundred []string
	for n := range 100 {
		hundred = append(hundred, fmt.Sprintf("p-%03d", n))
	}
	slices.Sort(hundred)
	strays := begun("acme", "acme-2", "acme.eu", "acme0", "acmé")
	put(t, strays, "acme", `{}`)
	put(t, strays, "zz", `{}`)
	for _, c := range []struct {
		name  string
		store *checkpointtest.Memory
		most  int
		want  []string
		more  bool
	}{
		{"an empty table", begun(), 10, nil, false},
		{"one", begun("acme"), 10, []string{"acme"}, false},
		{"two", begun("b", "a"), 10, []string{"a", "b"}, false},
		{"names within names", strays, 10, []string{"acme-2", "acme.eu", "acme", "acme0", "acmé"}, false},
		{"all of a hundred", begun(hundred...), 100, hundred, false},
		{"some of a hundred", begun(hundred...), 99, hundred[:99], true},
	} {
		reads := 0
		c.store.OnRead = func(context.Context, string) error { reads++; return nil }
		names, more, err := checkpoint.Pipelines(t.Context(), c.store, c.most)
		if err != nil || !slices.Equal(names, c.want) || more != c.more || reads > len(c.want)+3 {
			t.Errorf("%s: %q, more %t, %v; %d reads", c.name, names, more, err, reads)
		}
	}
	denied := errors.New("denied")
	strays.OnRead = func(_ context.Context, from string) error {
		if strings.HasPrefix(from, "acme") {
			return denied
		}
		return nil
	}
	if _, _, err := checkpoint.Pipelines(t.Context(), strays, 10); !errors.Is(err, denied) {
		t.Errorf("the second read is denied: %v", err)
	}
	if _, _, err := checkpoint.Pipelines(t.Context(), struct{ checkpoint.Store }{strays}, 10); err == nil {
		t.Error("a store that cannot find keys lists pipelines")
	}
}

// A pipeline is found in Bigtable by any row, also by a parked item, which is in another family.
func TestPipelinesInBigtable(t *testing.T) {
	table := startEmulator(t).create(t, "ledger", "parked")
	store := checkpoint.Bigtable(table, "ledger")
	for n := range 3 {
		put(t, store, fmt.Sprintf("acme/table/T%d", n), `{"format":2}`)
		item := bigtable.NewMutation()
		item.Set("parked", "r", 0, []byte("an item"))
		if err := table.Apply(t.Context(), fmt.Sprintf("lost/parked/T/%d", n), item); err != nil {
			t.Fatal(err)
		}
	}
	names, more, err := checkpoint.Pipelines(t.Context(), store, 10)
	if err != nil || more || !slices.Equal(names, []string{"acme", "lost"}) {
		t.Errorf("%q, more %t, %v", names, more, err)
	}
}

// put writes a row as another program would.
func put(t *testing.T, store checkpoint.Store, key, data string) {
	t.Helper()
	if done, err := store.Swap(t.Context(), key, 0, 1, []byte(data)); err != nil || !done {
		t.Fatalf("%s: %t, %v", key, done, err)
	}
}

// A summary has the tables, the highest format and the last heartbeat, also of records that this
// version cannot read. A lost ledger has no record of its own.
func TestSummarize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &checkpointtest.Memory{}
		began := time.Now().UTC()
		l, err := checkpoint.Open(t.Context(), store, "acme", checkpoint.Options{Worker: "w-1", ID: "1"})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if err := l.ShowProcess(t.Context(), checkpoint.RoleStandby); err != nil {
			t.Fatal(err)
		}
		put(t, store, "acme/table/Orders", `{"format":3,"by":"w-1"}`)
		put(t, store, "acme/table/Bills", `{"format":2,"by":"w-1"}`)
		put(t, store, "acme-2/table/Users", `{"format":99,"by":"w-9","generation":{"new":"form"}}`)
		put(t, store, "acme-2/keeper/Users", `{"format":99,"by":"w-9","written_at":"2026-11-02T12:00:00Z","owner":["another","form"]}`)
		put(t, store, "acme-3/keeper/Users", `no record`)
		for name, want := range map[string]checkpoint.Summary{
			"acme":   {Name: "acme", Begun: true, Created: began, Format: 3, Tables: []string{"Bills", "Orders"}, WrittenAt: began.Add(time.Minute), By: "w-1"},
			"acme-2": {Name: "acme-2", Format: 99, Tables: []string{"Users"}, WrittenAt: time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC), By: "w-9"},
			"acme-3": {Name: "acme-3"},
			"acm":    {Name: "acm"},
		} {
			got, err := checkpoint.Summarize(t.Context(), store, name)
			if err != nil || fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) || got.Newer() != (want.Format == 99) {
				t.Errorf("%s: %+v, %v; want %+v", name, got, err, want)
			}
		}
		denied := errors.New("denied")
		for n := range 4 {
			left := n
			store.OnRead = func(context.Context, string) error {
				if left--; left < 0 {
					return denied
				}
				return nil
			}
			if _, err := checkpoint.Summarize(t.Context(), store, "acme"); !errors.Is(err, denied) {
				t.Errorf("read %d is denied: %v", n+1, err)
			}
		}
	})
}
