package fallback

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// keys returns the range that a text such as "b-d" or "-" stands for.
func keys(text string) checkpoint.KeyRange {
	start, end, _ := strings.Cut(text, "-")
	return checkpoint.KeyRange{Start: start, End: end}
}

// continuation returns one from a text such as "b-c>b-d": its range, and the partition it leads to.
func continuation(name, text string) checkpoint.Continuation {
	own, into, _ := strings.Cut(text, ">")
	return checkpoint.Continuation{KeyRange: keys(own), Into: keys(into), Token: "token of " + name, Name: name}
}

func described(all []begin) string {
	var texts []string
	for _, b := range all {
		var names []string
		for _, c := range b.from {
			names = append(names, c.Name)
		}
		texts = append(texts, fmt.Sprintf("%s-%s of %s", b.Start, b.End, strings.Join(names, "+")))
	}
	return strings.Join(texts, ", ")
}

// A named partition begins when its continuations cover exactly its range. One that waits too long
// begins on its own range.
func TestH143_WhenAPartitionBegins(t *testing.T) {
	for name, c := range map[string]struct {
		left    []string
		tooLong string
		want    string
	}{
		"a split":                             {left: []string{"-c>-c", "c->c-"}, want: "-c of 0, c- of 1"},
		"half of a merge":                     {left: []string{"-c>-"}, want: ""},
		"a merge":                             {left: []string{"c->-", "-c>-"}, want: "- of 1+0"},
		"a merge of three, the middle late":   {left: []string{"-c>-f", "d-f>-f"}, want: ""},
		"the neighbour has split again":       {left: []string{"-c>-f"}, tooLong: "0", want: "-c of 0"},
		"one of two waits too long":           {left: []string{"-c>-f", "m-p>m-s"}, tooLong: "1", want: "m-p of 1"},
		"complete and old":                    {left: []string{"-c>-f", "c-f>-f"}, tooLong: "0", want: "-f of 0+1"},
		"a merge that ends at the last key":   {left: []string{"c-f>c-", "f->c-"}, want: "c- of 0+1"},
		"a neighbour that leads to elsewhere": {left: []string{"-c>-f", "c-f>c-k"}, want: "-f of 0+1"},
	} {
		closedPart := checkpoint.FallbackPart{Closed: true}
		for i, text := range c.left {
			closedPart.Children = append(closedPart.Children, continuation(fmt.Sprint(i), text))
		}
		got := described(begins([]checkpoint.FallbackPart{closedPart}, func(name string) bool { return name == c.tooLong }))
		if got != c.want {
			t.Errorf("%s: %q begin, want %q", name, got, c.want)
		}
	}
}

// A continuation is used once a partition has begun with it, even if the leader was killed before
// it could note that.
func TestH143_AContinuationIsUsedOnce(t *testing.T) {
	parent := checkpoint.FallbackPart{KeyRange: keys("-"), Closed: true, Children: []checkpoint.Continuation{continuation("1", "-c>-c"), continuation("2", "c->c-")}}
	child := opened(begin{keys("-c"), parent.Children[:1]}, checkpoint.FallbackPart{}, 7)
	parts := []checkpoint.FallbackPart{parent, child}
	if changed := markUsed(parts); !slices.Equal(changed, []int{0}) || !parts[0].Children[0].Used || parts[0].Children[1].Used {
		t.Errorf("changed %v: %+v", changed, parts[0])
	}
	if parent.Children[0].Used {
		t.Error("the record that was read is changed")
	}
	if got := described(begins(parts, func(string) bool { return false })); got != "c- of 2" {
		t.Errorf("%q begin", got)
	}
	if changed := markUsed(parts); changed != nil {
		t.Errorf("marked twice: %v", changed)
	}
	// A partition that returns to its range begins with new continuations, and keeps its record.
	again := opened(begin{keys("-c"), []checkpoint.Continuation{continuation("9", "-c>-c")}}, closed(child, nil, 7, 1), 8)
	if again.Closed || again.Origins[0] != "9" || len(again.Tokens) != 1 || again.Epoch != 8 {
		t.Errorf("opened again: %+v", again)
	}
}

func TestH143_NoKeyIsLeftOut(t *testing.T) {
	for text, missing := range map[string]bool{"": true, "-": false, "-c c-": false, "-c d-": true, "-d c-": true, "a-": true, "-c": true, "- c-": true} {
		var parts []checkpoint.FallbackPart
		for _, r := range strings.Fields(text) {
			parts = append(parts, checkpoint.FallbackPart{KeyRange: keys(r)})
		}
		if _, is := hole(parts); is != missing {
			t.Errorf("%q: a hole %v", text, is)
		}
	}
	half := []checkpoint.FallbackPart{{KeyRange: keys("-c")}, {KeyRange: keys("c-"), Closed: true, Children: []checkpoint.Continuation{continuation("1", "c->-")}}}
	if r, is := hole(half); is {
		t.Errorf("a continuation that waits is taken for a hole: %v", r)
	}
}

// Splits and merges in any order, with closes that arrive late, leave no key out and read none
// twice (F1), and every continuation is used in the end.
func TestH143_PartitionsOfRandomHistories(t *testing.T) {
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		service := []string{"", "f", "m"} // starts of the partitions of the service
		rangeOf := func(i int) checkpoint.KeyRange {
			r := checkpoint.KeyRange{Start: service[i]}
			if i+1 < len(service) {
				r.End = service[i+1]
			}
			return r
		}
		// answer returns what the service closes a range with that is no partition of now.
		answer := func(r checkpoint.KeyRange) (children []checkpoint.Continuation) {
			for i := range service {
				n := rangeOf(i)
				own := n
				if n.End != "" && n.End <= r.Start || r.End != "" && n.Start >= r.End {
					continue
				}
				own.Start = max(own.Start, r.Start)
				if before(r.End, own.End) {
					own.End = r.End
				}
				children = append(children, checkpoint.Continuation{KeyRange: own, Into: n, Token: "t"})
			}
			return children
		}
		parts := map[checkpoint.KeyRange]checkpoint.FallbackPart{}
		for i := range service {
			parts[rangeOf(i)] = checkpoint.FallbackPart{KeyRange: rangeOf(i)}
		}
		all := func() (list []checkpoint.FallbackPart) {
			for _, p := range parts {
				list = append(list, p)
			}
			slices.SortFunc(list, func(a, b checkpoint.FallbackPart) int { return strings.Compare(a.Start+"-"+a.End, b.Start+"-"+b.End) })
			return list
		}
		closes := 0
		step := func(changes, patient bool) {
			if changes && rng.IntN(2) == 0 {
				if at := string(rune('a' + rng.IntN(26))); !slices.Contains(service, at) {
					service = append(service, at)
					slices.Sort(service)
				}
			} else if changes && len(service) > 1 {
				service = slices.Delete(service, 1+rng.IntN(len(service)-1), len(service))
			}
			for _, p := range all() {
				isNow := slices.ContainsFunc(answer(p.KeyRange), func(c checkpoint.Continuation) bool { return c.Into == p.KeyRange })
				if !p.Closed && !isNow && (!patient || rng.IntN(2) == 0) {
					closes++
					parts[p.KeyRange] = closed(p, answer(p.KeyRange), 1, closes)
				}
			}
			list := all()
			for _, b := range begins(list, func(string) bool { return rng.IntN(3) == 0 }) {
				if had := parts[b.KeyRange]; had.KeyRange == b.KeyRange && !had.Closed && len(had.Tokens) > 0 {
					t.Fatalf("seed %d: %v begins while it is read", seed, b.KeyRange)
				}
				parts[b.KeyRange] = opened(b, parts[b.KeyRange], 1)
				list = all()
				for _, i := range markUsed(list) {
					parts[list[i].KeyRange] = list[i]
				}
			}
			if r, is := hole(all()); is {
				t.Fatalf("seed %d: %v is not read, or twice: %+v", seed, r, all())
			}
		}
		for range 12 {
			step(true, true)
		}
		for range 40 {
			step(false, false)
		}
		if left := waiting(all()); len(left) > 0 {
			t.Fatalf("seed %d: %+v are never used", seed, left)
		}
	}
}
