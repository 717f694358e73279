package worker

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc"

	"github.com/dynamodb-bigtable/replicator/dynamodbtest"
	"github.com/dynamodb-bigtable/replicator/internal/cost"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/pipeline"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
)

// counter counts the requests to both services, by operation, and those to the ledger's table
// separately.
type counter struct {
	http.Handler
	mu     sync.Mutex
	counts map[string]int
}

func (c *counter) add(name string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = map[string]int{}
	}
	c.counts[name] += n
}

func (c *counter) take() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.counts
	c.counts = nil
	return now
}

func (c *counter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	c.add(operation, 1)
	c.Handler.ServeHTTP(w, r)
}

func (c *counter) unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if r, ok := req.(*bigtablepb.CheckAndMutateRowRequest); ok {
		c.add(ofTable(r.TableName)+"write", 1)
	}
	return handle(ctx, req)
}

func (c *counter) stream(server any, s grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	return handle(server, &countedStream{ServerStream: s, counter: c})
}

// countedStream counts the rows of one read.
type countedStream struct {
	grpc.ServerStream
	counter *counter
	table   string
}

func (s *countedStream) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	if r, ok := m.(*bigtablepb.ReadRowsRequest); ok && err == nil {
		s.table = ofTable(r.TableName)
		s.counter.add(s.table+"read", 1)
	}
	return err
}

func (s *countedStream) SendMsg(m any) error {
	if r, ok := m.(*bigtablepb.ReadRowsResponse); ok {
		for _, chunk := range r.Chunks {
			if chunk.GetCommitRow() {
				s.counter.add(s.table+"row", 1)
			}
		}
	}
	return s.ServerStream.SendMsg(m)
}

func ofTable(name string) string {
	if strings.HasSuffix(name, "/replicator_state") {
		return "ledger "
	}
	return "target "
}

// played runs workers on the embedded services in virtual time, and returns the requests of a
// quarter of an hour. In the middle of it, items are put.
func played(t *testing.T, workers, shards, items int) map[string]int {
	t.Helper()
	const from, lasts = 3 * time.Minute, 15 * time.Minute
	world := virtual.NewWorld(1, noon, false)
	server := dynamodbtest.New(dynamodbtest.Options{Seed: 1, InitialShards: shards, Clock: world.Now})
	asked := &counter{Handler: server}
	w, _ := connectedTo(t, asked, grpc.ChainUnaryInterceptor(asked.unary), grpc.StreamInterceptor(asked.stream))
	var counted map[string]int
	err := world.Run(time.Hour, func(ctx context.Context) {
		limited, cancel := task.WithTimeout(ctx, from+lasts)
		defer cancel()
		g := task.NewGroup(ctx, 0)
		for i := range workers {
			w.id = fmt.Sprint("w", i)
			ledger, err := w.openLedger(ctx)
			if err != nil {
				t.Error(err)
				return
			}
			observer, parking := silentObserver(), sink.NewParking(w.target.Data.Records(w.Config.State.Table), w.Config.Name)
			o := w.pipeline(ledger, parking, observer)
			g.Go("run", func(context.Context) error { return pipeline.Run(limited, o) })
			g.Go("survey", func(context.Context) error { w.survey(limited, observer, parking); return nil })
		}
		g.Go("count", func(context.Context) error {
			_ = task.Sleep(ctx, from)
			asked.take()
			for n := range items {
				put := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(fmt.Sprintf(`{"TableName":"Orders","Item":{"pk":{"S":"%d"}}}`, n)))
				put.Header.Set("X-Amz-Target", "DynamoDB_20120810.PutItem")
				server.ServeHTTP(httptest.NewRecorder(), put)
			}
			_ = task.Sleep(ctx, lasts-time.Second)
			counted = asked.take()
			return nil
		})
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return counted
}

// TestRequests: the requests that plan states equal those that the services receive, for an idle
// shard in an hour and for changes. A second worker reads no more than the first, so the reads of
// each worker do not grow with their number.
func TestRequests(t *testing.T) {
	one, three, shared := played(t, 1, 1, 0), played(t, 1, 3, 0), played(t, 2, 3, 0)
	perShard := func(name string) float64 { return float64(three[name]-one[name]) / 2 * 4 }
	run := cost.Run{Active: 250 * time.Millisecond, Idle: 3 * time.Second, Lease: 15 * time.Second, Pass: 2 * time.Second, Survey: engine.SurveyEvery}
	idle := run.ShardHour()
	for name, stated := range map[string]float64{"GetRecords": idle.StreamReads, "ledger write": idle.LedgerWrites, "ledger row": idle.LedgerRows} {
		if got := perShard(name); got > stated*1.03 || got < stated*0.97 {
			t.Errorf("%s: %.0f for an idle shard in an hour, and %.0f are stated", name, got, stated)
		}
	}
	if more := three["target write"] - one["target write"]; more > 1 {
		t.Errorf("without changes shards write the target: %v, %v", one, three)
	}
	if shared["ledger row"] > 2*three["ledger row"] || shared["ledger write"] > three["ledger write"]*11/10 {
		t.Errorf("two workers: %v, and one: %v", shared, three)
	}
	const changes = 3000
	busy := played(t, 1, 1, changes)
	stated := cost.MillionChanges()
	if got := busy["target write"] - one["target write"]; float64(got) > stated.Writes*changes/1e6+1 {
		t.Errorf("%d writes for %d changes, and %.0f a million are stated", got, changes, stated.Writes)
	}
	// For ten seconds after the changes the shard is active. Then the time between two reads grows
	// from one second to three, within three minutes.
	active := idle.ActiveReads / 360
	if got := float64(busy["GetRecords"] - one["GetRecords"]); got < active || got > active+110 {
		t.Errorf("%.0f more reads because of changes, and %.0f are stated for the time in which the shard is active", got, active)
	}
	if busy["target write"]-one["target write"] < changes || busy["ledger write"]-one["ledger write"] > changes/1000+1 {
		t.Errorf("with changes %v, without %v", busy, one)
	}
}
