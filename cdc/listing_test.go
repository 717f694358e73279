package cdc

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// shardIDs are the ids of a listing, in order.
func shardIDs(l Listing) string {
	var ids []string
	for _, s := range l.Shards {
		ids = append(ids, s.ID)
	}
	return strings.Join(ids, " ")
}

func description(status string, last string, shards ...string) string {
	if last != "" {
		last = fmt.Sprintf(`,"LastEvaluatedShardId":%q`, last)
	}
	return fmt.Sprintf(`{"StreamDescription":{"StreamArn":"arn","StreamStatus":%q,"Shards":[%s]%s}}`, status, strings.Join(shards, ","), last)
}

func shardText(id string) string { return fmt.Sprintf(`{"ShardId":%q}`, id) }

// H15: more shards than a page holds, pages that repeat, a shard on two pages.
func TestH15ListReadsEveryPage(t *testing.T) {
	var cursors []string
	repeats := 2
	_, client := newWire(t, func(_ string, in map[string]any) (int, string) {
		cursor, _ := in["ExclusiveStartShardId"].(string)
		cursors = append(cursors, cursor)
		switch cursor {
		case "":
			return 200, description("ENABLED", "b", `{"ShardId":"a","SequenceNumberRange":{"StartingSequenceNumber":"1","EndingSequenceNumber":"2"}}`,
				`{"ShardId":"b","ParentShardId":"a","SequenceNumberRange":{"StartingSequenceNumber":"3"}}`)
		case "b":
			if repeats > 0 {
				repeats--
				return 200, description("ENABLED", "b", shardText("a"), shardText("b"))
			}
			return 200, description("ENABLED", "c")
		default:
			return 200, description("DISABLED", "", shardText("b"), `{"ShardId":"d","ParentShardId":"b"}`)
		}
	})
	got, err := NewSource(client, "arn").List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	want := []Shard{{ID: "a", Closed: true}, {ID: "b", Parent: "a"}, {ID: "d", Parent: "b"}}
	if !slices.Equal(got.Shards, want) || !got.Ended || !got.At.Equal(time.Date(2024, 11, 21, 8, 0, 0, 0, time.UTC)) {
		t.Errorf("got %+v", got)
	}
	if strings.Join(cursors, ",") != ",b,b,b,c" {
		t.Errorf("asked after %q", cursors)
	}
}

func TestListManyPages(t *testing.T) {
	_, client := newWire(t, func(_ string, in map[string]any) (int, string) {
		var n int
		if cursor, ok := in["ExclusiveStartShardId"].(string); ok {
			_, _ = fmt.Sscanf(cursor, "shard-%d", &n)
		}
		var shards []string
		for i := n + 1; i <= n+100; i++ {
			shards = append(shards, shardText(fmt.Sprintf("shard-%05d", i)))
		}
		if n+100 >= 1000 {
			return 200, description("ENABLED", "", shards...)
		}
		return 200, description("ENABLED", fmt.Sprintf("shard-%05d", n+100), shards...)
	})
	got, err := NewSource(client, "arn").List(t.Context(), "")
	if err != nil || len(got.Shards) != 1000 || got.Ended {
		t.Errorf("%d shards, %v", len(got.Shards), err)
	}
}

// A listing that goes in circles is an error, not the part that was seen; the same for a page that fails.
func TestListIsWholeOrNothing(t *testing.T) {
	w, client := newWire(t, func(_ string, in map[string]any) (int, string) {
		if in["ExclusiveStartShardId"] == "a" {
			return 200, description("ENABLED", "b", shardText("b"))
		}
		return 200, description("ENABLED", "a", shardText("a"))
	})
	got, err := NewSource(client, "arn").List(t.Context(), "")
	wantReason(t, err, Unavailable)
	if got.Shards != nil || w.calls.Load() > 10 {
		t.Errorf("%d shards after %d calls", len(got.Shards), w.calls.Load())
	}
	_, client = newWire(t, func(_ string, in map[string]any) (int, string) {
		if in["ExclusiveStartShardId"] == "a" {
			return 500, `{"__type":"InternalServerError"}`
		}
		return 200, description("ENABLED", "a", shardText("a"))
	})
	got, err = NewSource(client, "arn").List(t.Context(), "")
	wantReason(t, err, Unavailable)
	if got.Shards != nil {
		t.Errorf("a part is returned: %s", shardIDs(got))
	}
}

func TestListChildrenOfAShard(t *testing.T) {
	var asked map[string]any
	_, client := newWire(t, func(_ string, in map[string]any) (int, string) {
		asked = in
		return 200, description("ENABLED", "", `{"ShardId":"b","ParentShardId":"a"}`)
	})
	got, err := NewSource(client, "arn").List(t.Context(), "a")
	if err != nil || shardIDs(got) != "b" {
		t.Errorf("%s, %v", shardIDs(got), err)
	}
	if want := "map[ShardFilter:map[ShardId:a Type:CHILD_SHARDS] StreamArn:arn]"; fmt.Sprint(asked) != want {
		t.Errorf("asked %v", asked)
	}
}

func TestDescribe(t *testing.T) {
	_, client := newWire(t, always(200, `{"StreamDescription":{"StreamArn":"arn","StreamLabel":"2024-11-21T08:00:00.000","StreamStatus":"DISABLED",`+
		`"StreamViewType":"NEW_AND_OLD_IMAGES","CreationRequestDateTime":1732175999,"TableName":"Orders",`+
		`"KeySchema":[{"AttributeName":"sk","KeyType":"RANGE"},{"AttributeName":"pk","KeyType":"HASH"}],"Shards":[]}}`))
	got, err := NewSource(client, "arn").Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got.ARN != "arn" || got.Label != "2024-11-21T08:00:00.000" || got.Table != "Orders" || !got.CreatedAt.Equal(time.Unix(1732175999, 0)) ||
		got.View != ViewNewAndOldImages || !slices.Equal(got.KeySchema, []string{"pk", "sk"}) || !got.Ended {
		t.Errorf("got %+v", got)
	}
}
