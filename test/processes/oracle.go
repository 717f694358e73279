package processes

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"cloud.google.com/go/bigtable"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// The published layout of rows, written down independently, so that the program does not judge
// itself.
const (
	dataFamily    = "d"
	liveFamily    = "_cdc"
	goneFamily    = "_cdc_gone"
	versionColumn = "v"
	markerColumn  = "b"
	witnessPrefix = "\xff_cdc~witness~"
)

// oracle compares the stores. It remembers the version of every row, because a version never falls
// and a row never loses it (I2).
type oracle struct {
	source   *dynamodb.Client
	target   *bigtable.Client
	versions map[string]string // by table and row
}

func newOracle(source *dynamodb.Client, target *bigtable.Client) *oracle {
	return &oracle{source: source, target: target, versions: map[string]string{}}
}

// difference is one row in which the stores differ.
type difference struct {
	table, key string // the key is a hash of the row key: keys are item data
	what       string // names of attributes, never values
}

// comparison is the outcome for one table.
type comparison struct {
	items, cells, tombstones int
	differences              []difference
	// broken holds the differences that waiting cannot resolve.
	broken []difference
}

func (c *comparison) differ(t *table, row, format string, args ...any) {
	c.differences = append(c.differences, differenceOf(t, row, format, args...))
}

func differenceOf(t *table, row, format string, args ...any) difference {
	sum := sha256.Sum256([]byte(row))
	return difference{t.name, hex.EncodeToString(sum[:12]), fmt.Sprintf(format, args...)}
}

// uncounted is for a table whose items no writer counts.
const uncounted = -1

// compare reads a table and its rows completely. No process may write the source meanwhile. Live is
// the number of items by the writers' count, or uncounted. If the source disagrees with it, compare
// returns an error, because the source cannot be trusted then.
func (o *oracle) compare(ctx context.Context, t *table, live int) (*comparison, error) {
	expected, err := o.expected(ctx, t)
	if err != nil {
		return nil, err
	}
	if live == uncounted {
		live = len(expected)
	}
	if len(expected) != live {
		return nil, fmt.Errorf("table %s has %d items, its writers made %d", t.name, len(expected), live)
	}
	c := &comparison{items: len(expected)}
	witnesses, rows := 0, 0
	found := map[string]bool{}
	err = o.target.Open(t.name).ReadRows(ctx, bigtable.InfiniteRange(""), func(row bigtable.Row) bool {
		key := row.Key()
		if strings.HasPrefix(key, witnessPrefix+t.name) {
			witnesses++
			return true
		}
		found[key] = true
		o.follow(c, t, row)
		cells, exists := expected[key]
		if !exists {
			c.tombstones++
			if what := notGone(row); what != "" {
				c.differ(t, key, "the source has no such item: %s", what)
			}
			return true
		}
		rows++
		c.cells += len(cells)
		if what := differs(cells, row); what != "" {
			c.differ(t, key, "%s", what)
		}
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("read the rows of %s: %w", t.name, err)
	}
	for key := range expected {
		if !found[key] {
			c.differ(t, key, "the row is missing")
		}
	}
	for name := range o.versions {
		if source, key, _ := strings.Cut(name, "/"); source == t.name && !found[key] {
			c.broken = append(c.broken, differenceOf(t, key, "the row had a version and is gone"))
		}
	}
	if witnesses != 1 {
		c.differ(t, "witness", "%d witness rows", witnesses)
	}
	if rows != live {
		c.differ(t, "count", "%d rows for %d items", rows, live)
	}
	return c, nil
}

// follow checks that the version of a row does not fall.
func (o *oracle) follow(c *comparison, t *table, row bigtable.Row) {
	version := ""
	for _, family := range []string{liveFamily, goneFamily} {
		for _, cell := range row[family] {
			if cell.Column != family+":"+markerColumn {
				version = max(version, string(cell.Value))
			}
		}
	}
	name := t.name + "/" + row.Key()
	if version < o.versions[name] {
		c.broken = append(c.broken, differenceOf(t, row.Key(), "the version fell from %s to %s", o.versions[name], version))
		return
	}
	o.versions[name] = version
}

// expected reads the source and returns the expected cells by row.
func (o *oracle) expected(ctx context.Context, t *table) (map[string]map[string]string, error) {
	out := map[string]map[string]string{}
	pages := dynamodb.NewScanPaginator(o.source, &dynamodb.ScanInput{TableName: &t.name, ConsistentRead: aws.Bool(true)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("read table %s: %w", t.name, err)
		}
		for _, it := range page.Items {
			cells := map[string]string{}
			for name, v := range it {
				cells[name] = cell(v)
			}
			out[t.row(it)] = cells
		}
	}
	return out, nil
}

// differs returns how a row differs from the expected cells, or "".
func differs(want map[string]string, row bigtable.Row) string {
	wrong := strangers(row)
	have := map[string]int{}
	for _, c := range row[dataFamily] {
		name := strings.TrimPrefix(c.Column, dataFamily+":")
		text, expected := want[name]
		switch have[name]++; {
		case !expected:
			wrong = append(wrong, "surplus "+name)
		case have[name] > 1:
			wrong = append(wrong, "several cells in "+name)
		case text != string(c.Value):
			wrong = append(wrong, "other value in "+name)
		}
	}
	for name := range want {
		if have[name] == 0 {
			wrong = append(wrong, "no "+name)
		}
	}
	if !one(row[liveFamily], liveFamily) || len(row[goneFamily]) > 0 {
		wrong = append(wrong, "its versions are not those of a live row")
	}
	slices.Sort(wrong)
	return strings.Join(wrong, ", ")
}

// notGone returns what a row holds besides a tombstone, or "".
func notGone(row bigtable.Row) string {
	wrong := strangers(row)
	if len(row[dataFamily]) > 0 {
		wrong = append(wrong, "it has cells")
	}
	if len(row[liveFamily]) > 0 || !one(row[goneFamily], goneFamily) {
		wrong = append(wrong, "its versions are not those of a tombstone")
	}
	return strings.Join(wrong, ", ")
}

// one reports whether a family holds exactly one version. A live row that only a fast load has
// copied holds the load's marker instead.
func one(cells []bigtable.ReadItem, family string) bool {
	return len(cells) == 1 && (cells[0].Column == family+":"+versionColumn || family == liveFamily && cells[0].Column == family+":"+markerColumn)
}

// strangers lists the families that a row must not have.
func strangers(row bigtable.Row) []string {
	var out []string
	for family := range row {
		if family != dataFamily && family != liveFamily && family != goneFamily {
			out = append(out, "family "+family)
		}
	}
	return out
}

// cell returns an attribute's cell under the default mapping: S, N and B as they are, all others as
// JSON.
func cell(v value) string {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return v.Value
	case *types.AttributeValueMemberB:
		return string(v.Value)
	default:
		return jsonOf(v)
	}
}

// jsonOf encodes a value without spaces, with sorted members and sets, all digits of numbers, and
// binaries in base64.
func jsonOf(v value) string {
	list := func(open string, texts []string, end string) string { return open + strings.Join(texts, ",") + end }
	var texts []string
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return quote(v.Value)
	case *types.AttributeValueMemberN:
		return canonical(v.Value)
	case *types.AttributeValueMemberB:
		return quote(base64.StdEncoding.EncodeToString(v.Value))
	case *types.AttributeValueMemberBOOL:
		return fmt.Sprint(v.Value)
	case *types.AttributeValueMemberNULL:
		return "null"
	case *types.AttributeValueMemberSS:
		for _, s := range slices.Sorted(slices.Values(v.Value)) {
			texts = append(texts, quote(s))
		}
	case *types.AttributeValueMemberNS:
		for _, n := range slices.SortedFunc(slices.Values(v.Value), func(a, b string) int { return exact(a).Cmp(exact(b)) }) {
			texts = append(texts, canonical(n))
		}
	case *types.AttributeValueMemberBS:
		for _, b := range slices.SortedFunc(slices.Values(v.Value), bytes.Compare) {
			texts = append(texts, quote(base64.StdEncoding.EncodeToString(b)))
		}
	case *types.AttributeValueMemberL:
		for _, e := range v.Value {
			texts = append(texts, jsonOf(e))
		}
	case *types.AttributeValueMemberM:
		names := []string{}
		for name := range v.Value {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			texts = append(texts, quote(name)+":"+jsonOf(v.Value[name]))
		}
		return list("{", texts, "}")
	default:
		panic(fmt.Sprintf("an attribute of the unknown type %T", v))
	}
	return list("[", texts, "]")
}

// quote returns a JSON string with minimal escaping. The written texts contain no U+2028 or U+2029,
// which the encoder also escapes.
func quote(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic(err) // encoding a string never fails
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// exact returns a number's exact value.
func exact(text string) *big.Rat {
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		panic("DynamoDB gave a number that is none")
	}
	return r
}

// canonical returns a number in plain decimals without superfluous zeros or signs. DynamoDB's
// smallest magnitude is 1e-130, and a number has at most 38 digits. Source:
// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/HowItWorks.NamingRulesDataTypes.html
func canonical(text string) string {
	const places = 130 + 38
	s := exact(text).FloatString(places)
	return strings.TrimRight(strings.TrimRight(s, "0"), ".")
}
