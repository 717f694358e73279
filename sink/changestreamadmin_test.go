package sink_test

import (
	"testing"
	"time"

	"cloud.google.com/go/bigtable"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/dynamodb-bigtable/replicator/bigtabletest"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// A new table gets its change stream at once. Of an existing table only EnableChangeStream changes
// it: a run, which prepares tables, does not.
func TestChangeStreamsOfTables(t *testing.T) {
	server, err := bigtabletest.New(bigtabletest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	t.Setenv("BIGTABLE_EMULATOR_HOST", server.Addr())
	ctx := t.Context()
	admin, err := sink.ConnectAdmin(ctx, sink.Instance{Project: "p", Instance: "i"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.Close() })
	conn, err := grpc.NewClient("passthrough:///"+server.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := bigtable.NewAdminClient(ctx, "p", "i", option.WithGRPCConn(conn))
	if err != nil {
		t.Fatal(err)
	}
	const day = 24 * time.Hour
	for name, kept := range map[string]any{"without": nil, "short": 2 * day, "enough": 3 * day} {
		conf := &bigtable.TableConf{TableID: name, ColumnFamilies: map[string]bigtable.Family{
			"d": {}, sink.LiveFamily: {GCPolicy: bigtable.MaxVersionsPolicy(1)}, sink.GoneFamily: {GCPolicy: bigtable.MaxAgePolicy(14 * day)}}}
		if kept != nil {
			conf.ChangeStreamRetention = kept
		}
		if err := raw.CreateTableFromConf(ctx, conf); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		table           string
		wanted          bool
		kept            time.Duration // after the table was prepared
		lacks, newTable bool
	}{
		{"new", true, 7 * day, false, true}, {"plain", false, 0, false, true}, {"without", true, 0, true, false}, {"without", false, 0, false, false},
		{"short", true, 2 * day, true, false}, {"enough", true, 3 * day, false, false},
	} {
		spec := sink.TargetSpec(c.table, 14*day, "d")
		spec.ChangeStream = c.wanted
		if lacks, err := admin.Lacks(ctx, spec); err != nil || lacks.ChangeStream != c.lacks || lacks.Table != c.newTable {
			t.Errorf("%s: lacks %+v, %v", c.table, lacks, err)
		}
		if _, err := admin.Prepare(ctx, []sink.TableSpec{spec}, true); err != nil {
			t.Fatal(err)
		}
		if kept, err := admin.ChangeStream(ctx, c.table); err != nil || kept != c.kept {
			t.Errorf("%s: keeps %s, %v; want %s", c.table, kept, err, c.kept)
		}
	}
	for _, table := range []string{"without", "short"} {
		if err := admin.EnableChangeStream(ctx, table); err != nil {
			t.Fatal(err)
		}
		if kept, err := admin.ChangeStream(ctx, table); err != nil || kept != sink.ChangeStreamKept {
			t.Errorf("%s: keeps %s, %v", table, kept, err)
		}
	}
	if _, err := admin.ChangeStream(ctx, "absent"); err == nil {
		t.Error("a table that does not exist has a change stream")
	}
	if err := admin.EnableChangeStream(ctx, "absent"); err == nil {
		t.Error("a table that does not exist gets a change stream")
	}
}
