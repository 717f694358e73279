package demo

import (
	"context"
	"strings"
	"testing"
)

func TestQuickStart(t *testing.T) {
	s, err := startServices(context.Background(), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	const page, put = "http://127.0.0.1:1/", "\nAWS_ACCESS_KEY_ID=demo AWS_SECRET_ACCESS_KEY=demo aws dynamodb put-item --endpoint-url "
	text := quickStart("/bin/replicator", page, minimal, s)
	for _, want := range []string{
		"The page " + page + ", ", put + s.endpoint + " --region " + region + " --table-name " + tableName + " --item '{", "\nBIGTABLE_EMULATOR_HOST=" + s.bigtable.Addr() + " cbt ",
		"export AWS_ENDPOINT_URL_DYNAMODB=" + s.endpoint + "\n", "export AWS_ENDPOINT_URL_DYNAMODB_STREAMS=" + s.endpoint + "\n", "export AWS_REGION=", "export AWS_DEFAULT_REGION=",
		"export AWS_ACCESS_KEY_ID=", "export AWS_SECRET_ACCESS_KEY=", "export BIGTABLE_EMULATOR_HOST=" + s.bigtable.Addr() + "\n", "in memory", minimal,
		"\n/bin/replicator run --allow-emulator --listen 127.0.0.1:0\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the quick start lacks %q:\n%s", want, text)
		}
	}
	if err := s.startPubSub(t.Context()); err != nil {
		t.Fatal(err)
	}
	relayed := quickStart("/bin/replicator", page, minimal+(&Options{Relay: true, DualWrites: true}).additions(), s)
	for _, want := range []string{"export PUBSUB_EMULATOR_HOST=" + s.pubsub.Addr + "\n", minimal + publishes + settles, "\n/bin/replicator relay --apply --allow-emulator --listen 127.0.0.1:0\n"} {
		if !strings.Contains(relayed, want) {
			t.Errorf("the quick start with Pub/Sub lacks %q:\n%s", want, relayed)
		}
	}
	if n := strings.Count(minimal, "\n"); n != 6 {
		t.Errorf("the configuration has %d lines", n)
	}
}
