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

// ParseItem parses a line of a full export. Its error contains no item data, and neither does an
// error of ParseChange.
func ParseItem(line []byte) (Record, error) {
	members, err := parse(line, "Item")
	if err != nil {
		return Record{}, err
	}
	r := Record{New: members["Item"]}
	switch {
	case r.New.Exists():
		return r, nil
	case members["Keys"].Exists():
		return Record{}, errors.New("this line is a change, as in an incremental export, but the export is a full one")
	}
	return Record{}, errors.New(`the line has no "Item"`)
}

// ParseChange parses a line of an incremental export.
func ParseChange(line []byte) (Record, error) {
	members, err := parse(line, "Metadata", "Keys", "OldImage", "NewImage")
	if err != nil {
		return Record{}, err
	}
	r := Record{Keys: members["Keys"], Old: members["OldImage"], New: members["NewImage"]}
	if !r.Keys.Exists() {
		if members["Item"].Exists() {
			return Record{}, errors.New("this line is an item, as in a full export, but the export is incremental")
		}
		return Record{}, errors.New(`the line has no "Keys"`)
	}
	micros, _ := members["Metadata"].Get("WriteTimestampMicros")
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
func parse(line []byte, names ...string) (map[string]attribute.Item, error) {
	members := make(map[string]attribute.Item, len(names))
	s := attribute.NewScanner(string(line)) // a copy, because the items keep referring to it
	read := s.Object(func(name string) bool {
		_, twice := members[name]
		item, ok := s.Item()
		members[name] = item
		return ok && !twice
	})
	if !read || !s.End() {
		var err error
		if members, err = parseStrictly(line); err != nil {
			return nil, err
		}
	}
	for name := range members {
		if !slices.Contains(names, name) && !slices.Contains([]string{"Item", "Keys"}, name) {
			return nil, errors.New("the line has a member of unknown name")
		}
	}
	return members, nil
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
