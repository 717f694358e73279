package model

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
)

// part is a listing in progress: the shards that it has shown, and its page size.
type part struct {
	shown ListedShards
	size  int
}

// ListPage implements cdc.Source. The token of the next page is the last shard of the page before,
// with a number that identifies the listing.
func (s *Stream) ListPage(ctx context.Context, parent, after string) (cdc.ListingPage, error) {
	t := s.table
	if err := t.Call(ctx, "DescribeStream", ""); err != nil {
		return cdc.ListingPage{}, err
	}
	now := t.world.Now()
	s.Trim(now.Add(-cdc.Retention))
	if s.Forgotten() {
		t.world.Inject("ended stream not found")
		return cdc.ListingPage{}, Fail("DescribeStream", cdc.NotFound)
	}
	so, from, err := s.resume(after)
	if err != nil {
		return cdc.ListingPage{}, err
	}
	page := cdc.ListingPage{Ended: s.Ended && !now.Before(s.ending), At: now.Truncate(time.Second)}
	if after != "" && t.Paging.IntN(16) == 0 {
		t.world.Inject("page of a listing repeated")
		page.Next, from = after, max(0, from-so.size)
	}
	last := ""
	for _, sh := range s.Shards[from:] {
		shown := s.shows(sh, parent, now)
		if shown && len(page.Shards) == so.size {
			if page.Next == "" {
				page.Next = fmt.Sprintf("%s|%d", last, t.Paging.Uint64())
			}
			break
		}
		if shown {
			page.Shards = append(page.Shards, s.show(sh, parent, page.At))
			so.shown = append(so.shown, sh.ID)
		}
		if !sh.Hidden { // a shard that is listed too late is skipped
			last = sh.ID
		}
	}
	if parent == "" && page.Next == "" {
		s.WholeAt = now
	}
	switch n := len(s.Whole); {
	case page.Next == after && after != "":
	case page.Next != "":
		t.world.Inject("listing in pages")
		s.parts[page.Next] = so
	case parent == "" && (n == 0 || !slices.Equal(s.Whole[n-1], so.shown)):
		s.Whole = append(s.Whole, so.shown)
	}
	return page, t.answer(ctx)
}

// resume returns where a page begins, and what earlier pages of the listing showed. The first page
// decides the page size.
func (s *Stream) resume(after string) (so part, from int, err error) {
	t := s.table
	if after == "" {
		so.size = len(s.Shards)
		if t.ShardPage > 0 && t.Paging.IntN(4) == 0 {
			so.size = 1 + t.Paging.IntN(t.ShardPage)
		}
		return so, 0, nil
	}
	so = s.parts[after]
	so.shown = slices.Clone(so.shown)
	id, _, _ := strings.Cut(after, "|")
	from = 1 + slices.IndexFunc(s.Shards, func(sh *Shard) bool { return sh.ID == id })
	// The documentation does not say what happens if a page begins after a shard that no longer
	// exists.
	if s.Shards[from-1].Hidden || t.Paging.IntN(64) == 0 {
		t.world.Inject("page after a shard that is gone")
		reasons := []cdc.Reason{cdc.NotFound, cdc.Malformed}
		if i := t.Paging.IntN(3); i < len(reasons) {
			return so, from, Fail("DescribeStream", reasons[i])
		}
	}
	return so, from, nil
}

// shows reports whether a listing has the shard.
func (s *Stream) shows(sh *Shard, parent string, now time.Time) bool {
	if sh.Hidden || parent != "" && sh.Parent != parent {
		return false
	}
	if now.Before(sh.ListedFrom) {
		s.table.world.Inject("shard listed late")
		return false
	}
	return true
}

// show returns the shard as a listing shows it at a time.
func (s *Stream) show(sh *Shard, parent string, at time.Time) cdc.Shard {
	now := s.table.world.Now()
	if sh.ListedAt.IsZero() {
		sh.ListedAt = now
	}
	shownOpen := sh.Closed && now.Before(sh.ShownOpenUntil)
	if shownOpen {
		s.table.world.Inject("closed shard shown open")
	}
	if parent == "" && (!sh.Closed || shownOpen) {
		sh.ShownOpen = at
	}
	return cdc.Shard{ID: sh.ID, Parent: sh.Parent, Closed: sh.Closed && !shownOpen}
}

// ListedShards holds the shards of one complete listing.
type ListedShards []string
