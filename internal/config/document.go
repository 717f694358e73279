package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"sort"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// document parses the text into the root node of its only document. A text without content gives a
// null node at 1:1.
func document(file string, content []byte) (*yaml.Node, *diag.Error) {
	if err := notUTF8(file, content); err != nil {
		return nil, err
	}
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	var first, second yaml.Node
	if err := decoder.Decode(&first); err != nil {
		if errors.Is(err, io.EOF) {
			return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Line: 1, Column: 1}, nil
		}
		return nil, syntaxError(file, content, err)
	}
	switch err := decoder.Decode(&second); {
	case errors.Is(err, io.EOF):
		root := first.Content[0]
		if root.Tag == "!!null" && root.Value == "" {
			root.Line, root.Column = 1, 1 // the parser places an empty document after the last line
		}
		return root, nil
	case err != nil:
		return nil, syntaxError(file, content, err)
	}
	return nil, &diag.Error{Code: diag.YAMLRefused, Pos: diag.Position{File: file, Line: second.Line, Column: second.Column},
		What: "a second document begins here", Cause: "a configuration file holds one document", Fix: "remove the separator and everything after it"}
}

func notUTF8(file string, content []byte) *diag.Error {
	if utf8.Valid(content) {
		return nil
	}
	pos := diag.Position{File: file, Line: 1, Column: 1}
	for rest := content; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		if r == utf8.RuneError && size == 1 {
			break
		}
		pos.Column++
		if r == '\n' {
			pos.Line, pos.Column = pos.Line+1, 1
		}
		rest = rest[size:]
	}
	return &diag.Error{Code: diag.YAMLSyntax, Pos: pos, What: "the file is not UTF-8 text",
		Cause: "a byte here is not part of any UTF-8 character", Fix: "save the file as UTF-8"}
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line [0-9]+: )?`)

// syntaxError finds the position of a syntax error. The parser's message has no column, and its
// line may be wrong or missing. But the parser only reads forward. So syntaxError parses longer and
// longer beginnings of the text. The error is in the last line of the first that fails.
func syntaxError(file string, content []byte, err error) *diag.Error {
	problem := func(text []byte) string {
		decoder := yaml.NewDecoder(bytes.NewReader(text))
		for {
			var node yaml.Node
			if err := decoder.Decode(&node); errors.Is(err, io.EOF) {
				return ""
			} else if err != nil {
				return yamlLine.ReplaceAllString(err.Error(), "")
			}
		}
	}
	cause := yamlLine.ReplaceAllString(err.Error(), "")
	lines := bytes.SplitAfter(content, []byte("\n"))
	line := min(len(lines)-1, sort.Search(len(lines), func(i int) bool {
		return problem(bytes.Join(lines[:i+1], nil)) == cause
	}))
	indent := lines[line][:len(lines[line])-len(bytes.TrimLeft(lines[line], " \t"))]
	fix := ""
	if bytes.ContainsRune(indent, '\t') {
		fix = "indent with spaces; YAML does not allow tabs"
	}
	return &diag.Error{Code: diag.YAMLSyntax, Pos: diag.Position{File: file, Line: line + 1, Column: len(indent) + 1},
		What: "the file is not valid YAML", Cause: cause, Fix: fix, Err: err}
}

// refuseFeatures reports all YAML features in the document that this configuration does not allow.
func (d *decoder) refuseFeatures(n *yaml.Node) {
	refuse := func(what, fix string) {
		d.report(diag.Error{Code: diag.YAMLRefused, Pos: d.at(n), What: what, Cause: "this file must be plain YAML: " +
			"no anchors, aliases, merge keys or tags", Fix: fix})
	}
	if n.Anchor != "" {
		refuse(fmt.Sprintf("anchor %s is not supported", diag.Shortened("&"+n.Anchor)), "remove the anchor, and write the value out where it is used")
	}
	switch {
	case n.Kind == yaml.AliasNode:
		refuse(fmt.Sprintf("alias %s is not supported", diag.Shortened("*"+n.Value)), "write the value out")
		return // the alias's anchor is in the same document, and is checked there
	case n.Tag == "!!merge" && n.Style == 0:
		refuse("merge key << is not supported", "write the keys out")
	case n.Style&yaml.TaggedStyle != 0:
		refuse(fmt.Sprintf("tag %s is not supported", diag.Shortened(strings.Replace(n.Tag, "tag:yaml.org,2002:", "!!", 1))), "remove the tag; the key decides the type")
	}
	for _, child := range n.Content {
		d.refuseFeatures(child)
	}
}
