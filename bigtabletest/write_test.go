package bigtabletest_test

import (
	"io"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/bigtable/admin/apiv2/adminpb"
	"cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc/codes"

	"github.com/dynamodb-bigtable/replicator/bigtabletest"
)

// mutateRows applies one mutation per row and returns the codes of the entries.
func (f *fixture) mutateRows(entries ...*bigtablepb.MutateRowsRequest_Entry) (found []codes.Code) {
	f.t.Helper()
	stream, err := f.data.MutateRows(f.ctx, &bigtablepb.MutateRowsRequest{TableName: tableName, Entries: entries})
	f.must(err)
	for {
		m, err := stream.Recv()
		if err == io.EOF {
			return found
		}
		f.must(err)
		for _, entry := range m.Entries {
			found = append(found, codes.Code(entry.GetStatus().GetCode()))
		}
	}
}

func entry(row string, mutations ...*bigtablepb.Mutation) *bigtablepb.MutateRowsRequest_Entry {
	return &bigtablepb.MutateRowsRequest_Entry{RowKey: []byte(row), Mutations: mutations}
}

// TestRecordsOfWrites writes in every way and compares the records (C1).
func TestRecordsOfWrites(t *testing.T) {
	column := &bigtablepb.Mutation{Mutation: &bigtablepb.Mutation_DeleteFromColumn_{DeleteFromColumn: &bigtablepb.Mutation_DeleteFromColumn{FamilyName: "f", ColumnQualifier: []byte("c")}}}
	check := func(f *fixture, row string, yes, no []*bigtablepb.Mutation) {
		_, err := f.data.CheckAndMutateRow(f.ctx, &bigtablepb.CheckAndMutateRowRequest{TableName: tableName, RowKey: []byte(row), TrueMutations: yes, FalseMutations: no})
		f.must(err)
	}
	one := func(m ...*bigtablepb.Mutation) []*bigtablepb.Mutation { return m }
	for _, test := range []struct {
		name  string
		write func(f *fixture)
		want  []string // row and mutations
	}{
		{"set and delete", func(f *fixture) { f.mutate("a", set("f", "c", "1"), column, deleteFamily("g")) }, []string{"a set f.c=1, delete f.c, delete g"}},
		{"delete a row", func(f *fixture) {
			f.mutate("a", set("f", "c", "1"))
			f.mutate("a", set("g", "c", "2"))
			f.mutate("a", deleteRow())
			f.mutate("a", deleteRow()) // absent: no record
		}, []string{"a set f.c=1", "a set g.c=2", "a delete f, delete g"}},
		{"replace a row", func(f *fixture) {
			f.mutate("a", set("f", "c", "1"))
			f.mutate("a", deleteRow(), set("g", "c", "2"))
			f.mutate("a", set("f", "c", "3"), deleteRow(), deleteRow())
		}, []string{"a set f.c=1", "a delete f, set g.c=2", "a set f.c=3, delete f, delete g"}},
		{"a failed write", func(f *fixture) {
			_, err := f.data.MutateRow(f.ctx, &bigtablepb.MutateRowRequest{TableName: tableName, RowKey: []byte("a"), Mutations: one(set("absent", "c", "1"))})
			if err == nil {
				f.t.Fatal("a write to an absent family succeeds")
			}
			f.put("b")
		}, []string{"b set f.c=b"}},
		{"entries", func(f *fixture) {
			found := f.mutateRows(entry("a", set("f", "c", "1")), entry("b", set("absent", "c", "2")), entry("a", deleteRow(), set("f", "c", "3")))
			if len(found) != 3 || found[0] != codes.OK || found[1] == codes.OK || found[2] != codes.OK {
				f.t.Fatal(found)
			}
		}, []string{"a set f.c=1", "a delete f, set f.c=3"}},
		{"conditions", func(f *fixture) {
			check(f, "a", one(set("f", "c", "present")), one(set("f", "c", "absent")))
			check(f, "a", one(set("f", "c", "present")), one(set("f", "c", "absent")))
			check(f, "a", nil, one(set("f", "c", "absent")))
			check(f, "a", one(deleteRow()), nil)
		}, []string{"a set f.c=absent", "a set f.c=present", "a delete f"}},
		{"increment", func(f *fixture) {
			rule := &bigtablepb.ReadModifyWriteRule{FamilyName: "f", ColumnQualifier: []byte("c"), Rule: &bigtablepb.ReadModifyWriteRule_AppendValue{AppendValue: []byte("x")}}
			for range 2 {
				_, err := f.data.ReadModifyWriteRow(f.ctx, &bigtablepb.ReadModifyWriteRowRequest{TableName: tableName, RowKey: []byte("a"), Rules: []*bigtablepb.ReadModifyWriteRule{rule}})
				f.must(err)
			}
		}, []string{"a set f.c=x", "a set f.c=xx"}},
		{"drop a range", func(f *fixture) {
			f.put("a1", "a2", "b")
			f.mutate("a2", set("g", "c", "1"))
			_, err := f.admin.DropRowRange(f.ctx, &adminpb.DropRowRangeRequest{Name: tableName, Target: &adminpb.DropRowRangeRequest_RowKeyPrefix{RowKeyPrefix: []byte("a")}})
			f.must(err)
			_, err = f.admin.DropRowRange(f.ctx, &adminpb.DropRowRangeRequest{Name: tableName, Target: &adminpb.DropRowRangeRequest_DeleteAllDataFromTable{DeleteAllDataFromTable: true}})
			f.must(err)
		}, []string{"a1 set f.c=a1", "a2 set f.c=a2", "b set f.c=b", "a2 set g.c=1", "a1 delete f", "a2 delete f, delete g", "b delete f"}},
		{"drop a family", func(f *fixture) {
			f.put("a")
			_, err := f.admin.ModifyColumnFamilies(f.ctx, &adminpb.ModifyColumnFamiliesRequest{Name: tableName, Modifications: []*adminpb.ModifyColumnFamiliesRequest_Modification{
				{Id: "f", Mod: &adminpb.ModifyColumnFamiliesRequest_Modification_Drop{Drop: true}},
			}})
			f.must(err)
		}, []string{"a set f.c=a"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newStream(t, bigtabletest.Options{})
			test.write(f)
			s := f.all()
			for _, want := range test.want {
				c := s.change()
				if got := string(c.RowKey) + " " + mutationsOf(c); got != want {
					t.Errorf("got %q, want %q", got, want)
				}
				if c.Type != bigtablepb.ReadChangeStreamResponse_DataChange_USER || c.SourceClusterId != "cluster-1" || !c.Done || c.Token == "" {
					t.Errorf("the record is not complete: %v", c)
				}
				if at := c.CommitTimestamp.AsTime(); !at.Equal(start.Truncate(time.Microsecond)) {
					t.Errorf("committed at %s", at)
				}
			}
			s.quiet()
		})
	}
}

// TestTimestampsAreRecorded: a record has the timestamp that the cell got.
func TestTimestampsAreRecorded(t *testing.T) {
	for _, test := range []struct {
		granularity adminpb.Table_TimestampGranularity
		want        int64
	}{
		{adminpb.Table_MILLIS, start.UnixMilli() * 1000},
		{adminpb.Table_MICROS, start.Add(7 * time.Microsecond).UnixMicro()},
	} {
		f := newFixture(t, bigtabletest.Options{})
		_, err := f.admin.CreateTable(f.ctx, &adminpb.CreateTableRequest{Parent: parent, TableId: "t", Table: &adminpb.Table{
			ColumnFamilies: map[string]*adminpb.ColumnFamily{"f": {}}, Granularity: test.granularity,
		}})
		f.must(err)
		f.must(f.update(day))
		f.clock.Advance(7 * time.Microsecond)
		byServer, byClient := set("f", "c", "1"), set("f", "c", "2")
		byServer.GetSetCell().TimestampMicros = -1
		byClient.GetSetCell().TimestampMicros = start.Add(7 * time.Microsecond).UnixMicro()
		byClient.TimestampOrigin = bigtablepb.Mutation_CLIENT_AUTO_GENERATED
		f.mutate("a", byServer)
		f.mutateRows(entry("a", byClient))
		s := f.all()
		for range 2 {
			if got := s.change().Chunks[0].Mutation.GetSetCell().TimestampMicros; got != test.want {
				t.Errorf("%s: got %d, want %d", test.granularity, got, test.want)
			}
		}
		rows, err := f.data.ReadRows(f.ctx, &bigtablepb.ReadRowsRequest{TableName: tableName})
		f.must(err)
		m, err := rows.Recv()
		f.must(err)
		if len(m.Chunks) != 1 || m.Chunks[0].TimestampMicros != test.want || string(m.Chunks[0].Value) != "2" {
			t.Errorf("%s: the row is %v", test.granularity, m)
		}
	}
}

// TestConcurrentWritesOfARow: the last record has the value that the row has (C2).
func TestConcurrentWritesOfARow(t *testing.T) {
	f := newStream(t, bigtabletest.Options{})
	const writers, each = 8, 25
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for i := range each {
				m := &bigtablepb.MutateRowRequest{TableName: tableName, RowKey: []byte("a"), Mutations: []*bigtablepb.Mutation{set("f", "c", string(rune('a'+w))+string(rune('a'+i)))}}
				if _, err := f.data.MutateRow(f.ctx, m); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	s := f.all()
	last := ""
	for range writers * each {
		last = string(s.change().Chunks[0].Mutation.GetSetCell().Value)
	}
	rows, err := f.data.ReadRows(f.ctx, &bigtablepb.ReadRowsRequest{TableName: tableName})
	f.must(err)
	m, err := rows.Recv()
	f.must(err)
	if got := string(m.Chunks[0].Value); got != last {
		t.Errorf("the row has %q, and its last record %q", got, last)
	}
	s.quiet()
}

// TestLargeRecordsAreChunked puts the chunks together again.
func TestLargeRecordsAreChunked(t *testing.T) {
	f := newStream(t, bigtabletest.Options{ChunkSize: 4})
	f.mutate("a", set("f", "c", "12"), set("f", "d", "123456789"), set("f", "e", "1"), set("f", "g", "1234"), deleteFamily("g"))
	f.put("b")
	s := f.all()
	var shown []string
	for i := 0; ; i++ {
		c := s.change()
		shown = append(shown, mutationsOf(c))
		if first := i == 0; first != (string(c.RowKey) == "a") || first != (c.CommitTimestamp != nil) || first != (c.SourceClusterId != "") ||
			first != (c.Type == bigtablepb.ReadChangeStreamResponse_DataChange_USER) {
			t.Errorf("message %d: %v", i, c)
		}
		if c.Done != (c.Token != "") || c.Done != (c.EstimatedLowWatermark != nil) {
			t.Errorf("message %d: %v", i, c)
		}
		for _, chunk := range c.Chunks {
			info := chunk.GetChunkInfo()
			if info != nil && (info.ChunkedValueSize != 9 || info.LastChunk != (info.ChunkedValueOffset+int32(len(chunk.Mutation.GetSetCell().Value)) == 9)) {
				t.Errorf("message %d: %v", i, info)
			}
		}
		if c.Done {
			break
		}
	}
	want := []string{"set f.c=12", "set f.d=1234", "set .=5678", "set .=9, set f.e=1", "set f.g=1234, delete g"}
	if len(shown) != len(want) {
		t.Fatalf("got %q, want %q", shown, want)
	}
	for i := range want {
		if shown[i] != want[i] {
			t.Errorf("got %q, want %q", shown[i], want[i])
		}
	}
	s.rows("b")
}
