package dashboard

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dynamodb-bigtable/replicator/internal/status"
)

// The boxes of a drawn lineage, in the units of its SVG element.
const (
	boxWidth, boxHeight = 208, 42
	besideBox           = 32 // room for an edge
	belowBox            = 10
	// mostDrawn is the maximum number of rows of a drawing. A larger drawing would be unreadable.
	mostDrawn = 32
)

// drawing shows the lineage of a table's shards. Children are one column to the right of their
// parents, and an edge leads from each shard to its children. A chain of done shards, in which each
// has one child, is one box. Otherwise the drawing would become too wide: DynamoDB replaces a shard
// every four hours.
type drawing struct {
	Width, Height int
	Edges         []string // paths
	Boxes         []box
	Left          int // number of shards that are not drawn
	rows          int
	unread        state // the state of a shard without a reader
}

// box is one shard, or the last shard of a chain of done shards.
type box struct {
	X, Y               int
	State              state
	Name, About, Title string
}

// family is a shard with its descendants.
type family struct {
	shards   []*status.Shard // one shard, or a chain of done shards; only the last may have children
	children []*family
}

func (f *family) last() *status.Shard { return f.shards[len(f.shards)-1] }

// size returns how many shards a family has.
func (f *family) size() int {
	n := len(f.shards)
	for _, c := range f.children {
		n += c.size()
	}
	return n
}

// rows returns the number of rows that the family's drawing occupies.
func (f *family) rows() int {
	n := 0
	for _, c := range f.children {
		n += c.rows()
	}
	return max(n, 1)
}

// troubled reports whether a shard of the family needs an operator's attention.
func (f *family) troubled() bool {
	return stateOf(f.last(), state{}).Class == "bad" || slices.ContainsFunc(f.children, (*family).troubled)
}

// familiesOf returns the families of a stream's shards. Each family begins with a shard that has
// no listed parent.
func familiesOf(shards []status.Shard) []*family {
	byID, children := map[string]bool{}, map[string][]*status.Shard{}
	for i := range shards {
		byID[shards[i].ID] = true
	}
	for i := range shards {
		parent := ""
		if p := shards[i].Parent; p != nil && byID[*p] {
			parent = *p
		}
		children[parent] = append(children[parent], &shards[i])
	}
	var of func(s *status.Shard) *family
	of = func(s *status.Shard) *family {
		f := &family{shards: []*status.Shard{s}}
		for over(s) && len(children[s.ID]) == 1 && over(children[s.ID][0]) {
			s = children[s.ID][0]
			f.shards = append(f.shards, s)
		}
		for _, c := range sorted(children[s.ID]) {
			f.children = append(f.children, of(c))
		}
		return f
	}
	var roots []*family
	for _, s := range sorted(children[""]) {
		roots = append(roots, of(s))
	}
	return roots
}

func sorted(shards []*status.Shard) []*status.Shard {
	slices.SortFunc(shards, func(a, b *status.Shard) int { return strings.Compare(a.ID, b.ID) })
	return shards
}

// over reports whether a shard is done and needs no attention.
func over(s *status.Shard) bool { return s.State == "done" && s.Why == nil }

// drawingOf draws the streams of a table, one below the other. If there is not enough room, it
// draws shards that need an operator's attention first.
func drawingOf(streams [][]status.Shard, unread state) drawing {
	var all []*family
	rows := 0
	for _, shards := range streams {
		for _, f := range familiesOf(shards) {
			all, rows = append(all, f), rows+f.rows()
		}
	}
	if rows > mostDrawn {
		urgentFirst(all)
	}
	d := drawing{unread: unread}
	for _, f := range all {
		if d.rows > 0 && d.rows+f.rows() > mostDrawn {
			d.Left += f.size()
			continue
		}
		d.add(f, 0)
	}
	d.Height = max(0, d.rows*(boxHeight+belowBox)-belowBox) + 2*rim
	d.Width += rim
	return d
}

// rim is the room for the outlines of the outermost boxes.
const rim = 2

// urgentFirst sorts families and their children by whether they need an operator's attention.
func urgentFirst(families []*family) {
	rank := func(f *family) int {
		if f.troubled() {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(families, func(a, b *family) int { return rank(a) - rank(b) })
	for _, f := range families {
		urgentFirst(f.children)
	}
}

// add draws a family in the next free row, starting at a column. It returns the box of the family's
// first shards.
func (d *drawing) add(f *family, column int) box {
	b := boxOf(f, d.unread)
	b.X, b.Y = rim+column*(boxWidth+besideBox), rim+d.rows*(boxHeight+belowBox)
	d.Width = max(d.Width, b.X+boxWidth)
	d.Boxes = append(d.Boxes, b)
	if len(f.children) == 0 {
		d.rows++
	}
	for _, c := range f.children {
		if d.rows >= mostDrawn { // a single family may be too large
			d.Left += c.size()
			continue
		}
		child := d.add(c, column+1)
		from, to := b.Y+boxHeight/2, child.Y+boxHeight/2
		d.Edges = append(d.Edges, fmt.Sprintf("M%d %dH%dV%dH%d", b.X+boxWidth, from, b.X+boxWidth+besideBox/2, to, child.X))
	}
	return b
}

func boxOf(f *family, unread state) box {
	s := f.last()
	b := box{State: stateOf(s, unread), Name: shortOf(s.ID, 9), Title: s.ID}
	if n := len(f.shards); n > 1 {
		b.State.Word = fmt.Sprintf("%d done", n)
		b.Title = f.shards[0].ID + " and " + fmt.Sprint(n-1) + " that followed it, up to " + s.ID
	}
	if s.Owner != nil && *s.Owner != "" {
		b.Name += " · " + shortOf(*s.Owner, 12)
	}
	if s.LagSeconds != nil {
		b.About = s.LagText()
	}
	if s.Why != nil {
		b.Title += ": " + s.Why.Text
	}
	return b
}

// shortOf shortens a long name to its end. Names of shards and workers differ at the end.
func shortOf(name string, most int) string {
	letters := []rune(name)
	if len(letters) <= most {
		return name
	}
	return "…" + string(letters[len(letters)-most+1:])
}

// unreadOf returns the state that is shown for a table's shards that no worker reads.
func unreadOf(m *status.Document, t *status.Table) state {
	switch {
	case m.Left():
		return state{"no longer read", "○", "soft"}
	case t.Paused != nil:
		return state{"paused", "‖", "soft"}
	}
	return state{"waiting for a worker", "□", "soft"}
}

// stateOf returns the state of a shard, as the drawing and the list show it. If no worker reads the
// shard, it returns `unread`.
func stateOf(s *status.Shard, unread state) state {
	reads := s.State == "reading"
	switch why := s.Because(); {
	case s.State == "gap":
		return state{"gap", "✗", "bad"}
	case why == status.WhySilent:
		return state{s.State + ", worker silent", "✗", "bad"}
	case why == status.WhyTrouble:
		return state{s.State + ", retrying", "✗", "bad"}
	case why == status.WhyNobody:
		return unread
	case why == status.WhyChildren:
		return state{s.State + ", children unknown", "✗", "bad"}
	case reads && s.Old:
		return state{"reading, old", "✗", "bad"}
	case reads:
		return state{"reading", "■", "now"}
	case s.State == "done":
		return state{"done", "✓", "good"}
	case why == status.WhyParent:
		return state{"waiting for parent", "□", "soft"}
	}
	return state{s.State, "□", "soft"}
}
