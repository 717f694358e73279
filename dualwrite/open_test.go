package dualwrite_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/dualwrite"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

const order = `{"pk":{"S":"c1"},"sk":{"S":"o1"},"total":{"N":"12.5"},"note":{"S":"new"}}`

// An application writes both stores beside a worker. Its row is written immediately, at its number,
// and stays when the stream brings the same. A removed item leaves its number, and the next one is
// created above it.
func TestBothStoresAreWritten(t *testing.T) {
	s := start(t, ranked)
	w := s.open(t)
	early, err := w.Put(t.Context(), item(t, order))
	var failed *dualwrite.Error
	if !errors.As(err, &failed) || failed.DynamoDB != dualwrite.Written || failed.Bigtable != dualwrite.NotWritten || failed.Repeat {
		t.Fatalf("before a worker ran: %v", err)
	}
	if err := w.Delete(t.Context(), early); !errors.As(err, &failed) || failed.DynamoDB != dualwrite.Written {
		t.Fatalf("before a worker ran: %v", err)
	}
	s.replicate(t)
	first, err := w.Put(t.Context(), item(t, order))
	if err != nil {
		t.Fatal(err)
	}

	keys := item(t, `{"pk":{"S":"c1"},"sk":{"S":"o1"}}`)
	updated, err := w.Update(t.Context(), keys, func(old attribute.Item) (attribute.Item, error) {
		if !old.Equal(first) {
			t.Error("Update reads another item than Put wrote")
		}
		return item(t, `{"pk":{"S":"c1"},"sk":{"S":"o1"},"total":{"N":"13"}}`), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	found := s.rows(t)
	version := found["c1#o1 version"]
	if found["c1#o1 d:total"] != "13" || found["c1#o1 d:note"] != "" || found["c1#o1 d:rev"] != number(updated) || !strings.HasSuffix(version, ".0000") ||
		!strings.HasPrefix(version, "n"+strings.Repeat("0", 20-len(number(updated)))+number(updated)+".0.") {
		t.Errorf("after an update to %s: %s", number(updated), found)
	}
	if _, err := w.Put(t.Context(), first); !errors.Is(err, dualwrite.ErrConflict) || !errors.As(err, &failed) || failed.DynamoDB != dualwrite.NotWritten || !failed.Repeat {
		t.Errorf("with a number that is over: %v", err)
	}
	s.replicate(t)
	if found := s.rows(t); found["c1#o1 version"] <= version || found["c1#o1 d:total"] != "13" {
		t.Errorf("the stream does not outrank the application at its number: %s", found)
	}
	if err := w.Delete(t.Context(), updated); err != nil {
		t.Fatal(err)
	}
	if found := s.rows(t); len(found) != 1 || !strings.HasPrefix(found["c1#o1 gone"], "n0000000"+number(updated)+".1.") {
		t.Errorf("after a delete: %s", found)
	}
	again, err := w.Put(t.Context(), item(t, order))
	if err != nil || number(again) <= number(updated) {
		t.Errorf("created at %s after %s: %v", number(again), number(updated), err)
	}
	s.replicate(t)
	if found := s.rows(t); found["c1#o1 d:note"] != "new" || found["c1#o1 gone"] != "" {
		t.Errorf("created anew: %s", found)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if _, err := w.Put(t.Context(), again); !errors.As(err, &failed) || failed.DynamoDB != dualwrite.Written || failed.Bigtable == dualwrite.Written {
		t.Errorf("a write after the connections are closed: %v", err)
	}
	if err := dualwrite.New(mapping(), nil, nil).Close(); err != nil {
		t.Errorf("a writer that opened nothing: %v", err)
	}
}

// Items of every type are written as they were read.
func TestEveryType(t *testing.T) {
	s := start(t, settled)
	s.replicate(t)
	w := s.open(t)
	all := item(t, `{"pk":{"S":"c1"},"sk":{"S":"o1"},"n":{"N":"-1.5"},"b":{"B":"AAE="},"t":{"BOOL":true},"z":{"NULL":true},"e":{"S":""},"l":{"L":[{"S":"a"},{"L":[]}]},`+
		`"m":{"M":{"k":{"N":"1"},"none":{"M":{}}}},"ss":{"SS":["a","b"]},"ns":{"NS":["1","2"]},"bs":{"BS":["AA==","AQ=="]}}`)
	if _, err := w.Put(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	read := func(old attribute.Item) (attribute.Item, error) {
		if !old.Equal(all) {
			t.Error("the item is another one")
		}
		return old, nil
	}
	if _, err := w.Update(t.Context(), all, read); err != nil {
		t.Error(err)
	}
}

// With settle, the application's row has plain cells until the stream asserts it.
func TestBothStoresAreWrittenAndSettled(t *testing.T) {
	s := start(t, settled)
	s.replicate(t)
	w := s.open(t)
	if _, err := w.Put(t.Context(), item(t, order)); err != nil {
		t.Fatal(err)
	}
	if found := s.rows(t); len(found) != 4 || found["c1#o1 d:total"] != "12.5" {
		t.Errorf("at once: %s", found)
	}
	if _, err := w.Put(t.Context(), item(t, `{"pk":{"S":"c1"},"sk":{"S":"o1"},"total":{"N":"14"}}`)); err != nil {
		t.Fatal(err)
	}
	s.replicate(t)
	if found := s.rows(t); len(found) != 4 || found["c1#o1 d:total"] != "14" || !strings.HasSuffix(found["c1#o1 version"], ".0001") {
		t.Errorf("settled: %s", found)
	}
	if err := w.Delete(t.Context(), item(t, order)); err != nil {
		t.Fatal(err)
	}
	if found := s.rows(t); found["c1#o1 d:total"] != "" {
		t.Errorf("after a delete: %s", found)
	}
}

// Close closes all connections of a Writer. A later write fails and says that Bigtable was not
// written.
func TestAWriterIsClosed(t *testing.T) {
	s := start(t, ranked)
	s.replicate(t)
	w, err := dualwrite.Open(t.Context(), s.file, "Orders", dualwrite.AllowEmulators)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	var failed *dualwrite.Error
	if _, err := w.Put(t.Context(), item(t, order)); !errors.As(err, &failed) || failed.Bigtable != dualwrite.NotWritten {
		t.Errorf("after it was closed: %v", err)
	}
}

// Open refuses tables without dual writes.
func TestOpenRefusesOtherTables(t *testing.T) {
	s := start(t, strings.Replace(ranked, "to: orders", "to: orders, dual_writes: off", 1))
	for table, want := range map[string]string{"Orders": "dual writes are off", "Others": "no source table"} {
		if _, err := dualwrite.Open(t.Context(), s.file, table, dualwrite.AllowEmulators); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", table, err)
		}
	}
}

// A variable that was left in the environment does not redirect writes to another service.
func TestOpenRefusesEmulators(t *testing.T) {
	s := start(t, ranked)
	for name, others := range map[string][]string{
		"BIGTABLE_EMULATOR_HOST":    {"AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL_DYNAMODB_STREAMS"},
		"AWS_ENDPOINT_URL_DYNAMODB": {"BIGTABLE_EMULATOR_HOST", "AWS_ENDPOINT_URL_DYNAMODB_STREAMS"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, other := range others {
				t.Setenv(other, "")
			}
			_, err := dualwrite.Open(t.Context(), s.file, "Orders")
			var refused diag.List
			if !errors.As(err, &refused) || len(refused) != 1 || refused[0].Code != diag.EmulatorNotAllowed || !strings.Contains(refused[0].What, name) ||
				!strings.Contains(refused[0].Fix, "dualwrite.AllowEmulators") || strings.Contains(refused[0].Fix, "--allow") {
				t.Errorf("%v", err)
			}
		})
	}
}

// Numbers can be enabled for a table that is already replicated, and never disabled.
func TestRanksAreForGood(t *testing.T) {
	s := start(t, settled)
	s.replicate(t)
	before := s.config
	after, err := config.Parse("after.yaml", []byte(ranked), os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.run(t.Context(), after); diag.ExitCode(err) != diag.ExitNo { // it needs a load
		t.Fatal(err)
	}
	log, err := s.run(t.Context(), before)
	if code := diag.ExitCode(err); code != diag.ExitUsage || !strings.Contains(log+err.Error(), "cannot be switched off") {
		t.Errorf("switched off: %v\n%s", err, log)
	}
}
