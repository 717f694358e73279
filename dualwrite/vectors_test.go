package dualwrite_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/dualwrite"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/sink/sinktest"
	"github.com/dynamodb-bigtable/replicator/transform"
)

var update = flag.Bool("update", false, "write testdata/vectors.json")

const (
	vectorFile = "testdata/vectors.json"
	fence      = "_cdc_w0123abcd_15778080"
)

// vector is one write of an item: what DynamoDB holds before and after it, and the requests to
// Bigtable.
type vector struct {
	Name  string          `json:"name"`
	Old   json.RawMessage `json:"old"` // null: no item
	New   json.RawMessage `json:"new"`
	At    int64           `json:"at"`    // when it was written, in microseconds since 1970
	Fence string          `json:"fence"` // the name in the witness; "-": withheld
	// Remembered is the highest number that the row of a new item holds from a removed item.
	Remembered string      `json:"remembered,omitempty"`
	Rows       []vectorRow `json:"rows"` // in the order of the writes
}

type vectorRow struct {
	Row     string          `json:"row"`
	Version string          `json:"version"`
	Cells   []vectorCell    `json:"cells"`   // null: the row is removed
	Request json.RawMessage `json:"request"` // a google.bigtable.v2.CheckAndMutateRowRequest; bytes are base64
}

type vectorCell struct {
	Column string `json:"column"`
	At     int64  `json:"at"`
	Value  string `json:"value"`
}

// recorder is a target in memory that records its requests.
type recorder struct {
	*sinktest.Memory
	witness checkpointtest.Memory
	sent    []sink.Request
	taken   []sink.Request // the sent requests that no row refused
	before  func()         // runs before a request is executed; nil: nothing does
	fail    error          // the error after a request was executed
}

func newRecorder(m *transform.Mapping) *recorder {
	r := &recorder{Memory: &sinktest.Memory{}}
	r.Create("orders", "d", fence)
	r.announce(m, fence)
	return r
}

// announce writes the witness with the name of the fence's family.
func (r *recorder) announce(m *transform.Mapping, family string) {
	r.witness.Clear()
	text := `{"format":1,"by":"w","n":1,"ledger":"l","generation":1,"beat":1,"fence":"` + family + `"}`
	if done, err := r.witness.Swap(context.Background(), m.WitnessKey(), 0, 1, []byte(text)); err != nil || !done {
		panic(err)
	}
}

func (r *recorder) WitnessStore(string) checkpoint.Store { return &r.witness }

func (r *recorder) Apply(ctx context.Context, request *sink.Request) (bool, error) {
	r.sent = append(r.sent, *request)
	if r.before != nil {
		r.before()
	}
	applied, err := r.Memory.Apply(ctx, request)
	if applied {
		r.taken = append(r.taken, *request)
	}
	if err != nil || r.fail == nil {
		return applied, err
	}
	return false, r.fail
}

// table is a source in memory. It does not check conditions, because it has only one writer.
type table struct {
	item   attribute.Item
	fail   func(execute func()) error // replaces a write; nil: it succeeds
	unread error                      // the error of reads
	asked  []dualwrite.Change         // the writes that were requested
}

func (s *table) Get(context.Context, attribute.Item) (attribute.Item, bool, error) {
	return s.item, s.item.Exists(), s.unread
}

func (s *table) Write(_ context.Context, c dualwrite.Change) (attribute.Item, error) {
	old := s.item
	s.asked = append(s.asked, c)
	execute := func() { s.item = c.Image }
	if s.fail != nil {
		return attribute.Item{}, s.fail(execute)
	}
	execute()
	return old, nil
}

// mapping returns the mapping of testdata/replicator.yaml.
func mapping() *transform.Mapping {
	cfg, err := config.Load("testdata/replicator.yaml", func(string) (string, bool) { return "", false })
	if err != nil {
		panic(err)
	}
	m, err := cfg.Tables[0].Mapping([]transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}, {Name: "sk", Type: attribute.KindS}})
	if err != nil {
		panic(err)
	}
	return m
}

// TestVectors: a writer sends what the file says, which also binds writers in other languages.
func TestVectors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the same time in every run
		m := mapping()
		target, source := newRecorder(m), &table{}
		w := dualwrite.New(m, source, target)
		var vectors []vector
		family, remembered := fence, ""
		record := func(name string, write func() error) {
			old := source.item
			target.taken = nil
			if err := write(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			v := vector{Name: name, Old: jsonOf(t, old), New: jsonOf(t, source.item), At: time.Now().UnixMicro(), Fence: family, Remembered: remembered, Rows: []vectorRow{}}
			for i := range target.taken {
				v.Rows = append(v.Rows, rowOf(t, &target.taken[i]))
			}
			vectors = append(vectors, v)
			time.Sleep(time.Second)
		}
		put := func(json string) func() error {
			return func() error {
				_, err := w.Update(t.Context(), m.Keys(item(t, json)), func(attribute.Item) (attribute.Item, error) { return item(t, json), nil })
				return err
			}
		}
		remove := func() error { return w.Delete(t.Context(), source.item) }

		record("created at the milliseconds since 1970", put(`{"pk":{"S":"1"},"sk":{"S":"a"},"customer":{"S":"x"},"total":{"N":"12.5"},"note":{"S":"new"}}`))
		record("changed: the number is raised, and an attribute is gone", put(`{"pk":{"S":"1"},"sk":{"S":"a"},"customer":{"S":"x"},"total":{"N":"-3"},"paid":{"BOOL":true}}`))
		record("moved: the row that it leaves is removed at the new number", put(`{"pk":{"S":"1"},"sk":{"S":"a"},"customer":{"S":"y"}}`))
		record("removed at the old number", remove)
		source.item = item(t, `{"pk":{"S":"p%#é"},"sk":{"S":"s%#é"},"customer":{"S":"c%#é"},"rev":{"N":"99999999999999999998"}}`)
		record("the delimiter is escaped in all parts of a row key but the last; the highest number", put(`{"pk":{"S":"p%#é"},"sk":{"S":"s%#é"},"customer":{"S":"c%#é"},"empty":{"S":""}}`))
		source.item = item(t, `{"pk":{"S":"2"},"sk":{"S":"b"},"customer":{"S":"x"},"rev":{"N":"0"}}`)
		record("at the number 0 nothing is removed by the application's order", remove)
		source.item = item(t, `{"pk":{"S":"3"},"sk":{"S":"b"},"customer":{"S":"x"}}`)
		record("an item without a number is removed by the stream alone", remove)
		source.item = item(t, `{"pk":{"S":"3"},"sk":{"S":"b"},"customer":{"S":"x"}}`)
		record("an item without a number gets one", put(`{"pk":{"S":"3"},"sk":{"S":"b"},"customer":{"S":"x"}}`))
		source.item = item(t, `{"pk":{"S":"4"},"sk":{"S":"b"},"customer":{"S":"x"},"rev":{"N":"70000000000000000"}}`)
		record("removed at a number above the clock", remove)
		remembered = "70000000000000000"
		record("created above what its row remembers of a removed one", put(`{"pk":{"S":"4"},"sk":{"S":"b"},"customer":{"S":"x"}}`))
		family, remembered = checkpoint.NoFence, ""
		target.announce(m, family)
		w = dualwrite.New(m, source, target)
		record("without a fence, which is withheld", put(`{"pk":{"S":"4"},"sk":{"S":"b"},"customer":{"S":"z"}}`))

		got, err := json.MarshalIndent(vectors, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, '\n')
		if *update {
			if err := os.WriteFile(filepath.FromSlash(vectorFile), got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(vectorFile); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s differs (%v); regenerate with -update, and adapt the programs of examples/dualwrite:\n%s", vectorFile, err, got)
		}
	})
}

func jsonOf(t *testing.T, i attribute.Item) json.RawMessage {
	t.Helper()
	if !i.Exists() {
		return json.RawMessage("null")
	}
	text, err := attribute.MarshalItem(i)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func rowOf(t *testing.T, r *sink.Request) vectorRow {
	t.Helper()
	row := vectorRow{Row: r.Row, Version: string(r.Refuse.AtLeast)}
	for _, op := range r.Ops {
		if op.Kind == sink.SetCell && !sink.IsOwn(op.Family) {
			row.Cells = append(row.Cells, vectorCell{op.Family + ":" + op.Qualifier, op.Timestamp, string(op.Value)})
		}
	}
	var message bigtablepb.CheckAndMutateRowRequest
	if err := proto.Unmarshal(r.AppendProto(nil, "projects/p/instances/i/tables/"+r.Table, "default"), &message); err != nil {
		t.Fatal(err)
	}
	text, err := protojson.Marshal(&message)
	if err != nil {
		t.Fatal(err)
	}
	row.Request = canonical(t, text)
	return row
}

// canonical returns a JSON text without spaces and with sorted members.
func canonical(t *testing.T, text []byte) json.RawMessage {
	t.Helper()
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
