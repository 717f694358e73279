package scope

import (
	"fmt"
	"strings"
)

// page is one read of a shard: the changes after from up to to.
type page struct {
	from, to   int
	generation int // 0, or 1 after the raise
	// committed tells that the checkpoint passed the page, or that its reader went on to the end: it was written. Otherwise its
	// reader ended before that, and its requests may have been executed or not.
	committed bool
}

// plan is what workers read, and what loads read meanwhile.
type plan struct {
	pages []page
	// lost tells that changes of the stream were never read: the raise declared a gap.
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

// plans are all ways to read the stream of a setting: every cut into pages, a worker that ends after every page and with every
// earlier page as the last one committed, and its successor that begins there with every cut.
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
		// Whoever read for the old generation saw no more than there was when the shard was adopted by the new one.
		reach, generation = s.raised, 1
	}
	for read := 0; read <= reach; read++ {
		for _, first := range cuts(0, read) {
			for _, committed := range boundaries(first) {
				if s.raised == never && committed == read && read > 0 {
					continue // a clean handover is one reading with those cuts
				}
				if s.replaced == none {
					add(first, committed, committed, generation, false)
				}
				if s.raised == never {
					continue
				}
				// The raise was for a gap: something up to it was trimmed, or is in a stream that was replaced.
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

// boundaries are the positions a reader of the pages can have committed.
func boundaries(pages []page) []int {
	list := []int{0}
	for _, p := range pages {
		list = append(list, p.to)
	}
	return list
}

// cuts are all ways to cut changes into pages, none of which reaches over the end of a shard.
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
