package main

import (
	"bytes"
	"context"
	"os"
	"regexp"
	"strings"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"
	"github.com/rogpeppe/go-internal/testscript"
	"google.golang.org/protobuf/types/known/durationpb"
)

// withPubSub starts an embedded Pub/Sub and points the script's environment at it.
func withPubSub(ts *testscript.TestScript, _ bool, _ []string) {
	server := pstest.NewServer()
	ts.Defer(func() { _ = server.Close() })
	ts.Setenv("PUBSUB_EMULATOR_HOST", server.Addr)
	ts.Value(slotKey{}).(*slot).pubsub = server
}

// topic NAME [RETENTION] creates a topic with a message retention.
func withTopic(ts *testscript.TestScript, _ bool, args []string) {
	t := &pubsubpb.Topic{Name: args[0]}
	if len(args) > 1 {
		kept, err := time.ParseDuration(args[1])
		ts.Check(err)
		t.MessageRetentionDuration = durationpb.New(kept)
	}
	_, err := ts.Value(slotKey{}).(*slot).pubsub.GServer.CreateTopic(context.Background(), t)
	ts.Check(err)
}

// subscription NAME TOPIC [ordered] [dead=TOPIC] [few] creates a subscription that keeps messages
// for seven days. With few it has gcloud's default number of delivery attempts.
func withSubscription(ts *testscript.TestScript, _ bool, args []string) {
	s := &pubsubpb.Subscription{Name: args[0], Topic: args[1], AckDeadlineSeconds: 60, MessageRetentionDuration: durationpb.New(7 * 24 * time.Hour)}
	for _, option := range args[2:] {
		if dead, ok := strings.CutPrefix(option, "dead="); ok {
			s.DeadLetterPolicy = &pubsubpb.DeadLetterPolicy{DeadLetterTopic: dead, MaxDeliveryAttempts: 20}
			s.RetryPolicy = &pubsubpb.RetryPolicy{MinimumBackoff: durationpb.New(time.Second)}
		}
		if option == "few" {
			s.DeadLetterPolicy.MaxDeliveryAttempts = 5
		}
		s.EnableMessageOrdering = s.EnableMessageOrdering || option == "ordered"
	}
	_, err := ts.Value(slotKey{}).(*slot).pubsub.GServer.CreateSubscription(context.Background(), s)
	ts.Check(err)
}

// poison TOPIC publishes a message that no applier can read.
func withPoison(ts *testscript.TestScript, _ bool, args []string) {
	ts.Value(slotKey{}).(*slot).pubsub.Publish(args[0], []byte("no CloudEvent"), nil)
}

// ordered matches the ordering key of a bucket of a table's items, and that of a parked item.
var ordered = regexp.MustCompile(`^([0-9a-f]{8}-[0-9]{1,3}|[0-9a-f]{64})$`)

// messages FILE writes the messages published so far to a file, one per line, and forgets them.
func messages(ts *testscript.TestScript, _ bool, args []string) {
	server := ts.Value(slotKey{}).(*slot).pubsub
	var text bytes.Buffer
	for _, m := range server.Messages() {
		if !ordered.MatchString(m.OrderingKey) {
			ts.Fatalf("ordering key %q", m.OrderingKey)
		}
		text.Write(append(m.Data, '\n'))
	}
	server.ClearMessages()
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), text.Bytes(), 0o644))
}
