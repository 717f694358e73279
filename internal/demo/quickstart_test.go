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
	text := quickStart("/bin/replicator", s)
	for _, want := range []string{
		"export AWS_ENDPOINT_URL_DYNAMODB=" + s.endpoint + "\n", "export AWS_ENDPOINT_URL_DYNAMODB_STREAMS=" + s.endpoint + "\n", "export AWS_REGION=", "export AWS_ACCESS_KEY_ID=", "export AWS_SECRET_ACCESS_KEY=",
		"export BIGTABLE_EMULATOR_HOST=" + s.bigtable.Addr + "\n", "in memory", minimal, "\naws dynamodb put-item --endpoint-url \"$AWS_ENDPOINT_URL_DYNAMODB\" ", "\n/bin/replicator run --allow-emulator\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the quick start lacks %q:\n%s", want, text)
		}
	}
	if err := s.startPubSub(t.Context()); err != nil {
		t.Fatal(err)
	}
	relayed := quickStart("/bin/replicator", s)
	for _, want := range []string{"export PUBSUB_EMULATOR_HOST=" + s.pubsub.Addr + "\n", minimal + publishes, "\n/bin/replicator relay --apply --allow-emulator\n"} {
		if !strings.Contains(relayed, want) {
			t.Errorf("the quick start with Pub/Sub lacks %q:\n%s", want, relayed)
		}
	}
	if n := strings.Count(minimal, "\n"); n != 6 {
		t.Errorf("the configuration has %d lines", n)
	}
}
