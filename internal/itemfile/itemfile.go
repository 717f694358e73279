// Package itemfile reads items from files. The format is DynamoDB JSON, with any number of
// documents. A document is an item, an item in "Item" (as in exports and `aws dynamodb get-item`),
// items in "Items" (as in `aws dynamodb scan`), or a list. As in exports, a file may be compressed
// with gzip. It may be UTF-16 or UTF-32, and have byte order marks. Other known formats are refused
// by name, such as Amazon Ion, incremental exports, answers of BatchGetItem, and JSON without
// DynamoDB's types.
//
// Source: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/S3DataExport.Output.html
package itemfile

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// maxBytes is the maximum size of a file, uncompressed.
const maxBytes = 64 << 20

// FormatError is returned for a file in a known format that this package does not read. It contains
// no item data.
type FormatError struct {
	What string // the format of the file
	Fix  string
}

func (e *FormatError) Error() string { return e.What }

// ErrTooLarge is returned for a file larger than maxBytes.
var ErrTooLarge = fmt.Errorf("it is larger than %d MiB", maxBytes>>20)

// Read returns the first items of a file, or all of them if `limit` is 0. It reads only as much of
// the file as it needs. So with one item per line and a small limit, the file may have any size. An
// error contains no item data.
func Read(in io.Reader, limit int) ([]attribute.Item, error) {
	var items []attribute.Item
	entry := 0
	for document, err := range Documents(in) {
		if err != nil {
			return nil, err
		}
		entry++
		found, err := itemsOf(document, fmt.Sprintf("entry %d", entry))
		if err != nil {
			return nil, err
		}
		if items = append(items, found...); limit > 0 && len(items) >= limit {
			return items[:limit], nil
		}
	}
	return items, nil
}

// Documents returns the JSON values of a file, and stops at the first error. The error names the
// entry, but contains no data of the entry.
func Documents(in io.Reader) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		text, err := Text(in)
		if err != nil {
			yield(nil, err)
			return
		}
		counted := &io.LimitedReader{R: &jsonText{in: text}, N: maxBytes + 1}
		decoder := json.NewDecoder(counted)
		for entry := 1; ; entry++ {
			var document json.RawMessage
			err := decoder.Decode(&document)
			switch {
			case counted.N == 0 && entry == 1:
				err = &FormatError{ErrTooLarge.Error() + " in one entry", "write one item a line, for example: jq -c '.Items[]' FILE"}
			case counted.N == 0:
				err = ErrTooLarge
			case err == io.EOF:
				return
			case err != nil:
				err = unreadable(entry, err)
			}
			if !yield(document, err) || err != nil {
				return
			}
		}
	}
}

// unreadable explains why an entry cannot be read.
func unreadable(entry int, err error) error {
	var known *FormatError
	var packing flate.CorruptInputError
	switch {
	case errors.As(err, &known):
		return fmt.Errorf("entry %d: %w", entry, known)
	case errors.Is(err, gzip.ErrChecksum), errors.Is(err, gzip.ErrHeader), errors.As(err, &packing):
		return errors.New("it is damaged, so gzip cannot decompress it")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("entry %d is cut off, because the file ends within it", entry)
	}
	return fmt.Errorf("entry %d is not JSON", entry)
}

// itemsOf returns the items of one document, or of one element of a list. The argument `place`
// names the document in errors.
func itemsOf(document json.RawMessage, place string) ([]attribute.Item, error) {
	if isList(document) {
		return elements(document, place)
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(document, &members) == nil {
		if incremental(members) {
			return nil, fmt.Errorf("%s: %w", place, &FormatError{"it is an incremental export, which contains changes",
				"use a full export: aws dynamodb export-table-to-point-in-time --export-type FULL_EXPORT"})
		}
		if item, err := attribute.UnmarshalItem(members["Item"]); err == nil && item.Exists() {
			return []attribute.Item{item}, nil
		}
		if isList(members["Items"]) {
			return elements(members["Items"], place)
		}
	}
	item, err := attribute.UnmarshalItem(document)
	switch {
	case err == nil && !item.Exists():
		err = errors.New("an item without attributes")
	case err != nil && answer(members) != nil:
		err = answer(members)
	case err != nil && untyped(members):
		err = &FormatError{"JSON without DynamoDB's types", `give each attribute its type, as aws dynamodb get-item prints it: {"id":{"S":"a"},"n":{"N":"1"}}`}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", place, err)
	}
	return []attribute.Item{item}, nil
}

// answer returns an error for a document that is not an item, but holds items of several tables, or
// changes. It returns nil for other documents.
func answer(members map[string]json.RawMessage) *FormatError {
	var tables map[string]json.RawMessage
	switch responses, records := members["Responses"], members["Records"]; {
	case isList(responses):
		return &FormatError{"it is the answer of TransactGetItems, with the items below Responses", "extract the items: jq '.Responses[]' FILE"}
	case isList(records):
		return &FormatError{"it is a stream event, which contains changes", "extract the images: jq '.Records[].dynamodb.NewImage' FILE"}
	case json.Unmarshal(responses, &tables) == nil && len(tables) > 0:
		for _, items := range tables {
			if !isList(items) {
				return nil
			}
		}
		return &FormatError{"it is the answer of BatchGetItem, with the items below the names of their tables", "extract the items of one table: jq '.Responses.TABLE' FILE"}
	}
	return nil
}

// incremental reports whether a document is a line of an incremental export.
func incremental(members map[string]json.RawMessage) bool {
	var metadata struct {
		WriteTimestampMicros json.RawMessage
	}
	return members["Keys"] != nil && json.Unmarshal(members["Metadata"], &metadata) == nil && metadata.WriteTimestampMicros != nil
}

// isList reports whether a document is a list. Neither an item nor the value of an attribute is a
// list.
func isList(document json.RawMessage) bool {
	return bytes.HasPrefix(bytes.TrimSpace(document), []byte("["))
}

// elements returns the items of a list.
func elements(list json.RawMessage, place string) ([]attribute.Item, error) {
	var documents []json.RawMessage
	if err := json.Unmarshal(list, &documents); err != nil {
		return nil, fmt.Errorf("%s is not JSON", place)
	}
	var items []attribute.Item
	for i, document := range documents {
		found, err := itemsOf(document, fmt.Sprintf("%s, item %d", place, i+1))
		if err != nil {
			return nil, err
		}
		items = append(items, found...)
	}
	return items, nil
}

// untyped reports whether no attribute of a document has a type. Such a document is not DynamoDB
// JSON.
func untyped(members map[string]json.RawMessage) bool {
	for _, text := range members {
		var value map[string]json.RawMessage
		if json.Unmarshal(text, &value) != nil {
			continue
		}
		for kind := attribute.KindS; kind <= attribute.KindBS; kind++ {
			if _, ok := value[kind.String()]; ok {
				return false
			}
		}
	}
	return len(members) > 0
}
