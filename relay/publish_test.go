package relay_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/relay"
)

// page returns one change for each item.
func page(t testing.TB, items ...string) []cdc.Change {
	at := time.Date(2026, 11, 2, 10, 0, 0, 0, time.UTC)
	changes := make([]cdc.Change, len(items))
	for i, name := range items {
		keys := parse(t, fmt.Sprintf(`{"PK":{"S":%q}}`, name))
		changes[i] = cdc.Change{Event: cdc.Modify, Sequence: cdc.SequenceOf(uint64(100 + i)), Time: at.Add(time.Duration(-i) * time.Second), Keys: keys, Old: keys, New: keys}
	}
	return changes
}

// H58: a second reader of a page publishes the same messages with the same numbers and ids.
func TestH58_AReplayPublishesTheSame(t *testing.T) {
	changes := page(t, "a", "b", "a", "c")
	first, err := relay.NewPage(origin, relay.Number{Before: 10}, changes, 1)
	if err != nil {
		t.Fatal(err)
	}
	again, err := relay.NewPage(origin, relay.Number{Before: 12, CellTime: changes[0].Time}, changes[2:], 0)
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range first.Open {
		c, err := relay.Decode(m.Data)
		if err != nil {
			t.Fatal(err)
		}
		// The changes' times ran backwards, but the times of cells never do.
		if c.Number != uint64(11+i) || !c.CellTime.Equal(changes[0].Time) || (c.Omitted == relay.BeforeStart) != (i == 0) || c.New.Exists() != (i > 0) {
			t.Errorf("message %d: number %d, cell time %v, omitted %q", i, c.Number, c.CellTime, c.Omitted)
		}
		if i >= 2 && string(m.Data) != string(again.Open[i-2].Data) {
			t.Errorf("message %d differs when it is published again", i)
		}
	}
	if first.Open[0].Key != first.Open[2].Key || first.Open[0].Key == first.Open[1].Key {
		t.Error("keys are not those of the items")
	}
}

// only fails the messages with certain indexes, once.
type only struct {
	fail map[int]error
	sent [][]relay.Message
}

func (o *only) Publish(_ context.Context, messages []relay.Message) ([]error, int) {
	o.sent = append(o.sent, slices.Clone(messages))
	outcomes := make([]error, len(messages))
	for i := range outcomes {
		outcomes[i] = o.fail[i]
	}
	failed := len(o.fail)
	o.fail = nil
	return outcomes, failed
}

func TestOnlyWhatIsOpenIsPublishedAgain(t *testing.T) {
	p, err := relay.NewPage(origin, relay.Number{}, page(t, "a", "bb", "a", "cccc"), 0)
	if err != nil {
		t.Fatal(err)
	}
	all := slices.Clone(p.Open)
	boom, later := &relay.Error{Op: "Publish", Reason: relay.Unavailable, Code: "Unavailable"}, &relay.Error{Code: "Paused"}
	topic := &only{fail: map[int]error{0: boom, 2: later}}
	done, err := p.Publish(t.Context(), topic)
	if !errors.Is(err, boom) || done.Failed != err || done.Messages != 2 || done.Blocked != 2 || done.Bytes != all[1].Size()+all[3].Size() || len(p.Open) != 2 {
		t.Fatalf("%+v, %v, %d open", done, err, len(p.Open))
	}
	done, err = p.Publish(t.Context(), topic)
	if err != nil || done.Messages != 2 || len(p.Open) != 0 {
		t.Fatalf("%+v, %v, %d open", done, err, len(p.Open))
	}
	again := topic.sent[1]
	if len(again) != 2 || string(again[0].Data) != string(all[0].Data) || string(again[1].Data) != string(all[2].Data) {
		t.Error("what was sent again is not what was open, in its order")
	}
}

// A publish whose context ended fails if a message is open, and succeeds if none is. For a durable
// page nothing is sent to the topic.
func TestAPublishThatIsEnded(t *testing.T) {
	ended := errors.New("the lease is over")
	ctx, end := context.WithCancelCause(t.Context())
	end(ended)
	boom := &relay.Error{Op: "Publish", Reason: relay.Unavailable, Code: "Unavailable"}
	for _, c := range []struct {
		fail map[int]error
		want error
	}{{nil, nil}, {map[int]error{1: boom}, ended}} {
		p, err := relay.NewPage(origin, relay.Number{}, page(t, "a", "b"), 0)
		if err != nil {
			t.Fatal(err)
		}
		topic := &only{fail: c.fail}
		done, err := p.Publish(ctx, topic)
		if !errors.Is(err, c.want) || c.fail != nil && !errors.Is(done.Failed, boom) || len(p.Open) != len(c.fail) {
			t.Errorf("%v, %+v, %d open", err, done, len(p.Open))
		}
		if p.Open = nil; c.fail != nil {
			continue
		}
		if done, err := p.Publish(ctx, topic); err != nil || done != (relay.Published{}) || len(topic.sent) != 1 {
			t.Errorf("of nothing: %+v, %v, asked %d times", done, err, len(topic.sent))
		}
	}
}

// H95: changes that do not fit are returned by their index in the page, so that the loop can name
// them. Changes from before the start have no images and are not among them.
func TestH95_OversizeOfAPage(t *testing.T) {
	changes := page(t, "a", "b", "c", "d", "e")
	large := attribute.NewItem([]attribute.Attribute{{Name: "PK", Value: attribute.String(strings.Repeat("x", relay.MaxData))}})
	changes[0].New, changes[2].New = large, large
	p, err := relay.NewPage(origin, relay.Number{}, changes, 1)
	if err != nil || !slices.Equal(p.Oversize, []int{2}) || len(p.Open) != 5 {
		t.Errorf("%v of %d, %v", p.Oversize, len(p.Open), err)
	}
}

// refuser fails all publishes of one key while it is enabled.
type refuser struct {
	mu  sync.Mutex
	key string
}

func (r *refuser) React(req any) (bool, any, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := req.(*pubsubpb.PublishRequest)
	if r.key != "" && p.Messages[0].OrderingKey == r.key {
		return true, nil, status.Error(codes.FailedPrecondition, "not now")
	}
	return false, nil, nil
}

func (r *refuser) set(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.key = key
}

const topicName = "projects/p/topics/t"

func create(t testing.TB, server *pstest.Server) {
	t.Helper()
	if _, err := server.GServer.CreateTopic(t.Context(), &pubsubpb.Topic{Name: topicName}); err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, o ...pstest.ServerReactorOption) (*pstest.Server, *relay.PubSub) {
	t.Helper()
	server := pstest.NewServer(o...)
	t.Cleanup(func() { _ = server.Close() })
	topic, err := relay.OpenTopic(t.Context(), "p", topicName, option.WithEndpoint(server.Addr), option.WithoutAuthentication(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = topic.Close() })
	return server, topic
}

// I11: a failed publish blocks its key in the client, and no later message of the key overtakes it.
// The next attempt succeeds.
func TestI11_ABlockedKeyIsResumedAndKeepsItsOrder(t *testing.T) {
	r := &refuser{}
	server, topic := open(t, pstest.ServerReactorOption{FuncName: "Publish", Reactor: r})
	create(t, server)
	p, err := relay.NewPage(origin, relay.Number{}, page(t, "c", "a", "b", "a", "a"), 0)
	if err != nil {
		t.Fatal(err)
	}
	key := p.Open[1].Key
	r.set(key)
	done, err := p.Publish(t.Context(), topic)
	var refused *relay.Error
	if !errors.As(err, &refused) || done.Messages != 2 || done.Blocked != 1 || len(p.Open) != 3 {
		t.Fatalf("%+v, %v, %d open", done, err, len(p.Open))
	}
	r.set("")
	if done, err = p.Publish(t.Context(), topic); err != nil || done.Messages != 3 {
		t.Fatalf("%+v, %v", done, err)
	}
	var numbers []uint64
	for _, m := range server.Messages() {
		if m.OrderingKey == key {
			c, err := relay.Decode(m.Data)
			if err != nil {
				t.Fatal(err)
			}
			numbers = append(numbers, c.Number)
		}
	}
	if !slices.Equal(numbers, []uint64{2, 4, 5}) {
		t.Errorf("numbers of the item in the topic: %v", numbers)
	}
}

func TestATopicThatIsMissing(t *testing.T) {
	server, topic := open(t)
	if _, err := topic.Look(t.Context()); reason(err) != relay.NotFound {
		t.Errorf("look: %v", err)
	}
	p, err := relay.NewPage(origin, relay.Number{}, page(t, "a"), 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Publish(t.Context(), topic); reason(err) != relay.NotFound {
		t.Errorf("publish: %v", err)
	}
	create(t, server)
	if _, err := topic.Look(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := p.Publish(t.Context(), topic); err != nil || len(p.Open) != 0 {
		t.Errorf("publish: %v", err)
	}
}

func reason(err error) relay.Reason {
	var e *relay.Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return ""
}
