package cdc

import (
	"context"
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// The bounds of one listing: a service that never ends it, or gives the same page for ever, must not hold us.
const (
	maxListingPages  = 10_000 // a page holds up to 100 shards
	maxRepeatedPages = 3
)

// DescribeStream may be called 10 times a second. A short listing is asked for at once; a longer one takes half of that from then on and leaves
// the rest to whoever else lists streams: without a pause it would be throttled again and again.
// Source: https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_streams_DescribeStream.html
const (
	hastyPages  = 5
	listingPace = 200 * time.Millisecond
)

// ListingPage is what one call says of a stream's shards.
type ListingPage struct {
	Shards []Shard
	// Ended tells that the stream is disabled: no shard will ever be added.
	Ended bool
	// Enabling is set while the stream does not record every change yet.
	Enabling bool
	// At is the service's own clock, zero if it did not say.
	At time.Time
	// Next is where the following page begins; "" if this is the last.
	Next string
}

// Listing is what a stream says of its shards, with every page. The pages are of several moments, so that a shard may stand there as open whose
// child is there as well. Of the stream as a whole it says what was true when the first page was: a shard of that page that is shown open may
// have been closed, and one added, while the others were read.
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
	// Closed tells that the listing gave an ending sequence number. Some services give one for open shards too: only a
	// page that says End ends a shard.
	Closed bool
}

// Lister asks for one listing, page by page. It is not safe for concurrent use.
type Lister struct {
	source Source
	parent string

	listing  Listing
	whole    bool
	shards   map[string]bool // those of listing
	pages    int             // that were read
	after    string          // where the next one begins
	cursors  map[string]bool // where pages began
	repeated int             // pages that began where one had begun before
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

// Pages is how many pages of the listing are there.
func (l *Lister) Pages() int { return l.pages }

// Listing is the whole listing. Until Next has said that it is done there is none: never a part for the whole, because the rest of it would be missing
// without a sign.
func (l *Lister) Listing() Listing {
	if !l.whole {
		return Listing{}
	}
	return l.listing
}

// Next asks for the next page, and tells whether it was the last. After an error that may pass, it asks for the same page again: of a large stream
// no listing would ever be whole if each throttled call took the pages before with it.
//
// A listing that does not end, or whose next page is refused, begins anew: a page begins after a shard, which may be gone since. Whether the
// stream is, its first page tells.
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

// add takes a page to those before. A shard that is listed twice is returned once, and a page that is repeated is passed over.
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

// ListShards asks for a whole listing, and fails with its first page that does.
func ListShards(ctx context.Context, source Source, parent string) (Listing, error) {
	l := NewLister(source, parent)
	for {
		if done, err := l.Next(ctx); done || err != nil {
			return l.Listing(), err
		}
	}
}
