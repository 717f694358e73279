// Package itemfile reads items from files in DynamoDB's JSON: one after the other, plain, or below "Item" as exports to S3 and
// `aws dynamodb get-item` have them, or below "Items" as `aws dynamodb scan` prints them. Files may be packed by gzip, as those of exports
// are. Amazon Ion, the other format of exports, and incremental exports are refused by name.
//
// Source: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/S3DataExport.Output.html
package itemfile

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// maxBytes bounds what is read of a file, unpacked.
const maxBytes = 64 << 20

// FormatError is returned for a file that is known for what it is, and cannot be read. It holds nothing of the items.
type FormatError struct {
	What string // what the file is
	Fix  string
}

func (e *FormatError) Error() string { return e.What }

// ErrTooLarge is returned for what goes on behind maxBytes.
var ErrTooLarge = fmt.Errorf("it has more than %d MiB", maxBytes>>20)

// plain gives the text of a file, unpacked if it is packed.
func plain(in io.Reader) (*bufio.Reader, error) {
	text := bufio.NewReader(in)
	if begins(text, "\x1f\x8b") {
		unpacked, err := gzip.NewReader(text)
		if err != nil {
			return nil, errors.New("it is damaged: it begins like a gzip file, and is none")
		}
		text = bufio.NewReader(unpacked)
	}
	if begins(text, "$ion_1_0") || begins(text, "\xe0\x01\x00\xea") {
		return nil, &FormatError{"it is Amazon Ion, and items are read in DynamoDB's JSON alone",
			"export again in the other format: aws dynamodb export-table-to-point-in-time --export-format DYNAMODB_JSON"}
	}
	return text, nil
}

func begins(text *bufio.Reader, magic string) bool {
	head, _ := text.Peek(len(magic)) // a shorter file begins otherwise
	return string(head) == magic
}

// Read gives the first items of a file, all of them if limit is 0. It reads no further than it must, so that a small limit
// serves for a file of any size. An error is without item data.
func Read(in io.Reader, limit int) ([]attribute.Item, error) {
	text, err := plain(in)
	if err != nil {
		return nil, err
	}
	counted := &io.LimitedReader{R: text, N: maxBytes + 1}
	decoder := json.NewDecoder(counted)
	var items []attribute.Item
	for entry := 1; limit == 0 || len(items) < limit; entry++ {
		var document json.RawMessage
		switch err := decoder.Decode(&document); {
		case counted.N == 0:
			return nil, ErrTooLarge
		case err == io.EOF:
			return items, nil
		case err != nil && (errors.Is(err, gzip.ErrChecksum) || errors.Is(err, gzip.ErrHeader)):
			return nil, errors.New("it is damaged: its checksum is not that of its contents")
		case err != nil:
			return nil, fmt.Errorf("entry %d is not JSON, or it is cut off", entry)
		}
		found, err := itemsOf(document)
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", entry, err)
		}
		items = append(items, found...)
	}
	return items[:limit], nil
}

// itemsOf are those of one document.
func itemsOf(document json.RawMessage) ([]attribute.Item, error) {
	var members map[string]json.RawMessage
	if json.Unmarshal(document, &members) == nil {
		if incremental(members) {
			return nil, &FormatError{"it is an incremental export, whose lines are changes",
				"use a full export: aws dynamodb export-table-to-point-in-time --export-type FULL_EXPORT"}
		}
		if item, err := attribute.UnmarshalItem(members["Item"]); err == nil && item.Exists() {
			return []attribute.Item{item}, nil
		}
		if items, ok := scanned(members["Items"]); ok {
			return items, nil
		}
	}
	item, err := attribute.UnmarshalItem(document)
	if err == nil && !item.Exists() {
		err = errors.New("an item without attributes")
	}
	return []attribute.Item{item}, err
}

// incremental tells whether a document is a line of an incremental export.
func incremental(members map[string]json.RawMessage) bool {
	var metadata struct {
		WriteTimestampMicros json.RawMessage
	}
	return members["Keys"] != nil && json.Unmarshal(members["Metadata"], &metadata) == nil && metadata.WriteTimestampMicros != nil
}

// scanned are the items of a page of a scan.
func scanned(list json.RawMessage) ([]attribute.Item, bool) {
	var texts []json.RawMessage
	if !bytes.HasPrefix(list, []byte("[")) || json.Unmarshal(list, &texts) != nil {
		return nil, false
	}
	var items []attribute.Item
	for _, text := range texts {
		item, err := attribute.UnmarshalItem(text)
		if err != nil || !item.Exists() {
			return nil, false
		}
		items = append(items, item)
	}
	return items, true
}
