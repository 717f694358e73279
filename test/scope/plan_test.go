package scope

import (
	"fmt"
	"strings"
)

// page is one read of a shard: the changes after from, up to and including to.
type page struct {
	from, to   int
	generation int // 0, or 1 after the raise
	// committed means that the checkpoint passed the page, or that its reader continued to the end,
	// so the page was written. Otherwise its reader ended before that, and its requests may or may
	// not have been executed.
	committed bool
}

// plan is what workers read. Loads read in addition.
type plan struct {
	pages []page
	// lost means that changes of the stream were never read, so the raise declared a gap.
	lost bool
}

func (p plan) String() string {
	var words []string
	for _, page := range p.pages {
		word := fmt.Sprintf("%d-%d", page.from+1, page.to)
		if page.generation > 0 {
			word += "'"
		}
		if !page.committed {
			word += " (not committed)"
		}
		words = append(words, word)
	}
	if p.lost {
		words = append(words, "gap")
	}
	return strings.Join(words, ", ")
}

// plans lists all ways to read the stream of a setting. It cuts it into pages in every way, ends a
// worker after every page with every earlier page as the last committed one, and lets the successor
// begin there with every cut.
func (s setting) plans() []plan {
	places := s.places()
	cuts := func(from, to int) [][]page { return s.cuts(places, from, to) }
	var all []plan
	add := func(first []page, committed, resume, generation int, lost bool) {
		for _, rest := range cuts(resume, changesOf) {
			p := plan{lost: lost}
			for _, page := range first {
				page.committed = page.to <= committed
				p.pages = append(p.pages, page)
			}
			for _, page := range rest {
				page.committed, page.generation = true, generation
				p.pages = append(p.pages, page)
			}
			all = append(all, p)
		}
	}
	reach, generation := changesOf, 0
	if s.raised != never {
		// Readers for the old generation saw no more than existed when the new one adopted the
		// shard.
		reach, generation = s.raised, 1
	}
	for read := 0; read <= reach; read++ {
		for _, first := range cuts(0, read) {
			for _, committed := range boundaries(first) {
				if s.raised == never && committed == read && read > 0 {
					continue // a clean handover equals one reading with those cuts
				}
				if s.replaced == none {
					add(first, committed, committed, generation, false)
				}
				if s.raised == never {
					continue
				}
				// The raise was for a gap: something before it was trimmed, or is in a replaced
				// stream.
				for lost := committed + 1; lost <= s.raised; lost++ {
					if s.replaced == none || lost == s.raised {
						add(first, committed, lost, generation, true)
					}
				}
				if s.replaced != none && committed == s.raised {
					add(first, committed, committed, generation, false)
				}
			}
		}
	}
	return all
}

// boundaries lists the positions that a reader of the pages can have committed.
func boundaries(pages []page) []int {
	list := []int{0}
	for _, p := range pages {
		list = append(list, p.to)
	}
	return list
}

// cuts lists all ways to cut changes into pages, none of which crosses the end of a shard.
func (s setting) cuts(places [changesOf + 1]place, from, to int) [][]page {
	if from >= to {
		return [][]page{nil}
	}
	var all [][]page
	for end := from + 1; end <= to && places[end].shard == places[from+1].shard; end++ {
		for _, rest := range s.cuts(places, end, to) {
			all = append(all, append([]page{{from: from, to: end}}, rest...))
		}
	}
	return all
}
