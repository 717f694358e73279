package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/apply"
	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/fence"
	"github.com/dynamodb-bigtable/replicator/relay"
	"github.com/dynamodb-bigtable/replicator/sink"
)

const topic, subscription = "projects/p/topics/t", "projects/p/subscriptions/s"

// servePubSub prints the address of the embedded Pub/Sub and serves until its input ends.
func servePubSub() error {
	ctx, server := context.Background(), pstest.NewServer()
	_, err := server.GServer.CreateTopic(ctx, &pubsubpb.Topic{Name: topic})
	if err == nil {
		_, err = server.GServer.CreateSubscription(ctx, &pubsubpb.Subscription{Name: subscription, Topic: topic, AckDeadlineSeconds: 600})
	}
	if err != nil {
		return err
	}
	fmt.Println(server.Addr)
	_, _ = os.Stdin.Read(make([]byte, 1))
	return server.Close()
}

// queue is the clients of a Pub/Sub in a process of its own.
type queue struct {
	latency      time.Duration // how long a publish request takes besides
	topic        *relay.PubSub
	subscription *relay.PubSubscription
	end          func()
}

// renew replaces a queue by an empty one.
func (q *queue) renew(ctx context.Context) error {
	q.close()
	address, end, err := startServer("-queue")
	if err != nil {
		return err
	}
	q.end = end
	o := []option.ClientOption{option.WithEndpoint(address), option.WithoutAuthentication(), option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())),
		option.WithGRPCDialOption(grpc.WithChainUnaryInterceptor(q.delay))}
	if q.topic, err = relay.OpenTopic(ctx, "p", topic, o...); err != nil {
		return err
	}
	q.subscription, err = relay.OpenSubscription(ctx, "p", subscription, o...)
	return err
}

// delay makes a publish request take longer, as one to the service does.
func (q *queue) delay(ctx context.Context, method string, request, answer any, c *grpc.ClientConn, invoke grpc.UnaryInvoker, o ...grpc.CallOption) error {
	if q.latency > 0 && strings.HasSuffix(method, "/Publish") {
		time.Sleep(q.latency)
	}
	return invoke(ctx, method, request, answer, c, o...)
}

func (q *queue) close() {
	if q.end == nil {
		return
	}
	_, _ = q.topic.Close(), q.subscription.Close()
	q.end()
}

// publish is a page at a time from its body to the topic, as relay does it.
func (q *queue) publish(ctx context.Context, pages int, body []byte) (int, error) {
	source, all := cdc.NewSource(newAnswers(body).streams(), "arn"), 0
	for range pages {
		got, err := source.Read(ctx, "x")
		if err != nil {
			return 0, err
		}
		page, err := relay.NewPage(published, relay.Number{Before: uint64(all)}, got.Changes, 0)
		if err != nil {
			return 0, err
		}
		if _, err := page.Publish(ctx, q.topic); err != nil {
			return 0, err
		}
		all += len(got.Changes)
	}
	return all, nil
}

var published = relay.Origin{Ledger: "ledger", Table: "Orders", StreamARN: "arn", Label: "label", Shard: "shard", Generation: 1, MappingHash: "hash", Keying: 256}

// apply lets so many appliers, each with an identity and limits of its own, write what stands in
// the topic, and the coordinator's merging beside them.
func (q *queue) apply(ctx context.Context, t *target, appliers, inFlight, messages int) (int, error) {
	store := &checkpointtest.Memory{}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var applied atomic.Int64
	events := engine.Events{Applied: func(_ string, changes engine.Tally, _ int) {
		if applied.Add(int64(changes.Changes())) >= int64(messages) {
			stop()
		}
	}}
	ledgers := make([]*checkpoint.Ledger, appliers)
	for i := range ledgers {
		var err error
		if ledgers[i], err = begun(ctx, store, fmt.Sprint("applier-", i)); err != nil {
			return 0, err
		}
	}
	ended := make(chan error, appliers)
	for _, ledger := range ledgers {
		writer := sink.NewWriter(sink.Options{Table: t.ours, Parking: noParking{}, InFlight: inFlight})
		go func() {
			ended <- apply.Run(ctx, apply.Options{Ledger: ledger, Writer: writer, Subscription: q.subscription, Events: events,
				Tables: []engine.Spec{{Mapping: orders, MappingHash: published.MappingHash}}})
		}()
	}
	var merging sync.WaitGroup
	var failed error
	merging.Go(func() {
		for failed == nil && ctx.Err() == nil {
			failed = ledgers[0].MergeApplied(context.WithoutCancel(ctx), orders.Source)
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	})
	for range appliers {
		failed = errors.Join(failed, <-ended)
	}
	stop()
	merging.Wait()
	return int(applied.Load()), failed
}

// begun opens a ledger whose table a relay has begun.
func begun(ctx context.Context, store checkpoint.Store, worker string) (*checkpoint.Ledger, error) {
	ledger, err := checkpoint.Open(ctx, store, "bench", checkpoint.Options{Worker: worker, ID: published.Ledger, Lease: 30 * time.Second})
	if err != nil {
		return nil, err
	}
	if err := (fence.Fence{Ledger: ledger}).Open(ctx, orders.Tables()...); err != nil {
		return nil, err
	}
	_, err = ledger.UpdateTable(ctx, orders.Source, func(s *checkpoint.TableState) error {
		s.Generation, s.MappingHash, s.Apply = published.Generation, published.MappingHash, checkpoint.Topic
		return nil
	})
	if err != nil {
		return nil, err
	}
	// An applier trusts only messages of a shard that the ledger knows (H131).
	return ledger, ledger.CreateShard(ctx, checkpoint.Shard{Source: orders.Source, StreamARN: published.StreamARN, Label: published.Label,
		ID: published.Shard, State: checkpoint.Waiting, Hop: published.Hop, Generation: published.Generation})
}

// The sink of which many appliers get more than one does, and what each of them may have in flight.
const (
	slowSink    = 20 * time.Millisecond
	fewInFlight = 16
)

// publishing is what a record costs from its page to the topic, beside the direct path.
func publishing(ctx context.Context, b *bench) error {
	const row = "publish a page"
	if b.skips(row) {
		return nil
	}
	fast, err := startTarget(ctx, 0)
	if err != nil {
		return err
	}
	defer fast.close()
	q := &queue{}
	defer q.close()
	body, times := streamPage(shapes[0], unique(0, 1000)), b.times(5)
	b.before = map[string]func() error{"relay": func() error { return q.renew(ctx) }}
	costs, err := b.measure(way{"relay", func() (int, error) { return q.publish(ctx, times, body) }}, direct(ctx, fast, times, body))
	if err != nil {
		return err
	}
	b.alone(row, "CPU", medianOf(costs[0], cpu), atMost(40))
	for _, far := range []struct {
		latency time.Duration
		goal    goal
	}{{20 * time.Millisecond, atLeast(5000)}, {50 * time.Millisecond, atLeast(2500)}} {
		q.latency = far.latency
		costs, err := b.measure(way{"relay", func() (int, error) { return q.publish(ctx, times, body) }})
		if err != nil {
			return err
		}
		b.alone(fmt.Sprintf("%s, a request takes %s", row, far.latency), "rows/s", medianOf(costs[0], rate), far.goal)
	}
	return nil
}

// direct is the path without a topic.
func direct(ctx context.Context, t *target, pages int, body []byte) way {
	writer := sink.NewWriter(sink.Options{Table: t.ours, Parking: noParking{}})
	return way{"direct", func() (int, error) {
		records, _, err := shards(ctx, writer, 1, pages, body)
		return records, err
	}}
}

// applying is what a record costs from the topic to the target, beside the direct path, and whether
// a backlog makes it dearer; and how much more four appliers write than one where the target takes
// its time.
func applying(ctx context.Context, b *bench) error {
	const row = "apply a topic"
	if b.skips(row) {
		return nil
	}
	fast, err := startTarget(ctx, 0)
	if err != nil {
		return err
	}
	defer fast.close()
	slow, err := startTarget(ctx, slowSink)
	if err != nil {
		return err
	}
	defer slow.close()
	q := &queue{}
	defer q.close()
	body, times := streamPage(shapes[0], unique(0, 1000)), b.times(5)
	b.before = map[string]func() error{}
	apply := func(name string, t *target, appliers, inFlight, pages int) way {
		b.before[name] = func() error {
			if err := q.renew(ctx); err != nil {
				return err
			}
			_, err := q.publish(ctx, pages, body)
			return err
		}
		return way{name, func() (int, error) { return q.apply(ctx, t, appliers, inFlight, 1000*pages) }}
	}
	costs, err := b.measure(apply("few waiting", fast, 1, 0, b.times(2)), direct(ctx, fast, times, body), apply("many waiting", fast, 1, 0, b.times(40)),
		apply("one slow applier", slow, 1, fewInFlight, b.times(3)), apply("four slow appliers", slow, 4, fewInFlight, b.times(12)))
	if err != nil {
		return err
	}
	b.ratio(row+", 2,000 waiting / directly", "CPU", cpu, costs[0], costs[1], atMost(1.6))
	b.ratio(row+", 40,000 waiting / directly", "CPU", cpu, costs[2], costs[1], atMost(1.6))
	b.ratio(row+", 40,000 waiting / 2,000", "CPU", cpu, costs[2], costs[0], atMost(1.1))
	b.ratio(row+", 20 ms, 4 of 16 in flight / 1", "rows/s", rate, costs[4], costs[3], atLeast(3))
	return nil
}
