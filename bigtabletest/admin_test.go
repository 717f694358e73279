package bigtabletest_test

import (
	"testing"
	"time"

	"cloud.google.com/go/bigtable/admin/apiv2/adminpb"
	"cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/dynamodb-bigtable/replicator/bigtabletest"
)

// retention is what GetTable and ListTables show.
func (f *fixture) retention() time.Duration {
	f.t.Helper()
	table, err := f.admin.GetTable(f.ctx, &adminpb.GetTableRequest{Name: tableName})
	f.must(err)
	list, err := f.admin.ListTables(f.ctx, &adminpb.ListTablesRequest{Parent: parent})
	f.must(err)
	d := table.GetChangeStreamConfig().GetRetentionPeriod().AsDuration()
	if len(list.Tables) != 1 || list.Tables[0].GetChangeStreamConfig().GetRetentionPeriod().AsDuration() != d {
		f.t.Errorf("GetTable shows %s, ListTables shows %v", d, list)
	}
	return d
}

func TestRetentionPeriods(t *testing.T) {
	for _, test := range []struct {
		d  time.Duration
		ok bool
	}{
		{day - time.Second, false}, {day, true}, {7 * day, true}, {7*day + time.Second, false},
	} {
		f := newFixture(t, bigtabletest.Options{})
		config := &adminpb.ChangeStreamConfig{RetentionPeriod: durationpb.New(test.d)}
		table, err := f.admin.CreateTable(f.ctx, &adminpb.CreateTableRequest{Parent: parent, TableId: "t", Table: &adminpb.Table{ChangeStreamConfig: config}})
		if !test.ok {
			f.wants(codes.InvalidArgument, err)
			f.create(0)
			f.wants(codes.InvalidArgument, f.update(test.d))
			continue
		}
		f.must(err)
		if got := table.GetChangeStreamConfig().GetRetentionPeriod().AsDuration(); got != test.d || f.retention() != test.d {
			t.Errorf("%s: created with %s, and has %s", test.d, got, f.retention())
		}
	}
}

// TestEnableAndDisable: a stream has what was written while it was enabled.
func TestEnableAndDisable(t *testing.T) {
	f := newFixture(t, bigtabletest.Options{})
	f.create(0)
	f.put("a")
	f.send(part("", "")).fails(codes.FailedPrecondition)
	_, err := f.server.Partitions(tableName)
	f.wants(codes.FailedPrecondition, err)
	f.clock.Advance(time.Second)
	f.must(f.update(2 * day))
	if got := f.retention(); got != 2*day {
		t.Errorf("got %s", got)
	}
	f.send(part("", "")).fails(codes.OutOfRange) // from before the stream
	f.put("b")
	s := f.all(since(start.Add(time.Second)))
	token := s.token(s.rows("b"))
	f.must(f.update(3 * day)) // the same stream
	f.put("c")
	s.rows("c")
	f.must(f.update(0))
	s.fails(codes.FailedPrecondition)
	if got := f.retention(); got != 0 {
		t.Errorf("got %s", got)
	}
	f.put("d")
	f.must(f.update(day))
	f.send(part("", ""), after(token)).fails(codes.OutOfRange)
	f.put("e")
	f.all(since(start.Add(time.Second))).rows("e")
}

// TestUpdatesKeepWhatTheyDoNotName: deletion protection and change stream.
func TestUpdatesKeepWhatTheyDoNotName(t *testing.T) {
	f := newStream(t, bigtabletest.Options{})
	op, err := f.admin.UpdateTable(f.ctx, &adminpb.UpdateTableRequest{
		Table: &adminpb.Table{Name: tableName, DeletionProtection: true}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"deletion_protection"}},
	})
	f.must(err)
	updated := &adminpb.Table{}
	f.must(op.GetResponse().UnmarshalTo(updated))
	if got := updated.GetChangeStreamConfig().GetRetentionPeriod().AsDuration(); got != day || !updated.DeletionProtection {
		t.Errorf("the update shows %v", updated)
	}
	f.must(f.update(2 * day))
	_, err = f.admin.DeleteTable(f.ctx, &adminpb.DeleteTableRequest{Name: tableName})
	f.wants(codes.FailedPrecondition, err)
	if got := f.retention(); got != 2*day {
		t.Errorf("got %s", got)
	}
}

// TestDeleteTable ends its streams. A table of the same name has a stream of its own.
func TestDeleteTable(t *testing.T) {
	f := newStream(t, bigtabletest.Options{})
	f.put("a")
	s := f.all()
	s.rows("a")
	_, err := f.admin.DeleteTable(f.ctx, &adminpb.DeleteTableRequest{Name: tableName})
	f.must(err)
	s.fails(codes.NotFound)
	f.send(part("", "")).fails(codes.NotFound)
	f.wants(codes.NotFound, f.server.Split(tableName, "m"))
	_, err = f.data.MutateRow(f.ctx, &bigtablepb.MutateRowRequest{TableName: tableName, RowKey: []byte("a"), Mutations: []*bigtablepb.Mutation{set("f", "c", "1")}})
	f.wants(codes.NotFound, err)
	f.wants(codes.NotFound, f.update(day))
	f.create(day)
	f.put("b")
	f.all().rows("b")
}

// TestRetention: what is older than the retention period cannot be read (C4).
func TestRetention(t *testing.T) {
	for _, test := range []struct {
		option, want codes.Code
	}{
		{codes.OK, codes.OutOfRange}, {codes.FailedPrecondition, codes.FailedPrecondition},
	} {
		f := newStream(t, bigtabletest.Options{TooOld: test.option})
		f.put("a", "b")
		s := f.all()
		token := s.token(s.rows("a"))
		s.rows("b")
		beat := s.quiet()
		f.must(f.server.Silence(tableName, day, false))
		f.put("c")
		f.clock.Advance(day - 5*time.Second)
		f.read(part("", ""), after(token)) // to the microsecond
		f.clock.Advance(time.Microsecond)
		f.send(part("", ""), after(token)).fails(test.want)
		f.send(part("", "")).fails(test.want)
		f.read(part("", ""), after(beat.ContinuationToken))
		f.server.AdvanceClock(5 * time.Second)
		s.next()           // a heartbeat
		s.fails(test.want) // the record was not delivered in time
	}
}

// TestRewindStopsAtTheRetentionPeriod: what comes again is not too old.
func TestRewindStopsAtTheRetentionPeriod(t *testing.T) {
	f := newStream(t, bigtabletest.Options{})
	f.put("a")
	f.clock.Advance(time.Hour)
	f.put("b")
	s := f.all()
	s.rows("a", "b")
	beat := s.quiet()
	f.must(f.server.Rewind(tableName, 5))
	f.server.AdvanceClock(day - time.Minute)
	f.read(part("", ""), after(beat.ContinuationToken)).rows("b")
}
