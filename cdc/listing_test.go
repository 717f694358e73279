package cdc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// shardIDs returns the ids of a listing, in order.
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
	got, err := ListShards(t.Context(), NewSource(client, "arn"), "")
	if err != nil {
		t.Fatal(err)
	}
	// The listing describes the stream as its first page does.
	want := []Shard{{ID: "a", Closed: true}, {ID: "b", Parent: "a"}, {ID: "d", Parent: "b"}}
	if !slices.Equal(got.Shards, want) || got.Ended || !got.At.Equal(time.Date(2024, 11, 21, 8, 0, 0, 0, time.UTC)) {
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
		if n+100 >= 700 {
			return 200, description("ENABLED", "", shards...)
		}
		return 200, description("ENABLED", fmt.Sprintf("shard-%05d", n+100), shards...)
	})
	got, err := ListShards(t.Context(), NewSource(client, "arn"), "")
	if err != nil || len(got.Shards) != 700 || got.Ended {
		t.Errorf("%d shards, %v", len(got.Shards), err)
	}
}

// A listing that repeats in a circle is an error and returns no shards. The same applies if a page
// fails.
func TestListIsWholeOrNothing(t *testing.T) {
	w, client := newWire(t, func(_ string, in map[string]any) (int, string) {
		if in["ExclusiveStartShardId"] == "a" {
			return 200, description("ENABLED", "b", shardText("b"))
		}
		return 200, description("ENABLED", "a", shardText("a"))
	})
	got, err := ListShards(t.Context(), NewSource(client, "arn"), "")
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
	got, err = ListShards(t.Context(), NewSource(client, "arn"), "")
	wantReason(t, err, Unavailable)
	if got.Shards != nil {
		t.Errorf("a part is returned: %s", shardIDs(got))
	}
}

// A restarted listing is like a new one: an earlier circle does not count.
func TestListBeginsAnewWithoutItsPast(t *testing.T) {
	circles := true
	_, client := newWire(t, func(_ string, in map[string]any) (int, string) {
		switch {
		case in["ExclusiveStartShardId"] == nil:
			return 200, description("ENABLED", "a", shardText("a"))
		case circles:
			return 200, description("ENABLED", "a", shardText("a"))
		}
		return 200, description("ENABLED", "", shardText("b"))
	})
	l, err := NewLister(NewSource(client, "arn"), ""), error(nil)
	for range 10 {
		if _, err = l.Next(t.Context()); err != nil {
			break
		}
	}
	wantReason(t, err, Unavailable)
	circles = false
	for range 2 {
		if _, err := l.Next(t.Context()); err != nil {
			t.Errorf("the listing that began anew fails: %v", err)
		}
	}
	if got := shardIDs(l.Listing()); got != "a b" {
		t.Errorf("got %q", got)
	}
}

// paged is a stream whose listing has one page per id, and whose calls fail as scripted.
type paged struct {
	script
	shards []Shard // one per page
	asked  []string
}

func (p *paged) ListPage(_ context.Context, _, after string) (ListingPage, error) {
	p.asked = append(p.asked, after)
	if err := p.fail(opDescribeStream); err != nil {
		return ListingPage{}, err
	}
	i := 1 + slices.IndexFunc(p.shards, func(s Shard) bool { return s.ID == after })
	page := ListingPage{Shards: p.shards[i : i+1], Ended: i == len(p.shards)-1, At: time.Unix(int64(len(p.asked)), 0)}
	if i < len(p.shards)-1 {
		page.Next = p.shards[i].ID
	}
	return page, nil
}

// A transient error costs only its page. A refused page costs the whole listing, because a page
// begins after a shard, which may be gone. Only the first page shows that the stream is gone.
func TestListerAfterErrors(t *testing.T) {
	for name, c := range map[string]struct {
		failures string // of the next calls: a letter is a reason, a dot is none
		asked    string
		errors   string
		at       int // the call that returned the first page
	}{
		"none":                      {"", ",a,b", "", 1},
		"passing":                   {".TU.D", ",a,a,a,b,b", "throttled, unavailable, denied", 1},
		"passing, of the first":     {"T", ",,a,b", "throttled", 2},
		"a cursor that is gone":     {"..N", ",a,b,,a,b", "unavailable", 4},
		"a cursor that is no good":  {".M.U", ",a,,a,a,b", "unavailable, unavailable", 3},
		"a stream that is gone":     {"N", ",,a,b", "not found", 2},
		"the stream is gone by now": {".NN", ",a,,,a,b", "unavailable, not found", 4},
		"a first page without form": {"M", ",,a,b", "malformed", 2},
	} {
		t.Run(name, func(t *testing.T) {
			p := &paged{shards: []Shard{{ID: "a"}, {ID: "b", Parent: "a"}, {ID: "c", Parent: "b"}}}
			for _, letter := range c.failures {
				p.failures = append(p.failures, map[rune]Reason{'.': none, 'T': Throttled, 'U': Unavailable, 'D': Denied, 'N': NotFound, 'M': Malformed}[letter])
			}
			var reasons []string
			l := NewLister(p, "")
			for range 20 {
				done, err := l.Next(t.Context())
				if done {
					break
				}
				if e, failed := errors.AsType[*Error](err); failed {
					reasons = append(reasons, e.Reason.String())
				}
				if l.Listing().Shards != nil {
					t.Errorf("a part is returned: %s", shardIDs(l.Listing()))
				}
			}
			if got := strings.Join(p.asked, ","); got != c.asked {
				t.Errorf("asked after %q", got)
			}
			if got := strings.Join(reasons, ", "); got != c.errors {
				t.Errorf("errors: %s", got)
			}
			if got := l.Listing(); shardIDs(got) != "a b c" || got.Ended || !got.At.Equal(time.Unix(int64(c.at), 0)) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestListChildrenOfAShard(t *testing.T) {
	var asked map[string]any
	_, client := newWire(t, func(_ string, in map[string]any) (int, string) {
		asked = in
		return 200, description("ENABLED", "", `{"ShardId":"b","ParentShardId":"a"}`)
	})
	got, err := ListShards(t.Context(), NewSource(client, "arn"), "a")
	if err != nil || shardIDs(got) != "b" {
		t.Errorf("%s, %v", shardIDs(got), err)
	}
	if want := "map[ShardFilter:map[ShardId:a Type:CHILD_SHARDS] StreamArn:arn]"; fmt.Sprint(asked) != want {
		t.Errorf("asked %v", asked)
	}
}

// childless is a stream that is gone when the children of a shard are requested.
type childless struct{ Source }

func (childless) ListPage(context.Context, string, string) (ListingPage, error) {
	return ListingPage{}, &Error{opDescribeStream, NotFound, errors.New("no such stream")}
}

// The first page of any listing shows that the stream is gone; otherwise its children would be
// requested forever.
func TestListChildrenOfAStreamThatIsGone(t *testing.T) {
	for _, parent := range []string{"", "a"} {
		if _, err := ListShards(t.Context(), childless{}, parent); !Is(err, NotFound) {
			t.Errorf("children of %q: %v", parent, err)
		}
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

// A stream that is being enabled or disabled has not ended: more changes may come, or some may be
// unread. Only a disabled stream gets no more shards.
func TestStatesOfAStream(t *testing.T) {
	for status, ended := range map[string]bool{"ENABLING": false, "ENABLED": false, "DISABLING": false, "DISABLED": true, "": false, "ANEW": false} {
		_, client := newWire(t, always(200, description(status, "", shardText("a"))))
		source := NewSource(client, "arn")
		info, errInfo := source.Describe(t.Context())
		page, errPage := source.ListPage(t.Context(), "", "")
		children, errChildren := source.ListPage(t.Context(), "a", "")
		if err := errors.Join(errInfo, errPage, errChildren); err != nil || info.Ended != ended || page.Ended != ended || children.Ended != ended {
			t.Errorf("%q ended: %v, its listing %v, children %v, want %v: %v", status, info.Ended, page.Ended, children.Ended, ended, err)
		}
	}
}
