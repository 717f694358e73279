package main

import (
	"bytes"
	"context"
	"os"
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

// topic NAME creates a topic.
func withTopic(ts *testscript.TestScript, _ bool, args []string) {
	_, err := ts.Value(slotKey{}).(*slot).pubsub.GServer.CreateTopic(context.Background(), &pubsubpb.Topic{Name: args[0]})
	ts.Check(err)
}

// subscription NAME TOPIC [ordered] creates a subscription that keeps messages for seven days.
func withSubscription(ts *testscript.TestScript, _ bool, args []string) {
	_, err := ts.Value(slotKey{}).(*slot).pubsub.GServer.CreateSubscription(context.Background(), &pubsubpb.Subscription{
		Name: args[0], Topic: args[1], AckDeadlineSeconds: 60, EnableMessageOrdering: len(args) > 2, MessageRetentionDuration: durationpb.New(7 * 24 * time.Hour)})
	ts.Check(err)
}

// messages FILE writes the messages that were published so far to a file, a line each, and forgets
// them.
func messages(ts *testscript.TestScript, _ bool, args []string) {
	server := ts.Value(slotKey{}).(*slot).pubsub
	var text bytes.Buffer
	for _, m := range server.Messages() {
		if strings.ContainsFunc(m.OrderingKey, func(r rune) bool { return !strings.ContainsRune("0123456789abcdef", r) }) || len(m.OrderingKey) != 64 {
			ts.Fatalf("ordering key %q", m.OrderingKey)
		}
		text.Write(append(m.Data, '\n'))
	}
	server.ClearMessages()
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), text.Bytes(), 0o644))
}
