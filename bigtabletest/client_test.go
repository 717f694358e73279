package bigtabletest_test

import (
	"path/filepath"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"
	"google.golang.org/api/option"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/dynamodb-bigtable/replicator/bigtabletest"
)

// TestOrdinaryClient: Google's client for Go administers, writes and reads as with the emulator,
// and the stream has its writes.
func TestOrdinaryClient(t *testing.T) {
	f := newFixture(t, bigtabletest.Options{})
	admin, err := bigtable.NewAdminClient(f.ctx, "p", "i", option.WithGRPCConn(f.conn))
	f.must(err)
	client, err := bigtable.NewClientWithConfig(f.ctx, "p", "i", bigtable.ClientConfig{MetricsProvider: bigtable.NoopMetricsProvider{}}, option.WithGRPCConn(f.conn))
	f.must(err)
	f.must(admin.CreateTableFromConf(f.ctx, &bigtable.TableConf{
		TableID: "t", SplitKeys: []string{"m"}, ColumnFamilies: map[string]bigtable.Family{"f": {}}, ChangeStreamRetention: 3 * day,
	}))
	info, err := admin.TableInfo(f.ctx, "t")
	f.must(err)
	if info.ChangeStreamRetention != 3*day {
		t.Errorf("the client sees a retention of %v", info.ChangeStreamRetention)
	}
	f.must(admin.UpdateTableWithChangeStream(f.ctx, "t", 2*day))
	if got := f.retention(); got != 2*day {
		t.Errorf("the client set a retention of %s", got)
	}
	table := client.Open("t")
	one := bigtable.NewMutation()
	one.Set("f", "c", bigtable.Now(), []byte("1"))
	f.must(table.Apply(f.ctx, "a", one))
	failed, err := table.ApplyBulk(f.ctx, []string{"b", "x"}, []*bigtable.Mutation{one, one})
	f.must(err)
	if failed != nil {
		t.Fatal(failed)
	}
	add := bigtable.NewReadModifyWrite()
	add.AppendValue("f", "c", []byte("2"))
	_, err = table.ApplyReadModifyWrite(f.ctx, "a", add)
	f.must(err)
	matched := true
	remove := bigtable.NewMutation()
	remove.DeleteRow()
	f.must(table.Apply(f.ctx, "b", bigtable.NewCondMutation(bigtable.PassAllFilter(), remove, nil), bigtable.GetCondMutationResult(&matched)))
	if !matched {
		t.Error("the condition is not met")
	}
	var rows []string
	f.must(table.ReadRows(f.ctx, bigtable.InfiniteRange(""), func(r bigtable.Row) bool {
		rows = append(rows, r.Key()+string(r["f"][0].Value))
		return true
	}))
	if len(rows) != 2 || rows[0] != "a12" || rows[1] != "x1" {
		t.Errorf("the client reads %v", rows)
	}
	left := f.read(part("", "m"))
	left.rows("a", "b")
	if got := mutationsOf(left.rows("a")); got != "set f.c=12" {
		t.Error(got)
	}
	if got := mutationsOf(left.rows("b")); got != "delete f" {
		t.Error(got)
	}
	f.read(part("m", "")).rows("x")
	f.must(admin.UpdateTableDisableChangeStream(f.ctx, "t"))
	if got := f.retention(); got != 0 {
		t.Errorf("the client disabled the stream, and the retention is %s", got)
	}
}

// TestMachineTime: without a Clock the server uses the machine's, and waits for it. AdvanceClock
// ends the wait.
func TestMachineTime(t *testing.T) {
	begin := time.Now()
	server, err := bigtabletest.New(bigtabletest.Options{Address: filepath.Join(t.TempDir(), "socket")})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	f := connect(t, "unix:"+server.Addr())
	f.server = server
	f.create(day)
	created := server.Now()
	f.put("a")
	s := f.all(since(created), heartbeatsEvery(20*time.Millisecond))
	at := s.rows("a").CommitTimestamp.AsTime()
	if at.Before(created.Truncate(time.Microsecond)) || at.After(time.Now()) || created.Before(begin) {
		t.Errorf("committed at %s", at)
	}
	for range 2 {
		if m := s.next(); m.GetHeartbeat() == nil {
			t.Errorf("got %v, want a heartbeat", m)
		}
	}
	seldom := f.all(since(server.Now()), heartbeatsEvery(time.Hour))
	server.AdvanceClock(time.Hour)
	if m := seldom.next(); m.GetHeartbeat() == nil {
		t.Errorf("got %v, want a heartbeat", m)
	}
	f.must(server.Delay(tableName, 50*time.Millisecond))
	f.put("b")
	for m := s.next(); ; m = s.next() {
		if m.GetDataChange() == nil {
			continue
		}
		if read := server.Now().Sub(m.GetDataChange().CommitTimestamp.AsTime()); read < 50*time.Millisecond {
			t.Errorf("read after %s", read)
		}
		break
	}
}

func heartbeatsEvery(d time.Duration) request {
	return func(r *readRequest) { r.HeartbeatDuration = durationpb.New(d) }
}

// TestClose ends open requests.
func TestClose(t *testing.T) {
	f := newStream(t, bigtabletest.Options{})
	s := f.all()
	f.server.Close()
	if _, err := s.stream.Recv(); err == nil {
		t.Error("the stream of a closed server goes on")
	}
	if _, err := bigtabletest.New(bigtabletest.Options{Address: "256.0.0.1:0"}); err == nil {
		t.Error("a server listens at an impossible address")
	}
}
