package transform

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Family is a column family that a mapping declares, in the grammar of `cbt createtable families=`.
// The grammar has a garbage collection rule and, for aggregates, a colon and the type of aggregate.
// Source: https://cloud.google.com/bigtable/docs/cbt-reference
type Family struct {
	Name      string
	GC        GC
	Aggregate Aggregate
}

// Aggregate is the type of aggregate that a family holds; empty for ordinary cells.
type Aggregate string

// The aggregates, named as cbt names them.
const (
	NoAggregate Aggregate = ""
	IntSum      Aggregate = "intsum"
	IntMin      Aggregate = "intmin"
	IntMax      Aggregate = "intmax"
	IntHLL      Aggregate = "inthll"
)

// Rule returns the text that ParseFamily reads.
func (f Family) Rule() string {
	if f.Aggregate == NoAggregate {
		return f.GC.String()
	}
	return f.GC.String() + ":" + string(f.Aggregate)
}

// GC is a garbage collection rule: one limit, or several limits joined by an operator. The zero
// value keeps everything.
type GC struct {
	Versions int           // all but this many newest cells of a column may be collected; 0: no such limit
	Age      time.Duration // cells older than this may be collected; 0: no such limit
	All      bool          // a cell may be collected if all Rules allow it; otherwise one Rule is enough
	Rules    []GC
}

// never reports whether nothing is ever collected.
func (g GC) never() bool { return g.Versions == 0 && g.Age == 0 && len(g.Rules) == 0 }

// hasAge reports whether the rule contains a limit of age.
func (g GC) hasAge() bool {
	for _, r := range g.Rules {
		if r.hasAge() {
			return true
		}
	}
	return g.Age > 0
}

// ageless returns the rule, or a rule that keeps everything if the rule has a limit of age.
func (g GC) ageless() GC {
	if g.hasAge() {
		return GC{}
	}
	return g
}

// keeps returns how many newest cells of a column the rule always keeps. It returns false if the
// rule keeps all cells. The rule must have no limit of age.
func (g GC) keeps() (versions int, limited bool) {
	if len(g.Rules) == 0 {
		return g.Versions, g.Versions > 0
	}
	for _, r := range g.Rules {
		n, ok := r.keeps()
		if !ok {
			continue
		}
		if !limited || g.All && n > versions || !g.All && n < versions {
			versions, limited = n, true
		}
	}
	return versions, limited
}

// expiry returns the age from which every cell may be collected, even the only one. It returns
// false if the rule keeps some cells permanently.
func (g GC) expiry() (time.Duration, bool) {
	if len(g.Rules) == 0 {
		return g.Age, g.Age > 0
	}
	var expiry time.Duration
	found := 0
	for _, r := range g.Rules {
		age, ok := r.expiry()
		if !ok {
			continue
		}
		if found++; found == 1 || g.All && age > expiry || !g.All && age < expiry {
			expiry = age
		}
	}
	return expiry, found == len(g.Rules) || found > 0 && !g.All
}

// String returns the rule as cbt reads it.
func (g GC) String() string {
	switch {
	case len(g.Rules) > 0:
		operator, words := " || ", make([]string, len(g.Rules))
		if g.All {
			operator = " && "
		}
		for i, r := range g.Rules {
			words[i] = r.String()
			if len(r.Rules) > 0 {
				words[i] = "(" + words[i] + ")"
			}
		}
		return strings.Join(words, operator)
	case g.Versions > 0:
		return "maxversions=" + strconv.Itoa(g.Versions)
	case g.Age > 0:
		return "maxage=" + ageText(g.Age)
	}
	return "never"
}

// Canonical returns one form for all rules that differ only in the arrangement of their operators.
// A rule nested in a rule of its kind is merged into the outer rule. Each part appears once, in a
// fixed order. A rule without operators is returned unchanged.
func (g GC) Canonical() GC {
	if len(g.Rules) == 0 {
		return g
	}
	flat := GC{All: g.All}
	for _, r := range g.Rules {
		if r = r.Canonical(); len(r.Rules) > 0 && r.All == g.All {
			flat.Rules = append(flat.Rules, r.Rules...)
		} else {
			flat.Rules = append(flat.Rules, r)
		}
	}
	slices.SortFunc(flat.Rules, func(a, b GC) int { return strings.Compare(a.String(), b.String()) })
	flat.Rules = slices.CompactFunc(flat.Rules, func(a, b GC) bool { return a.String() == b.String() })
	if len(flat.Rules) == 1 {
		return flat.Rules[0]
	}
	return flat
}

// Same reports whether two rules are equal, regardless of the order of their parts.
func (g GC) Same(other GC) bool { return g.Canonical().String() == other.Canonical().String() }

// ageText returns an age as one number and one unit, the only form that cbt reads.
func ageText(d time.Duration) string {
	for _, unit := range []struct {
		length time.Duration
		name   string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}, {time.Millisecond, "ms"}} {
		if d%unit.length == 0 {
			return strconv.FormatInt(int64(d/unit.length), 10) + unit.name
		}
	}
	return d.String()
}

// familyName matches a family's name, which has at most 64 characters. Source:
// https://cloud.google.com/bigtable/docs/reference/admin/rpc/google.bigtable.admin.v2
var familyName = regexp.MustCompile(`^[-_.a-zA-Z0-9]{1,64}$`)

// ParseFamily reads "<rule>" or "<rule>:<aggregate>", such as "maxversions=1 || maxage=30d" or "never:intsum".
func ParseFamily(name, text string) (Family, error) {
	if err := checkFamilyName(name); err != nil {
		return Family{}, err
	}
	rule, aggregate, typed := strings.Cut(text, ":")
	f := Family{Name: name, Aggregate: Aggregate(strings.TrimSpace(aggregate))}
	switch f.Aggregate {
	case IntSum, IntMin, IntMax, IntHLL:
	default:
		if typed {
			return Family{}, fmt.Errorf("%w: %q is not an aggregate; use intsum, intmin, intmax or inthll", ErrMapping, f.Aggregate)
		}
	}
	p := gcParser{words: gcWords(rule)}
	gc, err := p.union()
	if err == nil && p.at < len(p.words) {
		err = fmt.Errorf("%w: %q is not expected here", ErrMapping, p.words[p.at])
	}
	f.GC = gc
	return f, err
}

func checkFamilyName(name string) error {
	switch {
	case !familyName.MatchString(name):
		return fmt.Errorf("%w: family %q: a name has 1 to 64 letters, digits, and - _ . only", ErrMapping, name)
	case strings.HasPrefix(name, reservedPrefix):
		return fmt.Errorf("%w: family %s: names beginning with %s are reserved", ErrMapping, name, reservedPrefix)
	}
	return nil
}

// gcWords splits a rule into words, operators and parentheses. Like cbt, it also reads the
// operators as words: and, or.
func gcWords(text string) []string {
	for _, sign := range []string{"||", "&&", "(", ")"} {
		text = strings.ReplaceAll(text, sign, " "+sign+" ")
	}
	words := strings.Fields(text)
	for i, w := range words {
		switch w {
		case "or":
			words[i] = "||"
		case "and":
			words[i] = "&&"
		}
	}
	return words
}

type gcParser struct {
	words []string
	at    int
	depth int
}

func (p *gcParser) next(word string) bool {
	if p.at < len(p.words) && p.words[p.at] == word {
		p.at++
		return true
	}
	return false
}

func (p *gcParser) union() (GC, error)        { return p.series("||", false, p.intersection) }
func (p *gcParser) intersection() (GC, error) { return p.series("&&", true, p.limit) }

func (p *gcParser) series(operator string, all bool, element func() (GC, error)) (GC, error) {
	first, err := element()
	if err != nil || p.at >= len(p.words) || p.words[p.at] != operator {
		return first, err
	}
	joined := GC{All: all, Rules: []GC{first}}
	for p.next(operator) {
		g, err := element()
		if err != nil {
			return GC{}, err
		}
		joined.Rules = append(joined.Rules, g)
	}
	for _, r := range joined.Rules {
		if r.never() {
			return GC{}, fmt.Errorf(`%w: "never" cannot be combined with another rule`, ErrMapping)
		}
	}
	return joined, nil
}

func (p *gcParser) limit() (GC, error) {
	if p.next("(") {
		if p.depth++; p.depth > 16 {
			return GC{}, fmt.Errorf("%w: too many parentheses", ErrMapping)
		}
		g, err := p.union()
		p.depth--
		if err == nil && !p.next(")") {
			err = fmt.Errorf("%w: a parenthesis is not closed", ErrMapping)
		}
		return g, err
	}
	if p.at >= len(p.words) {
		return GC{}, fmt.Errorf("%w: expected maxversions=N, maxage=30d or never", ErrMapping)
	}
	word := p.words[p.at]
	p.at++
	name, value, _ := strings.Cut(word, "=")
	switch name {
	case "never":
		if word == "never" {
			return GC{}, nil
		}
	case "maxversions":
		if n, err := strconv.Atoi(value); err == nil && n > 0 && n <= mostVersions {
			return GC{Versions: n}, nil
		}
	case "maxage":
		if age, ok := parseAge(value); ok {
			return GC{Age: age}, nil
		}
	}
	if outOfBounds.MatchString(word) {
		return GC{}, fmt.Errorf("%w: %q is out of range: maxversions is from 1 to %d, maxage from 1ms to 36500d", ErrMapping, word, mostVersions)
	}
	return GC{}, fmt.Errorf("%w: %q is not maxversions=N, maxage=30d or never", ErrMapping, word)
}

// mostVersions is far more than any table needs, and fits the service's field of 32 bits.
const mostVersions = 1 << 30

// outOfBounds matches a limit whose number was rejected.
var outOfBounds = regexp.MustCompile(`^(?:maxversions=[0-9]+|maxage=(?:[0-9]+d|[0-9]+(?:\.[0-9]+)?(?:ns|us|µs|ms|s|m|h)))$`)

// parseAge reads a duration as Go or cbt writes it. Only cbt has days: 30d, 36h, 90m. Bigtable's
// shortest age is a millisecond.
func parseAge(text string) (time.Duration, bool) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.Atoi(days)
		return time.Duration(n) * 24 * time.Hour, err == nil && n > 0 && n <= 36500
	}
	age, err := time.ParseDuration(text)
	return age, err == nil && age >= time.Millisecond
}
