package exports

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// Record is one line of a data file.
type Record struct {
	// Keys is the key of a window's record. In a full export it has no attributes.
	Keys attribute.Item
	// Old is the image before the window, if the item existed and the view includes it. New is the
	// image at the end of the window, or the item of a full export. It has no attributes if the
	// item was deleted.
	Old, New attribute.Item
	// Written is when a window's item was last written, to the microsecond; zero in a full export.
	Written time.Time
}

// The members of a line.
const (
	theItem = iota
	theKeys
	theMetadata
	theOldImage
	theNewImage
)

var memberNames = [...]string{theItem: "Item", theKeys: "Keys", theMetadata: "Metadata", theOldImage: "OldImage", theNewImage: "NewImage"}

// members are the members of a line that have names which the parser knows.
type members [len(memberNames)]attribute.Item

// ParseItem parses a line of a full export. Its error contains no item data, and neither does an
// error of ParseChange.
func ParseItem(line []byte) (Record, error) { return parseItem(parse(line, itemNames)) }

// ParseChange parses a line of an incremental export.
func ParseChange(line []byte) (Record, error) { return parseChange(parse(line, memberNames[:])) }

// itemNames are the names of a full export. A line with keys gets an error of its own.
var itemNames = memberNames[:theKeys+1]

func parseItem(m members, err error) (Record, error) {
	switch {
	case err != nil:
		return Record{}, err
	case m[theItem].Exists():
		return Record{New: m[theItem]}, nil
	case m[theKeys].Exists():
		return Record{}, errors.New("this line is a change, as in an incremental export, but the export is a full one")
	}
	return Record{}, errors.New(`the line has no "Item"`)
}

func parseChange(m members, err error) (Record, error) {
	if err != nil {
		return Record{}, err
	}
	r := Record{Keys: m[theKeys], Old: m[theOldImage], New: m[theNewImage]}
	if !r.Keys.Exists() {
		if m[theItem].Exists() {
			return Record{}, errors.New("this line is an item, as in a full export, but the export is incremental")
		}
		return Record{}, errors.New(`the line has no "Keys"`)
	}
	micros, _ := m[theMetadata].Get("WriteTimestampMicros")
	at, err := strconv.ParseInt(micros.Text(), 10, 64)
	if err != nil || at <= 0 || micros.Kind() != attribute.KindN {
		return Record{}, errors.New(`the line has no "WriteTimestampMicros"`)
	}
	r.Written = time.UnixMicro(at).UTC()
	for _, image := range []attribute.Item{r.Old, r.New} {
		for _, key := range r.Keys.Attributes() {
			if v, ok := image.Get(key.Name); image.Exists() && (!ok || !v.Equal(key.Value)) {
				return Record{}, errors.New("an image has another key than the line")
			}
		}
	}
	return r, nil
}

// parse reads an object whose members all have the form of items. A member with another name is an
// error, because an unknown form may have another meaning.
func parse(line []byte, names []string) (members, error) {
	p := newLineParser(names)
	p.scanner.Reset(string(line)) // a copy, because the items keep referring to it
	if p.read() && p.scanner.End() {
		return p.found, nil
	}
	return p.strictly(line)
}

// lineParser reads lines that mostly have the same names in the same order. Their text is one
// string, because that is faster than a string for each line.
type lineParser struct {
	scanner attribute.Scanner
	names   []string // the names that are allowed
	member  func(name string) bool
	found   members
	seen    [len(memberNames)]bool
}

func newLineParser(names []string) *lineParser {
	p := &lineParser{names: names}
	p.member = p.readMember
	return p
}

// read reads one line. It returns false for a line that only strictly can read, if at all.
func (p *lineParser) read() bool {
	p.found, p.seen = members{}, [len(memberNames)]bool{}
	return p.scanner.Object(p.member)
}

func (p *lineParser) readMember(name string) (ok bool) {
	i := slices.Index(p.names, name)
	if i < 0 || p.seen[i] {
		return false
	}
	p.seen[i] = true
	if i == theKeys || i == theMetadata {
		p.found[i], ok = p.scanner.Keys()
	} else {
		p.found[i], ok = p.scanner.Item()
	}
	return ok
}

// strictly reads a line that read does not accept, or returns an error that says what is wrong.
func (p *lineParser) strictly(line []byte) (members, error) {
	all, err := parseStrictly(line)
	if err != nil {
		return members{}, err
	}
	var found members
	for name, item := range all {
		i := slices.Index(p.names, name)
		if i < 0 {
			return members{}, errors.New("the line has a member of unknown name")
		}
		found[i] = item
	}
	return found, nil
}

// parseStrictly reads a line that the fast path does not accept, or returns an error that says what
// is wrong.
func parseStrictly(line []byte) (map[string]attribute.Item, error) {
	raw := map[string]json.RawMessage{}
	object := json.NewDecoder(bytes.NewReader(line))
	broken := errors.New("the line is not a JSON object, or it is cut short")
	if begin, err := object.Token(); err != nil || begin != json.Delim('{') {
		return nil, broken
	}
	for object.More() {
		name, err := object.Token()
		text, ok := name.(string)
		if err != nil || !ok {
			return nil, broken
		}
		if raw[text] != nil {
			return nil, errors.New("a member of the line occurs twice")
		}
		var member json.RawMessage
		if object.Decode(&member) != nil {
			return nil, broken
		}
		raw[text] = member
	}
	if _, err := object.Token(); err != nil { // the closing brace
		return nil, broken
	}
	if _, err := object.Token(); err != io.EOF {
		return nil, broken
	}
	members := make(map[string]attribute.Item, len(raw))
	for _, name := range sorted(raw) {
		item, err := attribute.UnmarshalItem(raw[name])
		if err != nil {
			return nil, fmt.Errorf("a member of the line: %w", err)
		}
		members[name] = item
	}
	return members, nil
}

func sorted(members map[string]json.RawMessage) []string { return slices.Sorted(maps.Keys(members)) }
