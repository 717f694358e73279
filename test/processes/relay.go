package processes

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"
	"golang.org/x/sync/errgroup"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"

	pubsub "cloud.google.com/go/pubsub/v2/apiv1"
)

// The names in the embedded Pub/Sub.
const (
	changesTopic   = "projects/" + project + "/topics/changes"
	deadTopic      = "projects/" + project + "/topics/dead"
	appliersPull   = "projects/" + project + "/subscriptions/appliers"
	deadLetterPull = "projects/" + project + "/subscriptions/dead"
)

// appliersPerWorld is the number of appliers beside one relay.
const appliersPerWorld = 4

// ackDeadline is the shortest allowed. If an applier is frozen for longer, others apply its
// messages.
const ackDeadline = 10 * time.Second

// inSync is the state of a table that is in sync.
const inSync = "in_sync"

// test returns the name of the test that runs such a world.
func (o Options) test() string {
	if o.Relay {
		return "TestRelay"
	}
	return "TestRounds"
}

// servePubSub serves the embedded Pub/Sub with the topic and its subscription until the process
// ends, and returns its address.
func servePubSub() (string, error) {
	ctx, server := context.Background(), pstest.NewServer()
	for _, topic := range []string{changesTopic, deadTopic} {
		if _, err := server.GServer.CreateTopic(ctx, &pubsubpb.Topic{Name: topic}); err != nil {
			return "", err
		}
	}
	for _, s := range []*pubsubpb.Subscription{
		{Name: appliersPull, Topic: changesTopic, DeadLetterPolicy: &pubsubpb.DeadLetterPolicy{DeadLetterTopic: deadTopic, MaxDeliveryAttempts: 20},
			RetryPolicy: &pubsubpb.RetryPolicy{MinimumBackoff: durationpb.New(time.Second)}},
		{Name: deadLetterPull, Topic: deadTopic},
	} {
		s.AckDeadlineSeconds, s.MessageRetentionDuration = int32(ackDeadline/time.Second), durationpb.New(7*24*time.Hour)
		if _, err := server.GServer.CreateSubscription(ctx, s); err != nil {
			return "", err
		}
	}
	return server.Addr, nil
}

// startRelay starts Pub/Sub, a relay, and the appliers of its topic.
func (w *world) startRelay(o Options, target string, life time.Duration) error {
	queue, err := startService(o.Services, w.dir, pubsubService, role{Service: pubsubService})
	if err != nil {
		return err
	}
	w.onClose(queue.stop)
	w.queue = queue.address
	config, err := w.configure("  tombstone_age: 14d\n", "relay:\n  pubsub_topic: "+changesTopic+"\n  subscription: "+appliersPull+"\n")
	if err != nil {
		return err
	}
	for i := range 1 + appliersPerWorld {
		n := &worker{name: name(i), command: []string{"run", "--from", "pubsub"}, program: o.Program, dir: w.dir, config: config, life: life}
		if i == 0 {
			n.command = []string{"relay"}
		}
		if err := w.startWorker(n, target, w.queue); err != nil {
			return err
		}
	}
	return nil
}

// input returns the network through which a worker receives changes.
func (w *worker) input() *Proxy {
	if slices.Contains(w.command, "pubsub") {
		return w.queue
	}
	return w.source
}

// troubleRelay kills the relay in one round and freezes it in the next. In every round it kills,
// freezes, cuts off and stops one applier each. A smoke round kills the relay and an applier.
func (w *world) troubleRelay(ctx context.Context, n int, smoke bool) error {
	r := rand.New(rand.NewPCG(w.seed, uint64(n)+1<<47))
	relay, appliers := w.workers[0], slices.Clone(w.workers[1:])
	r.Shuffle(len(appliers), func(i, j int) { appliers[i], appliers[j] = appliers[j], appliers[i] })
	soon := func() span {
		return span{between(r, 200*time.Millisecond, 3*time.Second), between(r, 0, 4*time.Second)}
	}
	frozen := func(least time.Duration) span {
		return span{between(r, 200*time.Millisecond, 1500*time.Millisecond), between(r, least+2*time.Second, least+4*time.Second)}
	}
	killed, frost, ofRelay := soon(), frozen(ackDeadline), soon()
	what := partitions(w.seed)[n%len(partitions(w.seed))]
	severed := span{between(r, 200*time.Millisecond, 2*time.Second), between(r, lease+2*time.Second, lease+5*time.Second)}
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return w.kill(gctx, appliers[0], killed) })
	switch {
	case n%2 == 0 || !signals:
		g.Go(func() error { return w.kill(gctx, relay, ofRelay) })
	default:
		ofRelay = frozen(lease)
		g.Go(func() error { return w.freeze(gctx, relay, ofRelay, false) })
	}
	if !smoke && signals {
		g.Go(func() error { return w.freeze(gctx, appliers[1], frost, n%2 == 0) })
		g.Go(func() error { return w.sever(gctx, appliers[2], severed, what) })
		g.Go(func() error { return w.restart(gctx, appliers[3]) })
	}
	return g.Wait()
}

// noDeadLetter checks that the faults did not send a message to the dead letter: appliers nack no
// message because a service is away.
func (w *world) noDeadLetter(ctx context.Context) error {
	client, err := pubsub.NewSubscriptionAdminClient(ctx, option.WithEndpoint(w.queue), option.WithoutAuthentication(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
	if err != nil {
		return err
	}
	got, err := client.Pull(ctx, &pubsubpb.PullRequest{Subscription: deadLetterPull, MaxMessages: 1})
	if err == nil && len(got.ReceivedMessages) > 0 {
		err = fmt.Errorf("a message is in the dead letter, and every one could be applied")
	}
	return errors.Join(err, client.Close())
}
