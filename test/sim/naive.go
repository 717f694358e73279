package sim

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"

	"github.com/dynamodb-bigtable/replicator/expression"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// naive is a second mapping, written from the configuration reference, step by step and without
// regard to speed. It shares nothing with package transform except the name of an item, so that the
// checkers do not repeat a bug of the mapping. It supports what the mappings of the examples and
// the simulation need.
type naive struct {
	itemKey func(attribute.Item) string
	rules   []naiveRule
	drop    []string
	own     bool // rows of columns also have their own versions
	ttl     string
	ages    map[string]time.Duration // by family, if cells expire
}

type naiveRule struct {
	when   func(attribute.Item) bool
	ignore bool
	writes []naiveWrite
}

type naiveWrite struct {
	table     string
	row       []naivePart
	columns   []config.Column
	family    string // of a cell, like the following fields
	qualifier []naivePart
	only      []string
	cellAs    string
}

// naiveAge matches the age in a family's rule, such as maxage=30d.
var naiveAge = regexp.MustCompile(`maxage=(\d+)([dh])`)

// newNaive compiles a table's configuration.
func newNaive(entry *config.Table, m *transform.Mapping) *naive {
	n := &naive{itemKey: m.ItemKey, drop: entry.Drop}
	if entry.TTL.Expire == "gc" {
		n.ttl, n.ages = entry.TTL.Attribute, map[string]time.Duration{}
		for _, f := range entry.Families {
			if found := naiveAge.FindStringSubmatch(f.Rule); found != nil {
				hours, _ := strconv.Atoi(found[1])
				if found[2] == "d" {
					hours *= 24
				}
				n.ages[f.Name] = time.Duration(hours) * time.Hour
			}
		}
	}
	only := config.DataFamily
	if len(entry.Families) > 0 {
		only = entry.Families[0].Name
	}
	var key []string
	for _, k := range m.PrimaryKey {
		key = append(key, "{"+k.Name+"}")
	}
	write := func(w config.Write) naiveWrite {
		if w.RowKey == "" {
			w.RowKey = strings.Join(key, "#")
		}
		out := naiveWrite{table: cmp.Or(w.To, entry.To), row: naiveTemplate(w.RowKey), columns: w.Columns, only: w.Cell.Only, cellAs: w.Cell.As}
		if w.Cell.To != "" {
			family, qualifier, _ := strings.Cut(w.Cell.To, ":")
			out.family, out.qualifier = family, naiveTemplate(qualifier)
		} else if len(w.Columns) == 0 {
			out.columns = []config.Column{{Attribute: "*", To: only}}
		}
		return out
	}
	for _, r := range entry.Rules {
		rule := naiveRule{ignore: r.Ignore}
		if r.When != "" {
			// Tests of its own package compare it with a second evaluator.
			when, err := expression.ParseWhen(r.When)
			if err != nil {
				panic(err)
			}
			rule.when = when.Match
		}
		all := r.Write
		if len(all) == 0 {
			all = []config.Write{{To: r.To, RowKey: r.RowKey, Columns: r.Columns, Cell: r.Cell}}
		}
		for _, w := range all {
			if !r.Ignore {
				rule.writes = append(rule.writes, write(w))
			}
		}
		n.rules = append(n.rules, rule)
	}
	if len(n.rules) == 0 {
		n.rules = []naiveRule{{writes: []naiveWrite{write(config.Write{})}}}
	}
	return n
}

// errNaive is the reason why an item cannot be held.
var errNaive = errors.New("cannot be mapped")

func (n *naive) place(item attribute.Item) placement {
	i := slices.IndexFunc(n.rules, func(r naiveRule) bool { return r.when == nil || r.when(item) })
	if i < 0 {
		return placement{astray: true}
	}
	p := placement{ignored: n.rules[i].ignore}
	failed := false
	for _, w := range n.rules[i].writes {
		row, err := naiveText(w.row, item)
		if err != nil || row == "" || len(row) > transform.MaxRowKeyBytes {
			failed, p.astray = true, true
			continue
		}
		s := spot{register: register{rowID: rowID{w.table, row}}, rule: i}
		if n.own || w.family != "" {
			s.owner = n.itemKey(item)
		}
		cells := naiveCells{n: n, w: &w, spot: &s, item: item}
		if err := cells.make(); err != nil {
			failed = true
			if errors.Is(err, errNoColumn) {
				p.astray = true
				continue
			}
		}
		p.spots = append(p.spots, s)
	}
	for i := range p.spots {
		s := &p.spots[i]
		if failed {
			s.content, s.stamps = nil, nil
			continue
		}
		s.held = true
		for _, values := range s.content {
			s.held = s.held && !strings.Contains(values, rejectedValue)
		}
	}
	return p
}

// errNoColumn is the reason why a folded item has no address.
var errNoColumn = fmt.Errorf("%w: no column", errNaive)

// naiveCells collects the cells of one spot.
type naiveCells struct {
	n    *naive
	w    *naiveWrite
	spot *spot
	item attribute.Item
}

func (c *naiveCells) make() error {
	c.spot.content = content{}
	if c.w.family != "" {
		return c.fold()
	}
	named := map[string]config.Column{}
	for _, column := range c.w.columns {
		named[column.Attribute] = column
	}
	// A column that a rule names belongs to that attribute, even if the item lacks it.
	for _, column := range c.w.columns {
		family, qualifier, fixed := strings.Cut(column.To, ":")
		_, own := named[qualifier]
		if _, taken := c.item.Get(qualifier); fixed && taken && !own && named["*"].To == family && !slices.Contains(c.n.drop, qualifier) {
			return errNaive
		}
	}
	for _, a := range c.item.Attributes() {
		to, ok := named[a.Name]
		if !ok {
			if to, ok = named["*"]; !ok || slices.Contains(c.n.drop, a.Name) {
				continue
			}
		}
		if err := c.attribute(to, a); err != nil {
			return err
		}
	}
	return nil
}

func (c *naiveCells) fold() error {
	qualifier, err := naiveText(c.w.qualifier, c.item)
	if err != nil || len(qualifier) > transform.MaxQualifierBytes {
		return errNoColumn
	}
	members := map[string]any{}
	for _, a := range c.item.Attributes() {
		switch {
		case c.w.only != nil && !slices.Contains(c.w.only, a.Name), c.w.only == nil && slices.Contains(c.n.drop, a.Name):
		case c.w.cellAs == "dynamodb_json":
			members[a.Name] = naiveDynamo(a.Value)
		default:
			members[a.Name] = naiveJSON(a.Value)
		}
	}
	return c.set(c.w.family, qualifier, naiveMarshal(members))
}

// set adds a cell. The time to live, if there is one, sets its timestamp.
func (c *naiveCells) set(family, qualifier, value string) error {
	at := family + ":" + qualifier
	if _, twice := c.spot.content[at]; twice || len(qualifier) > transform.MaxQualifierBytes {
		return errNaive
	}
	c.spot.content[at] = value + "\x00"
	if c.n.ttl == "" {
		return nil
	}
	const year9999 = 253402300799
	stamp := int64(year9999) * 1e6
	if v, ok := c.item.Get(c.n.ttl); ok && v.Kind() == attribute.KindN {
		seconds, err := strconv.ParseFloat(v.Text(), 64)
		if err == nil && seconds < year9999 && seconds > float64(simEpoch.AddDate(-5, 0, 0).Unix()) {
			stamp = max(0, int64(seconds)*1e6-c.n.ages[family].Microseconds())
		}
	}
	c.spot.stamp(at, stamp)
	return nil
}

func (c *naiveCells) attribute(to config.Column, a attribute.Attribute) error {
	family, qualifier, fixed := strings.Cut(to.To, ":")
	name := a.Name
	if fixed {
		name = qualifier
	}
	text := ""
	switch to.As {
	case "", "text":
		text = naivePlain(a.Value)
		if to.As == "text" && a.Value.Kind() == attribute.KindB {
			text = base64.StdEncoding.EncodeToString([]byte(a.Value.Text()))
		}
	case "json":
		text = naiveMarshal(naiveJSON(a.Value))
	case "dynamodb_json":
		text = naiveMarshal(naiveDynamo(a.Value))
	case "int64", "counter":
		number, err := strconv.ParseInt(a.Value.Text(), 10, 64)
		if err != nil || a.Value.Kind() != attribute.KindN {
			return errNaive
		}
		text = string(binary.BigEndian.AppendUint64(nil, uint64(number)))
	default:
		panic("sim: the naive mapping does not know as: " + to.As)
	}
	if err := c.set(family, name, text); err != nil {
		return err
	}
	if to.As == "counter" {
		delete(c.spot.stamps, family+":"+name)
		c.spot.stamp(family+":"+name, 0)
	}
	return nil
}

// naivePlain encodes a value without `as`.
func naivePlain(v attribute.Value) string {
	switch v.Kind() {
	case attribute.KindS, attribute.KindN, attribute.KindB:
		return v.Text()
	}
	return naiveMarshal(naiveJSON(v))
}

func naiveJSON(v attribute.Value) any {
	switch v.Kind() {
	case attribute.KindS:
		return v.Text()
	case attribute.KindN:
		return json.Number(v.Text())
	case attribute.KindB:
		return []byte(v.Text()) // base64
	case attribute.KindBOOL:
		return v.Bool()
	case attribute.KindNULL:
		return nil
	case attribute.KindM:
		members := map[string]any{}
		for _, m := range v.Members() {
			members[m.Name] = naiveJSON(m.Value)
		}
		return members
	}
	elements := []any{}
	for _, e := range v.Elements() {
		elements = append(elements, naiveJSON(e))
	}
	return elements
}

// naiveDynamo returns a value with its type, as in DynamoDB's JSON.
func naiveDynamo(v attribute.Value) any {
	var inner any
	switch v.Kind() {
	case attribute.KindNULL:
		inner = true
	case attribute.KindS, attribute.KindN, attribute.KindB, attribute.KindBOOL:
		if inner = naiveJSON(v); v.Kind() == attribute.KindN {
			inner = v.Text()
		}
	case attribute.KindM:
		members := map[string]any{}
		for _, m := range v.Members() {
			members[m.Name] = naiveDynamo(m.Value)
		}
		inner = members
	default:
		elements := []any{}
		for _, e := range v.Elements() {
			typed := naiveDynamo(e).(map[string]any)
			if v.Kind() == attribute.KindL {
				elements = append(elements, typed)
				continue
			}
			elements = append(elements, typed[e.Kind().String()])
		}
		inner = elements
	}
	return map[string]any{v.Kind().String(): inner}
}

func naiveMarshal(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
