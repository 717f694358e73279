package comparison

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/itemfile"
	"github.com/dynamodb-bigtable/replicator/internal/itemkey"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// longestKey is the maximum length of a line with a key, in bytes. A key has at most 3 KB, and JSON
// may write a byte as six characters.
const longestKey = 64 << 10

// numberedKey is a key that an operator has given. The number is its line in the file, or its place
// among the flags --key, from 1.
type numberedKey struct {
	number int64
	keys   attribute.Item
}

// byKey reports whether the command compares single items.
func (o *Operator) byKey() bool { return len(o.Keys) > 0 || o.KeysFile != "" }

// readKeys calls visit for every given key, in order. It keeps one line in memory.
func (o *Operator) readKeys(schema []transform.KeyAttribute, visit func(numberedKey) error) error {
	for i, text := range o.Keys {
		keys, err := itemkey.Parse(text, schema)
		if err == nil {
			err = visit(numberedKey{int64(i + 1), keys})
		}
		if err != nil {
			return err
		}
	}
	switch o.KeysFile {
	case "":
		return nil
	case "-":
		in := o.Stdin
		if in == nil {
			in = os.Stdin
		}
		return readLines("stdin", in, schema, visit)
	}
	f, err := os.Open(o.KeysFile)
	if err != nil {
		return unreadableKeys(o.KeysFile, err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return unreadableKeys(o.KeysFile, errors.New("it is a folder"))
	}
	return readLines(o.KeysFile, f, schema, visit)
}

// readLines reads keys from a file, one in each line. Empty lines are skipped.
func readLines(name string, in io.Reader, schema []transform.KeyAttribute, visit func(numberedKey) error) error {
	text, err := itemfile.Text(in)
	if err != nil {
		return unreadableKeys(name, err)
	}
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, longestKey)
	number, found := int64(0), false
	for lines.Scan() {
		number++
		line := strings.TrimSpace(lines.Text())
		if line == "" {
			continue
		}
		found = true
		keys, err := itemkey.ParseAt(fmt.Sprintf("line %d of %s", number, name), line, schema)
		if err == nil {
			err = visit(numberedKey{number, keys})
		}
		if err != nil {
			return err
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return unreadableKeys(name, fmt.Errorf("line %d has more than %d bytes", number+1, longestKey))
	case err != nil:
		return unreadableKeys(name, err)
	case !found:
		return unreadableKeys(name, errors.New("it has no key"))
	}
	return nil
}

func unreadableKeys(name string, err error) error {
	return &diag.Error{Code: diag.Usage, What: "cannot read the keys in " + name, Cause: err.Error(), Fix: `give a file with one key in each line, such as {"PK":"…","SK":"…"}`}
}

// checkKeys checks every key of a file before the first is compared. Keys from stdin can be read only
// once, so they are checked as they are compared.
func (o *Operator) checkKeys(schema []transform.KeyAttribute) error {
	if o.KeysFile == "-" {
		return nil
	}
	return o.readKeys(schema, func(numberedKey) error { return nil })
}
