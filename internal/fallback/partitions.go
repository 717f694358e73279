package fallback

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// This file decides which partitions of a change stream are read. It only looks at their records.

// before compares two ends of ranges. An empty end is after every key.
func before(a, b string) bool { return a != "" && (b == "" || a < b) }

// within reports whether a range lies in another one.
func within(r, of checkpoint.KeyRange) bool {
	return r.Start >= of.Start && !before(of.End, r.End)
}

// covers reports whether the ranges of the continuations, sorted by start, are together exactly a
// range, without an overlap.
func covers(all []checkpoint.Continuation, r checkpoint.KeyRange) bool {
	at := r.Start
	for i, c := range all {
		if c.Start != at || i > 0 && at == "" {
			return false
		}
		at = c.End
	}
	return len(all) > 0 && at == r.End
}

// markUsed sets Used on each continuation that a partition began with. It returns the records that
// have changed. A leader may have been killed between the record of the new partition and those of
// its parents.
func markUsed(parts []checkpoint.FallbackPart) (changed []int) {
	began := map[string]bool{}
	for _, p := range parts {
		for _, name := range p.Origins {
			began[name] = true
		}
	}
	for i := range parts {
		p, children := &parts[i], []checkpoint.Continuation(nil)
		for j, c := range p.Children {
			if !c.Used && began[c.Name] {
				if children == nil {
					children = slices.Clone(p.Children)
				}
				children[j].Used = true
			}
		}
		if children != nil {
			p.Children = children
			changed = append(changed, i)
		}
	}
	return changed
}

// waiting returns the continuations that no partition has begun with, by range.
func waiting(parts []checkpoint.FallbackPart) (all []checkpoint.Continuation) {
	for _, p := range parts {
		for _, c := range p.Children {
			if !c.Used {
				all = append(all, c)
			}
		}
	}
	slices.SortFunc(all, func(a, b checkpoint.Continuation) int { return cmp.Compare(a.Start, b.Start) })
	return all
}

// begin is a partition that can be read from now on.
type begin struct {
	checkpoint.KeyRange
	from []checkpoint.Continuation
}

// begins returns the partitions that can begin. A partition that the service named begins when the
// continuations for it cover exactly its range. That may never happen, because the partition may
// have split before its other continuations came. So a continuation that has waited too long begins
// on its own range. The service then closes it with the partitions of now.
func begins(parts []checkpoint.FallbackPart, tooLong func(name string) bool) (all []begin) {
	left := waiting(parts)
	named := map[checkpoint.KeyRange]bool{}
	for _, c := range left {
		named[c.Into] = true
	}
	used := map[string]bool{}
	for _, c := range left {
		if used[c.Name] || !named[c.Into] {
			continue
		}
		named[c.Into] = false
		var together []checkpoint.Continuation
		for _, other := range left {
			if within(other.KeyRange, c.Into) && !used[other.Name] {
				together = append(together, other)
			}
		}
		if !covers(together, c.Into) {
			continue
		}
		for _, other := range together {
			used[other.Name] = true
		}
		all = append(all, begin{c.Into, together})
	}
	for _, c := range left {
		if !used[c.Name] && tooLong(c.Name) {
			all = append(all, begin{c.KeyRange, []checkpoint.Continuation{c}})
		}
	}
	return all
}

// hole returns a part of the key space that is neither read nor waits to be read (F1), and reports
// whether there is one. A key in two ranges is reported, too.
func hole(parts []checkpoint.FallbackPart) (checkpoint.KeyRange, bool) {
	var all []checkpoint.Continuation
	for _, p := range parts {
		if !p.Closed {
			all = append(all, checkpoint.Continuation{KeyRange: p.KeyRange})
		}
	}
	all = append(all, waiting(parts)...)
	slices.SortFunc(all, func(a, b checkpoint.Continuation) int { return cmp.Compare(a.Start, b.Start) })
	at := ""
	for i, c := range all {
		if c.Start != at || i > 0 && at == "" {
			return checkpoint.KeyRange{Start: min(at, c.Start), End: max(at, c.Start)}, true
		}
		at = c.End
	}
	return checkpoint.KeyRange{Start: at}, len(all) == 0 || at != ""
}

// opened returns the record of a partition that begins, given the record that its range had before;
// the zero value if it had none.
func opened(b begin, had checkpoint.FallbackPart, epoch uint64) checkpoint.FallbackPart {
	p := had
	p.KeyRange, p.Epoch, p.Closed, p.Children = b.KeyRange, epoch, false, nil
	p.Tokens, p.Origins, p.From, p.Watermark = nil, nil, time.Time{}, time.Time{}
	for _, c := range b.from {
		p.Tokens = append(p.Tokens, checkpoint.Continuation{KeyRange: c.KeyRange, Token: c.Token})
		p.Origins = append(p.Origins, c.Name)
	}
	return p
}

// closed returns the record of a partition that the service has closed. The continuations get names
// that no other continuation has. The argument `n` counts the closes of this leader.
func closed(p checkpoint.FallbackPart, children []checkpoint.Continuation, epoch uint64, n int) checkpoint.FallbackPart {
	p.Closed, p.Children, p.Tokens = true, slices.Clone(children), nil
	for i := range p.Children {
		p.Children[i].Name, p.Children[i].Used = fmt.Sprintf("%d.%d.%d", epoch, n, i), false
	}
	return p
}
