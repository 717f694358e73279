// Package cdctest tests the behaviour that every cdc.Source must have. The same tests run against a
// model, the embedded DynamoDB and independent implementations. So a result for one implementation
// holds for the others.
package cdctest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
)

// Harness is a table with a new stream of both images, and functions to change it. Its table has
// the partition key "pk", a string. A nil function means that the implementation cannot do this.
// Tests that need the function are then left out.
type Harness struct {
	Source cdc.Source
	// Put stores the item {pk: key, n: n}, and replaces an item with the same key.
	Put func(t *testing.T, key string, n int)
	// Delete removes the item.
	Delete func(t *testing.T, key string)
	// Roll closes a shard and gives it a child, which is listed immediately.
	Roll func(t *testing.T, shard string)
	// ExpireIterators makes every iterator issued so far expire.
	ExpireIterators func(t *testing.T)
	// Trim removes every change made so far. Later changes are kept.
	Trim func(t *testing.T)
}

// These limits bound how long a test reads until changes arrive, because empty pages are normal.
const (
	mostReads   = 10_000
	mostChanges = 1_000 // per page
)

// Conformance tests a source. Each test opens its own harness, whose stream has one open shard.
func Conformance(t *testing.T, open func(t *testing.T) Harness) {
	for _, test := range []struct {
		name  string
		run   func(t *testing.T, h Harness)
		needs func(h Harness) bool
	}{
		{"every event with its images", everyEvent, nil},
		{"a position is after its number", positions, nil},
		{"pages follow each other", pages, nil},
		{"an iterator can be used again", again, nil},
		{"later changes are read with the next iterator", later, nil},
		{"the end of a shard", end, func(h Harness) bool { return h.Roll != nil }},
		{"children are listed under their parent", children, func(h Harness) bool { return h.Roll != nil }},
		{"iterators expire", expiry, func(h Harness) bool { return h.ExpireIterators != nil }},
		{"trimmed changes are reported, except at the horizon", trim, func(h Harness) bool { return h.Trim != nil }},
		{"an unknown shard is not found", unknown, nil},
	} {
		h := open(t)
		if test.needs == nil || test.needs(h) {
			t.Run(test.name, func(t *testing.T) { test.run(t, h) })
		}
	}
}

// shard returns the only shard of the listing.
func shard(t *testing.T, h Harness) string {
	t.Helper()
	listing, err := cdc.ListShards(t.Context(), h.Source, "")
	if err != nil {
		t.Fatal(err)
	}
	if len(listing.Shards) != 1 || listing.Ended {
		t.Fatalf("the listing of a fresh stream holds %d shards, ended %t", len(listing.Shards), listing.Ended)
	}
	return listing.Shards[0].ID
}

func seek(t *testing.T, h Harness, shard string, after cdc.SequenceNumber) cdc.Iterator {
	t.Helper()
	iterator, err := h.Source.Seek(t.Context(), shard, cdc.Position{After: after})
	if err != nil {
		t.Fatal(err)
	}
	return iterator
}

// read reads until there are n changes or the shard ends, and returns the next iterator.
func read(t *testing.T, h Harness, at cdc.Iterator, n int) ([]cdc.Change, cdc.Iterator) {
	t.Helper()
	var changes []cdc.Change
	for range mostReads {
		page, err := h.Source.Read(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Changes) > mostChanges || page.End != (page.Next == "") {
			t.Fatalf("a page of %d changes, end %t, next iterator of %d bytes", len(page.Changes), page.End, len(page.Next))
		}
		changes = append(changes, page.Changes...)
		if at = page.Next; page.End || len(changes) >= n {
			break
		}
	}
	for i := 1; i < len(changes); i++ {
		if changes[i].Sequence.Compare(changes[i-1].Sequence) <= 0 {
			t.Fatalf("%s follows %s", changes[i].Sequence, changes[i-1].Sequence)
		}
	}
	return changes, at
}

// want fails the test unless the changes equal the short form brief: "+a1" inserts a with 1, "a1>2"
// changes it, "-a2" removes it.
func want(t *testing.T, got []cdc.Change, brief string) {
	t.Helper()
	var list []string
	for _, c := range got {
		key, _ := c.Keys.Get("pk")
		switch text := key.Text(); c.Event {
		case cdc.Insert:
			list = append(list, "+"+text+number(c.New))
		case cdc.Modify:
			list = append(list, text+number(c.Old)+">"+number(c.New))
		case cdc.Remove:
			list = append(list, "-"+text+number(c.Old))
		}
		if c.Time.IsZero() || !c.Time.Equal(c.Time.Truncate(1e9)) || c.Expired || len(c.Keys.Attributes()) != 1 {
			t.Errorf("change %s at %s, expired %t, keys %v", c.Sequence, c.Time, c.Expired, c.Keys)
		}
		if c.Old.Exists() == (c.Event == cdc.Insert) || c.New.Exists() == (c.Event == cdc.Remove) {
			t.Errorf("change %s is %s with old %v and new %v", c.Sequence, c.Event, c.Old, c.New)
		}
	}
	if text := strings.Join(list, " "); text != brief {
		t.Errorf("read %s\nwant %s", text, brief)
	}
}

func number(item attribute.Item) string {
	n, _ := item.Get("n")
	return n.Text()
}

func everyEvent(t *testing.T, h Harness) {
	h.Put(t, "a", 1)
	h.Put(t, "b", 1)
	h.Put(t, "a", 2)
	h.Delete(t, "b")
	h.Put(t, "b", 3)
	h.Delete(t, "a")
	changes, _ := read(t, h, seek(t, h, shard(t, h), cdc.SequenceNumber{}), 6)
	want(t, changes, "+a1 +b1 a1>2 -b1 +b3 -a2")
}

func positions(t *testing.T, h Harness) {
	for n := range 5 {
		h.Put(t, "a", n)
	}
	id := shard(t, h)
	all, _ := read(t, h, seek(t, h, id, cdc.SequenceNumber{}), 5)
	if len(all) != 5 {
		t.Fatalf("%d changes", len(all))
	}
	for i := range 4 {
		rest, _ := read(t, h, seek(t, h, id, all[i].Sequence), 4-i)
		if !slices.EqualFunc(rest, all[i+1:], same) {
			t.Errorf("after change %d of 5 come %d changes, or others", i+1, len(rest))
		}
	}
	// After the last change there is nothing to read yet. New changes are read later.
	iterator := seek(t, h, id, all[4].Sequence)
	h.Put(t, "b", 7)
	rest, _ := read(t, h, iterator, 1)
	want(t, rest, "+b7")
}

func same(a, b cdc.Change) bool {
	return a.Event == b.Event && a.Sequence == b.Sequence && a.Keys.Equal(b.Keys) && a.Old.Equal(b.Old) && a.New.Equal(b.New)
}

func pages(t *testing.T, h Harness) {
	const total = mostChanges + 50
	var brief []string
	for n := range total {
		h.Put(t, fmt.Sprintf("k%d-", n), n)
		brief = append(brief, fmt.Sprintf("+k%d-%d", n, n))
	}
	changes, _ := read(t, h, seek(t, h, shard(t, h), cdc.SequenceNumber{}), total)
	want(t, changes, strings.Join(brief, " "))
}

func again(t *testing.T, h Harness) {
	h.Put(t, "a", 1)
	h.Put(t, "b", 2)
	iterator := seek(t, h, shard(t, h), cdc.SequenceNumber{})
	for range 2 {
		changes, _ := read(t, h, iterator, 2)
		want(t, changes, "+a1 +b2")
	}
}

func later(t *testing.T, h Harness) {
	iterator := seek(t, h, shard(t, h), cdc.SequenceNumber{})
	for n := range 3 {
		page, err := h.Source.Read(t.Context(), iterator)
		if err != nil || page.End || len(page.Changes) != 0 {
			t.Fatalf("an open shard without changes: %d changes, end %t, %v", len(page.Changes), page.End, err)
		}
		h.Put(t, fmt.Sprint("k", n), n)
		var changes []cdc.Change
		changes, iterator = read(t, h, page.Next, 1)
		want(t, changes, fmt.Sprintf("+k%d%d", n, n))
	}
}

func end(t *testing.T, h Harness) {
	h.Put(t, "a", 1)
	id := shard(t, h)
	h.Roll(t, id)
	h.Put(t, "a", 2)
	changes, next := read(t, h, seek(t, h, id, cdc.SequenceNumber{}), mostChanges)
	want(t, changes, "+a1")
	if next != "" {
		t.Error("a closed shard does not end")
	}
	// A reader that starts after the last change finds the end of the shard, not an error.
	changes, next = read(t, h, seek(t, h, id, changes[0].Sequence), mostChanges)
	if len(changes) != 0 || next != "" {
		t.Errorf("after the last change: %d changes, next iterator of %d bytes", len(changes), len(next))
	}
}

func children(t *testing.T, h Harness) {
	first := shard(t, h)
	h.Put(t, "a", 1)
	h.Roll(t, first)
	listing, err := cdc.ListShards(t.Context(), h.Source, first)
	if err != nil || len(listing.Shards) != 1 || listing.Shards[0].Parent != first {
		t.Fatalf("%d children, %v", len(listing.Shards), err)
	}
	second := listing.Shards[0].ID
	h.Put(t, "a", 2)
	h.Roll(t, second)
	listing, err = cdc.ListShards(t.Context(), h.Source, "")
	if err != nil || len(listing.Shards) != 3 {
		t.Fatalf("%d shards, %v", len(listing.Shards), err)
	}
	for _, s := range listing.Shards {
		if (s.ID == first || s.ID == second) != s.Closed {
			t.Errorf("%+v", s)
		}
	}
	changes, _ := read(t, h, seek(t, h, second, cdc.SequenceNumber{}), mostChanges)
	want(t, changes, "a1>2")
}

func expiry(t *testing.T, h Harness) {
	h.Put(t, "a", 1)
	id := shard(t, h)
	old := seek(t, h, id, cdc.SequenceNumber{})
	changes, next := read(t, h, old, 1)
	h.ExpireIterators(t)
	for _, iterator := range []cdc.Iterator{old, next} {
		if _, err := h.Source.Read(t.Context(), iterator); !cdc.Is(err, cdc.Expired) {
			t.Errorf("an old iterator: %v", err)
		}
	}
	h.Put(t, "a", 2)
	changes, _ = read(t, h, seek(t, h, id, changes[0].Sequence), 1)
	want(t, changes, "a1>2")
}

func trim(t *testing.T, h Harness) {
	h.Put(t, "a", 1)
	h.Put(t, "a", 2)
	id := shard(t, h)
	changes, _ := read(t, h, seek(t, h, id, cdc.SequenceNumber{}), 2)
	h.Trim(t)
	h.Put(t, "a", 3)
	// The position of the first change is lost. The error may come from Seek or from Read.
	iterator, err := h.Source.Seek(t.Context(), id, cdc.Position{After: changes[0].Sequence})
	if err == nil {
		_, err = h.Source.Read(t.Context(), iterator)
	}
	if !cdc.Is(err, cdc.Trimmed) {
		t.Errorf("after a trimmed change: %v", err)
	}
	changes, _ = read(t, h, seek(t, h, id, cdc.SequenceNumber{}), 1)
	want(t, changes, "a2>3")
}

func unknown(t *testing.T, h Harness) {
	// The id has the length and form of real ids, so it is unknown and not malformed.
	id := []byte(shard(t, h))
	for i, c := range id[len(id)-4:] {
		if c != '0' {
			id[len(id)-4+i] = '0'
		} else {
			id[len(id)-4+i] = '1'
		}
	}
	_, err := h.Source.Seek(t.Context(), string(id), cdc.Position{})
	if !cdc.Is(err, cdc.NotFound) {
		t.Errorf("got %v", err)
	}
	if _, ok := errors.AsType[*cdc.Error](err); !ok {
		t.Errorf("%T is not a *cdc.Error", err)
	}
}
