// Package starter writes a first configuration from existing tables. It is pure: who reads the
// tables hands it what was read.
//
// What it proposes is meant to be read and changed. Every proposal that it makes is one that the program accepts: rules that do not
// compile, or that do not map every sampled item, are left out.
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

// Table is what is known of a source table.
type Table struct {
	Name       string
	PrimaryKey []transform.KeyAttribute
	// TimeToLive is the attribute by which items expire; "" if they do not, or if that is not known.
	TimeToLive        string
	TimeToLiveUnknown bool
	// Stream is why the table's stream cannot be read, and what to do; nil if it can.
	Stream *diag.Error
	Count  int64            // of items, by DynamoDB's own count
	Items  []attribute.Item // a sample
}

// Bounds of what is taken for a type of items. With more types, prefixes are rather names of customers or the like.
const (
	mostTypes   = 12
	leastOfType = 3 // different keys
)

// typePrefix is a prefix of keys that looks like the name of a type, and typeName a whole sort key that does: letters alone, so
// that no identifier is taken for one.
var (
	typePrefix = regexp.MustCompile(`^[A-Za-z][A-Za-z_-]{1,30}[#|:]`)
	typeName   = regexp.MustCompile(`^[A-Za-z][A-Za-z_-]{1,30}$`)
	simpleName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// role says what the sort key of a type's items is.
type role uint8

const (
	sortSame   role = iota // the partition key once more
	sortName               // always the same name, such as META
	sortPrefix             // a name and what follows it, such as COMMENT#1
)

// itemType is a group of items whose keys look alike.
type itemType struct {
	prefix string // of the partition key, with its delimiter
	role   role
	text   string // the name, or the prefix with its delimiter
}

// alone reports whether there is one such item for each partition key.
func (t itemType) alone() bool { return t.role != sortPrefix }

// single finds the types of a table that holds several; none if it does not look like one: keys of one form alone, such as eu#17 and
// order#3, are those of an ordinary table.
func (t *Table) single() []itemType {
	if len(t.PrimaryKey) != 2 {
		return nil
	}
	for _, k := range t.PrimaryKey {
		if k.Type != attribute.KindS || !simpleName.MatchString(k.Name) {
			return nil
		}
	}
	keys := map[itemType]map[string]bool{} // what the items of the type have different
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

// typeOf is the type of an item, and what tells it from others of its type.
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

// word is the name of a prefix or sort key as rules and families have it.
func word(text string) string {
	return strings.ToLower(strings.TrimRight(text, "#|:"))
}

// leastHot is how many different partition keys it takes to judge them.
const leastHot = 10

// Forms of text by which rows would come in the order of time.
var (
	dateText  = regexp.MustCompile(`^(19|20)[0-9]{2}[-/.]?[01][0-9]([-/.T ]|[0-9]{2}|$)`)
	ulidText  = regexp.MustCompile(`^[0-7][0-9A-HJKMNP-TV-Z]{25}$`)
	wholeText = regexp.MustCompile(`^(0|[1-9][0-9]{0,17})$`)
)

// hot says why new rows would come one behind the other, if the partition keys of the sample look like it; "" if not.
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
