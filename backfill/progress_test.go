package backfill

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

func TestRefusesNonsense(t *testing.T) {
	for _, p := range []Progress{
		{Total: 3, Next: 4}, {Total: -1}, {Total: 2, Next: 1, Open: []Open{{Segment: 1}}}, {Total: MaxSegments + 1},
		{Total: 3, Next: 3, Open: []Open{{Segment: 2}, {Segment: 1}}},
	} {
		s := &Scan{Table: "Orders", Source: newMemory(1), Write: (&target{}).write, Save: discard}
		if _, err := s.Run(context.Background(), p); !errors.Is(err, ErrProgress) {
			t.Errorf("%+v: %v", p, err)
		}
	}
}

func TestProgressText(t *testing.T) {
	n, err := attribute.Number("17.50")
	if err != nil {
		t.Fatal(err)
	}
	p := Progress{Generation: 3, Total: 9, Next: 2, Items: 12, Open: []Open{
		{Segment: 0},
		{Segment: 1, Items: 12, After: attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.Binary([]byte{0, 255})}, {Name: "sk", Value: n}})},
	}}
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"generation":3,"total":9,"next":2,"open":[{"segment":0},{"segment":1,"after":{"pk":{"B":"AP8="},"sk":{"N":"17.5"}},"items":12}],"items":12}`
	if string(text) != want {
		t.Errorf("got %s", text)
	}
	var back Progress
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if !back.Open[1].After.Equal(p.Open[1].After) || back.Total != p.Total || back.Items != p.Items || back.SegmentsDone() != 0 {
		t.Errorf("got %+v", back)
	}
}
