// Package mappingtest runs the examples of a mapping. An example is a folder, or one file in the
// format of txtar (golang.org/x/tools/txtar), with these parts:
//
//	replicator.yaml the configuration; if missing, the caller's configuration is used
//	table.json       the source table, as `aws dynamodb create-table --cli-input-json` takes it
//	items.jsonl      items that exist when the migration begins, in DynamoDB's JSON; in a folder also items.json.gz, a file of an export
//	changes.jsonl    changes after that: {"put": item} or {"delete": key}; it may be left out
//	cells.txt        the expected cells of the target after the copy, and after the changes
//
// Instead of table.json, lines at the head of a file may give the table of the configuration, its
// primary key, and the configuration file:
//
//	config: ../replicator.yaml
//	table: VideoApp
//	primary_key: PK S, SK S
//
// An example runs at fixed times. Its result depends only on its parts and the configuration.
package mappingtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/txtar"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/internal/itemfile"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Suffix is the ending of file names by which a search recognises examples.
const Suffix = ".example.txtar"

// The parts of an example.
const (
	ConfigPart  = "replicator.yaml"
	tablePart   = "table.json"
	itemsPart   = "items.jsonl"
	packedPart  = "items.json.gz" // the items, compressed
	changesPart = "changes.jsonl"
	CellsPart   = "cells.txt"
)

var (
	parts       = []string{ConfigPart, tablePart, itemsPart, changesPart, CellsPart}
	folderParts = append(slices.Clone(parts), packedPart)
)

// maxPart is the maximum size of a part, in bytes.
const maxPart = 64 << 20

// Example is one example of a mapping.
type Example struct {
	Path string // path of the folder or file
	// Config is the text of the example's own configuration; nil if it has none. ConfigFile is the
	// path of a configuration file that the example names instead; "" if it names none.
	Config     []byte
	ConfigFile string
	// Table is the source table; "" if the example names none.
	Table string
	// Want is the expected result; nil if none is recorded yet.
	Want []byte

	items, changes []byte
	itemsName      string // name of the part with the items
	// key is the primary key. It lacks types if they must be taken from the items.
	key     []transform.KeyAttribute
	archive *txtar.Archive // nil for a folder
}

// Find returns the paths of the examples at a path, in order. The result may be empty. A folder
// with items.jsonl or items.json.gz is an example. In other folders, Find searches for such
// folders, and for files with Suffix.
func Find(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	var found []string
	err = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && p != path && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case d.IsDir():
			for _, name := range []string{itemsPart, packedPart} {
				if _, err := os.Stat(filepath.Join(p, name)); err == nil {
					found = append(found, p)
					return filepath.SkipDir
				}
			}
		case strings.HasSuffix(d.Name(), Suffix):
			found = append(found, p)
		}
		return nil
	})
	slices.Sort(found)
	return found, err
}

// Read reads an example. Errors name the part, and contain no item data.
func Read(path string) (*Example, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return readFolder(os.DirFS(path), ".", path)
	}
	e, texts := &Example{Path: path}, map[string][]byte{}
	if err := e.readArchive(texts); err != nil {
		return nil, err
	}
	return e, e.settle(texts)
}

// ReadFS reads an example that is a folder of a file system, such as the file system embedded in
// the program. Update fails for such an example.
func ReadFS(files fs.FS, folder string) (*Example, error) { return readFolder(files, folder, folder) }

func readFolder(files fs.FS, folder, name string) (*Example, error) {
	texts, err := folderTexts(files, folder)
	if err != nil {
		return nil, err
	}
	e := &Example{Path: name}
	return e, e.settle(texts)
}

// settle parses the texts of the example's parts.
func (e *Example) settle(texts map[string][]byte) error {
	e.Config, e.Want, e.items, e.changes = texts[ConfigPart], texts[CellsPart], texts[itemsPart], texts[changesPart]
	e.itemsName = itemsPart
	if packed := texts[packedPart]; packed != nil {
		if e.items != nil {
			return fmt.Errorf("there are %s and %s, but an example has only one of them", packedPart, itemsPart)
		}
		e.items, e.itemsName = packed, packedPart
	}
	if len(bytes.TrimSpace(e.items)) == 0 {
		return errors.New(itemsPart + " is missing or empty")
	}
	if table := texts[tablePart]; table != nil {
		if e.key != nil || e.Table != "" {
			return errors.New("the head of the file names the table or its key, but " + tablePart + " does too")
		}
		if err := e.readTable(table); err != nil {
			return err
		}
	}
	if e.key == nil {
		return errors.New("the primary key is unknown: write primary_key: PK S, SK S at the head of the file, or add " + tablePart)
	}
	return nil
}

// Key returns the primary key, partition key first. If the example does not give a type, the type
// is empty.
func (e *Example) Key() []transform.KeyAttribute { return slices.Clone(e.key) }

func folderTexts(files fs.FS, folder string) (map[string][]byte, error) {
	texts := map[string][]byte{}
	for _, name := range folderParts {
		file, err := files.Open(path.Join(folder, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		text, err := readPart(name, file)
		if err = errors.Join(err, file.Close()); err != nil {
			return nil, err
		}
		texts[name] = text
	}
	return texts, nil
}

func (e *Example) readArchive(texts map[string][]byte) error {
	text, err := readText(e.Path)
	if err != nil {
		return err
	}
	e.archive = txtar.Parse(text)
	for _, f := range e.archive.Files {
		if !slices.Contains(parts, f.Name) {
			return fmt.Errorf("unknown part %q: an example has %s", f.Name, strings.Join(parts, ", "))
		}
		if texts[f.Name] != nil {
			return fmt.Errorf("part %s occurs twice", f.Name)
		}
		texts[f.Name] = append([]byte{}, f.Data...)
	}
	return e.readHead(string(e.archive.Comment))
}

// readText returns the text of a file, in any Unicode encoding.
func readText(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := itemfile.Text(file)
	if err != nil {
		return nil, err
	}
	return readPart(path, text)
}

// readPart reads a part of at most maxPart bytes.
func readPart(name string, in io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(in, maxPart+1))
	if err == nil && len(text) > maxPart {
		err = fmt.Errorf("%s is larger than %d MiB", name, maxPart>>20)
	}
	return text, err
}

// readHead parses the lines before the first part of a file.
func (e *Example) readHead(text string) error {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, value, found := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch {
		case !found || value == "":
			return fmt.Errorf("a line before the parts is not a setting like table: NAME; comments begin with #")
		case key == "config":
			e.ConfigFile = value
			if !filepath.IsAbs(value) {
				e.ConfigFile = filepath.Join(filepath.Dir(e.Path), value)
			}
		case key == "table":
			e.Table = value
		case key == "primary_key":
			for part := range strings.SplitSeq(value, ",") {
				name, kind, _ := strings.Cut(strings.TrimSpace(part), " ")
				k := transform.KeyAttribute{Name: name, Type: keyKinds[strings.TrimSpace(kind)]}
				if name == "" || kind != "" && k.Type == attribute.KindNone {
					return errors.New("primary_key must look like PK S, SK N: an attribute with its type S, N or B, and a second one for the sort key")
				}
				e.key = append(e.key, k)
			}
		default:
			return fmt.Errorf("unknown setting %q before the parts; known are config, table and primary_key", key)
		}
	}
	return nil
}

var keyKinds = map[string]attribute.Kind{"S": attribute.KindS, "N": attribute.KindN, "B": attribute.KindB}

// readTable reads the table's name and key schema.
func (e *Example) readTable(text []byte) error {
	var table struct {
		TableName            string
		KeySchema            []struct{ AttributeName, KeyType string }
		AttributeDefinitions []struct{ AttributeName, AttributeType string }
	}
	said, err := documents(tablePart, text)
	if err != nil {
		return err
	}
	if len(said) != 1 {
		return fmt.Errorf("%s has %d tables, not one", tablePart, len(said))
	}
	if err := json.Unmarshal(said[0], &table); err != nil {
		return fmt.Errorf("%s: %w", tablePart, err)
	}
	e.Table = table.TableName
	for _, role := range []string{"HASH", "RANGE"} {
		for _, k := range table.KeySchema {
			for _, a := range table.AttributeDefinitions {
				if k.KeyType == role && a.AttributeName == k.AttributeName && keyKinds[a.AttributeType] != attribute.KindNone {
					e.key = append(e.key, transform.KeyAttribute{Name: a.AttributeName, Type: keyKinds[a.AttributeType]})
				}
			}
		}
	}
	if len(e.key) == 0 || len(e.key) != len(table.KeySchema) {
		return fmt.Errorf("%s: a key schema of %d attributes, %d of them with a type", tablePart, len(table.KeySchema), len(e.key))
	}
	return nil
}

// Update stores the given result in the example, as the expected result.
func (e *Example) Update(got string) error {
	if e.archive == nil {
		return os.WriteFile(filepath.Join(e.Path, CellsPart), []byte(got), 0o644)
	}
	i := slices.IndexFunc(e.archive.Files, func(f txtar.File) bool { return f.Name == CellsPart })
	if i < 0 {
		i = len(e.archive.Files)
		e.archive.Files = append(e.archive.Files, txtar.File{Name: CellsPart})
	}
	e.archive.Files[i].Data = []byte(got)
	return os.WriteFile(e.Path, txtar.Format(e.archive), 0o644)
}

// documents returns the JSON values of a part.
func documents(name string, text []byte) ([]json.RawMessage, error) {
	var found []json.RawMessage
	for document, err := range itemfile.Documents(bytes.NewReader(text)) {
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		found = append(found, document)
	}
	return found, nil
}
