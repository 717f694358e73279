// Package starter writes a first configuration from existing tables. Only the functions that read
// the tables send requests.
//
// Users are expected to read and change a proposal. The program accepts every proposal. Proposed
// rules that are invalid, or that do not map every sampled item, are left out.
package starter

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Table holds the data about a source table from which a proposal is made.
type Table struct {
	Name       string
	PrimaryKey []transform.KeyAttribute
	// TimeToLive is the time-to-live attribute; "" if items do not expire, or if it is unknown.
	TimeToLive        string
	TimeToLiveUnknown bool
	// Stream is the reason why the table's stream cannot be read, with the fix; nil if the stream
	// can be read.
	Stream *diag.Error
	Count  int64            // number of items, by DynamoDB's own count
	Items  []attribute.Item // a sample
}

// Bounds for recognising types of items. With more types than this, prefixes of keys are probably
// not types, but for example names of customers.
const (
	mostTypes   = 12
	leastOfType = 3 // minimum number of distinct keys of a type
)

// typePrefix matches a prefix of keys that looks like the name of a type. typeName matches a whole
// sort key that looks like the name of a type. Names match only if they consist of letters, so that
// identifiers do not match.
var (
	typePrefix = regexp.MustCompile(`^[A-Za-z][A-Za-z_-]{1,30}[#|:]`)
	typeName   = regexp.MustCompile(`^[A-Za-z][A-Za-z_-]{1,30}$`)
	simpleName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// role is the meaning of the sort key of a type's items.
type role uint8

const (
	sortSame   role = iota // equal to the partition key
	sortName               // always the same name, such as META
	sortPrefix             // a name and a varying suffix, such as COMMENT#1
)

// itemType is a group of items with keys of the same form.
type itemType struct {
	prefix string // prefix of the partition key, with its delimiter
	role   role
	text   string // the name, or the prefix with its delimiter
}

// alone reports whether each partition key has only one item of the type.
func (t itemType) alone() bool { return t.role != sortPrefix }

// single returns the types of items in a table, if the forms of their keys show several types. If
// all keys have the same form, such as eu#17 and order#3, it returns none.
func (t *Table) single() []itemType {
	if len(t.PrimaryKey) != 2 {
		return nil
	}
	for _, k := range t.PrimaryKey {
		if k.Type != attribute.KindS || !simpleName.MatchString(k.Name) {
			return nil
		}
	}
	keys := map[itemType]map[string]bool{} // the parts of keys that differ, by type
	prefixes := map[string]bool{}
	for _, item := range t.Items {
		found, different, ok := t.typeOf(item)
		if !ok {
			continue
		}
		if keys[found] == nil {
			keys[found] = map[string]bool{}
		}
		keys[found][different] = true
	}
	maps.DeleteFunc(keys, func(_ itemType, different map[string]bool) bool { return len(different) < leastOfType })
	for found := range keys {
		prefixes[found.prefix] = true
	}
	if len(keys) < 2 || len(keys) > mostTypes || len(prefixes) > mostTypes/2 {
		return nil
	}
	return slices.SortedFunc(maps.Keys(keys), func(a, b itemType) int {
		return cmp.Or(cmp.Compare(a.prefix, b.prefix), cmp.Compare(a.role, b.role), cmp.Compare(a.text, b.text))
	})
}

// typeOf returns the type of an item, and the part of its keys that differs from other items of the
// type.
func (t *Table) typeOf(item attribute.Item) (found itemType, different string, ok bool) {
	p, _ := item.Get(t.PrimaryKey[0].Name)
	s, _ := item.Get(t.PrimaryKey[1].Name)
	partition, sort := p.Text(), s.Text()
	found.prefix = typePrefix.FindString(partition)
	if found.prefix == "" {
		return found, "", false
	}
	switch prefix := typePrefix.FindString(sort); {
	case sort == partition:
		return found, partition, true
	case prefix != "" && prefix != sort:
		found.role, found.text = sortPrefix, prefix
		return found, sort, true
	case typeName.MatchString(sort):
		found.role, found.text = sortName, sort
		return found, partition, true
	}
	return found, "", false
}

// word derives a name for rules and families from a prefix or a sort key.
func word(text string) string {
	return strings.ToLower(strings.TrimRight(text, "#|:"))
}

// leastHot is the minimum number of distinct partition keys from which hot judges.
const leastHot = 10

// Forms of keys that would sort rows by time.
var (
	dateText  = regexp.MustCompile(`^(19|20)[0-9]{2}[-/.]?[01][0-9]([-/.T ]|[0-9]{2}|$)`)
	ulidText  = regexp.MustCompile(`^[0-7][0-9A-HJKMNP-TV-Z]{25}$`)
	wholeText = regexp.MustCompile(`^(0|[1-9][0-9]{0,17})$`)
)

// hot returns why all new rows would go to the end of the table; "" if the sampled partition keys
// do not suggest that.
func (t *Table) hot() string {
	values := map[string]bool{}
	for _, item := range t.Items {
		if v, ok := item.Get(t.PrimaryKey[0].Name); ok && v.Kind() != attribute.KindB {
			values[v.Text()] = true
		}
	}
	all := func(form *regexp.Regexp) bool {
		for text := range values {
			if !form.MatchString(text) {
				return false
			}
		}
		return true
	}
	switch {
	case len(values) < leastHot || !simpleName.MatchString(t.PrimaryKey[0].Name):
		return ""
	case all(wholeText):
		return hotNumbers(slices.Collect(maps.Keys(values)), max(int64(len(values)), t.Count))
	case t.PrimaryKey[0].Type != attribute.KindS:
		return ""
	case all(dateText):
		return "begins with a date"
	case all(ulidText):
		return "looks like a ULID, which begins with a time"
	}
	return ""
}
