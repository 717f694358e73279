package cdc

import (
	"context"
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// These bounds end a listing if the service never ends it or repeats the same page, so that the
// caller is not blocked.
const (
	maxListingPages  = 10_000 // a page holds up to 100 shards
	maxRepeatedPages = 3
)

// DescribeStream may be called 10 times a second. A short listing is requested without pauses. A
// longer listing continues with half of that rate, and leaves the rest of the rate to other
// callers. Without pauses it would be throttled repeatedly. Source:
// https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_streams_DescribeStream.html
const (
	hastyPages  = 5
	listingPace = 200 * time.Millisecond
)

// ListingPage is one page of a stream's shards.
type ListingPage struct {
	Shards []Shard
	// Ended reports that the stream is disabled. No shard will be added to it any more.
	Ended bool
	// Enabling is set while the stream does not record every change yet.
	Enabling bool
	// At is the service's own clock; zero if the answer had no time.
	At time.Time
	// Next is the cursor of the following page; "" if this page is the last.
	Next string
}

// Listing is the whole list of a stream's shards, from all pages. The pages show different moments.
// So a shard may be listed as open although its child is listed too. The fields about the stream
// show the time of the first page. Until the last page was read, an open shard of the first page
// may have been closed, and shards may have been added.
type Listing struct {
	Shards   []Shard
	Ended    bool
	Enabling bool
	At       time.Time
}

// Shard is one entry of a listing.
type Shard struct {
	ID     string
	Parent string // "" if it has none
	// Closed reports that the listing has an ending sequence number. Some services return such a
	// number for open shards too. So only a Page with End set ends a shard.
	Closed bool
}

// Lister reads one listing, page by page. It is not safe for concurrent use.
type Lister struct {
	source Source
	parent string

	listing  Listing
	whole    bool
	shards   map[string]bool // the shards of listing
	pages    int             // pages read
	after    string          // cursor of the next page
	cursors  map[string]bool // cursors of all pages read
	repeated int             // pages whose cursor occurred before
}

// NewLister begins a listing of all shards or, if parent is not empty, of its children.
func NewLister(source Source, parent string) *Lister {
	l := &Lister{source: source, parent: parent}
	l.begin()
	return l
}

func (l *Lister) begin() {
	*l = Lister{source: l.source, parent: l.parent, shards: map[string]bool{}, cursors: map[string]bool{}}
}

// Pages returns how many pages were read.
func (l *Lister) Pages() int { return l.pages }

// Listing returns the whole listing. It returns nothing until Next has returned done, because a
// caller could not notice that the listing is incomplete.
func (l *Lister) Listing() Listing {
	if !l.whole {
		return Listing{}
	}
	return l.listing
}

// Next reads the next page, and reports whether that page was the last. After a transient error,
// the next call asks for the same page again. If each throttled call discarded the earlier pages, a
// listing of a large stream would never be complete.
//
// A listing that does not end, or whose next page is rejected, restarts from the first page. The
// next page begins after a shard that may no longer exist. So only the first page shows whether the
// stream still exists.
func (l *Lister) Next(ctx context.Context) (done bool, err error) {
	if l.whole {
		return true, nil
	}
	if l.pages >= hastyPages {
		if err := task.Sleep(ctx, listingPace); err != nil {
			return false, &Error{opDescribeStream, Unavailable, err}
		}
	}
	page, err := l.source.ListPage(ctx, l.parent, l.after)
	switch passing := Is(err, Throttled) || Is(err, Unavailable) || Is(err, Denied); {
	case err != nil && (passing || l.after == ""):
		return false, err
	case err != nil:
		return false, l.anew(fmt.Errorf("page %d: %w", l.pages+1, err))
	}
	l.add(page)
	if l.after == "" {
		l.whole = true
		return true, nil
	}
	if l.repeated > maxRepeatedPages || l.pages >= maxListingPages {
		return false, l.anew(fmt.Errorf("the listing does not end after %d shards", len(l.shards)))
	}
	return false, nil
}

// add adds a page. A shard that is listed twice is returned once, and a repeated page is skipped.
func (l *Lister) add(page ListingPage) {
	if l.pages == 0 {
		l.listing.Ended, l.listing.Enabling, l.listing.At = page.Ended, page.Enabling, page.At
	}
	for _, s := range page.Shards {
		if !l.shards[s.ID] {
			l.shards[s.ID] = true
			l.listing.Shards = append(l.listing.Shards, s)
		}
	}
	if l.cursors[page.Next] {
		l.repeated++
	}
	l.cursors[page.Next] = true
	l.pages, l.after = l.pages+1, page.Next
}

func (l *Lister) anew(why error) error {
	l.begin()
	return &Error{opDescribeStream, Unavailable, why}
}

// ListShards reads a whole listing. It returns the error of the first page that fails.
func ListShards(ctx context.Context, source Source, parent string) (Listing, error) {
	l := NewLister(source, parent)
	for {
		if done, err := l.Next(ctx); done || err != nil {
			return l.Listing(), err
		}
	}
}
