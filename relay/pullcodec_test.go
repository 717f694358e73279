package relay

import (
	"fmt"
	"reflect"
	"testing"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// The codec decodes an answer as the client's types do, whatever attributes the messages have, and
// shares no memory with the answer.
func TestPullsAreDecodedAsTheClientDoes(t *testing.T) {
	answer := &pubsubpb.PullResponse{ReceivedMessages: []*pubsubpb.ReceivedMessage{
		{}, {AckId: "only an id"}, {AckId: "a", DeliveryAttempt: 3, Message: &pubsubpb.PubsubMessage{Data: []byte("data"), MessageId: "1", PublishTime: timestamppb.Now(), OrderingKey: "k"}},
	}}
	for i := range 20 {
		attributes := map[string]string{"table": "Orders", "version": fmt.Sprint(i / 2), "empty": ""}
		for n := range i {
			attributes[fmt.Sprint("other ", n)] = fmt.Sprint(n * i)
		}
		answer.ReceivedMessages = append(answer.ReceivedMessages, &pubsubpb.ReceivedMessage{AckId: fmt.Sprint("id", i), DeliveryAttempt: int32(i - 1),
			Message: &pubsubpb.PubsubMessage{Data: []byte{byte(i), 0, 0xff}, Attributes: attributes}})
	}
	data, err := proto.Marshal(answer)
	if err != nil {
		t.Fatal(err)
	}
	var want []Delivery
	for _, m := range answer.ReceivedMessages {
		want = append(want, Delivery{ID: m.AckId, Data: m.GetMessage().GetData(), Attributes: m.GetMessage().GetAttributes(), Attempt: int(m.DeliveryAttempt)})
	}
	// Fields that are unknown, and an answer in several parts.
	data = protowire.AppendFixed64(protowire.AppendTag(data, 9, protowire.Fixed64Type), 7)
	data = protowire.AppendBytes(protowire.AppendTag(data, 10, protowire.BytesType), []byte("new"))
	for _, cut := range []int{0, 1, 100, len(data)} {
		all, c := append([]byte(nil), data...), &pullCodec{}
		err := c.Unmarshal(mem.BufferSlice{mem.SliceBuffer(all[:cut]), mem.SliceBuffer(all[cut:])}, nil)
		clear(all)
		if err != nil || !reflect.DeepEqual(c.got, want) {
			t.Errorf("cut at %d: %v, %+v", cut, err, c.got)
		}
	}
	for _, end := range []int{1, 3, len(data) - 1} {
		if c := (&pullCodec{}); c.Unmarshal(mem.BufferSlice{mem.SliceBuffer(data[:end])}, nil) == nil {
			t.Errorf("an answer that ends after %d bytes is accepted", end)
		}
	}
	if _, err := (&pullCodec{}).Marshal("text"); err == nil {
		t.Error("a text is accepted as a request")
	}
}
