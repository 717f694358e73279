package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// A refused value is reported once, and findings that follow from it are suppressed. Independent
// findings are reported too.
func TestOneMistakeIsOneFinding(t *testing.T) {
	long := make([]byte, longestText+1)
	for i := range long {
		long[i] = 'a'
	}
	const head = "version: 1\ntarget: {project: p, instance: i}\ntables:\n  - "
	for name, c := range map[string]struct {
		table string
		codes []string
	}{
		"name of the source":       {`{from: A, rules: [{row_key: "{PK}"}]}`, []string{diag.InvalidValue}},
		"no source":                {`{to: t, rules: [{row_key: "{PK}"}]}`, []string{diag.MissingValue}},
		"table twice":              {`{from: Orders}` + "\n  - " + `{from: Orders, families: {d: never}, rules: [{row_key: "x{PK}"}]}`, []string{diag.DuplicateTable}},
		"column without a place":   {`{from: Orders, families: {d: maxversions=1}, rules: [{columns: {"*": d, x: {as: json}}}]}`, []string{diag.MissingValue}},
		"long row key":             {`{from: Orders, families: {d: maxversions=1}, rules: [{row_key: "` + string(long) + `"}]}`, []string{diag.InvalidValue}},
		"long condition":           {`{from: Orders, families: {d: maxversions=1}, rules: [{name: "` + string(long) + `", when: 'a = 1'}, {when: 'b = 1'}]}`, []string{diag.InvalidValue}},
		"long cell":                {`{from: Orders, families: {d: maxversions=1}, rules: [{row_key: a, cell: {to: "` + string(long) + `"}}]}`, []string{diag.InvalidValue}},
		"family":                   {`{from: Orders, families: {d: maxversion=1}, rules: [{columns: {"*": d}}]}`, []string{diag.RuleInvalid}},
		"template beside a family": {`{from: Orders, families: {d: maxversions=1}, rules: [{when: 'a = 1', row_key: "{PK"}, {when: 'b = 1', columns: {"*": e}}, {columns: {x: f}}]}`, []string{diag.TemplateInvalid, diag.FamilyUndeclared, diag.FamilyUndeclared}},
		"condition, not the rest":  {`{from: Orders, families: {d: maxversions=1}, rules: [{when: 'a == 1'}, {when: 'b = 1', columns: {"*": e}}, {ignore: true}]}`, []string{diag.ConditionInvalid, diag.FamilyUndeclared}},
		"start is no mapping":      {`{from: Orders, start: later, families: {d: maxversions=1}, rules: [{columns: {"*": e}}]}`, []string{diag.InvalidValue, diag.FamilyUndeclared}},
	} {
		_, err := Parse("f", []byte(head+c.table+"\n"), testEnv)
		var list diag.List
		if !errors.As(err, &list) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var codes []string
		for _, e := range list {
			codes = append(codes, e.Code)
		}
		slices.Sort(codes)
		slices.Sort(c.codes)
		if !slices.Equal(codes, c.codes) {
			t.Errorf("%s: %.600v", name, err)
		}
	}
}

// Names distinguish rules, and an empty list of writes must not mean "write everything".
func TestRulesThatSayTheOpposite(t *testing.T) {
	for rules, code := range map[string]string{
		`[{name: a, when: 'x = 1'}, {name: b, when: 'x = 2'}, {when: 'x = 3'}, {}]`: "",
		`[{name: a, when: 'x = 1'}, {name: b, when: 'x = 2'}, {name: a}]`:           diag.RuleInvalid,
		`[{row_key: r, cell: {to: "d:{PK}", only: [x]}}]`:                           "",
		`[{row_key: r, cell: {to: "d:{PK}", only: []}}]`:                            diag.InvalidValue,
		`[{row_key: r, cell: {to: "d:{PK}", only: [""]}}]`:                          diag.InvalidValue,
		`[{row_key: r, cell: {to: "d:{PK}", only: }}]`:                              diag.InvalidValue, // its lines may be commented out
		`[{when: 'x IN (` + strings.Repeat("1, ", 2000) + `1)'}, {ignore: true}]`:   "",
		`[{when: 'x IN (` + strings.Repeat("1, ", 1<<15) + `1)'}, {ignore: true}]`:  diag.ConditionInvalid,
	} {
		_, err := Parse("f", []byte("version: 1\ntarget: {project: p, instance: i}\ntables:\n  - {from: Orders, families: {d: never}, rules: "+rules+"}\n"), testEnv)
		var list diag.List
		if (err == nil) != (code == "") || err != nil && (!errors.As(err, &list) || len(list) != 1 || list[0].Code != code || list[0].Pos.Line != 4 || list[0].Fix == "") {
			t.Errorf("%.120s: %v", rules, err)
		}
	}
}

// A pipe without a writer is reported, because opening it for reading would block. A pipe with a
// writer is read.
func TestPipes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path, testEnv); !diag.Has(err, diag.ConfigUnreadable) {
		t.Errorf("a pipe without a writer: %v", err)
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	_, err = writer.WriteString("version: 1\ntarget: {project: p, instance: i}\ntables: [{from: Orders}]\n")
	if err != nil || writer.Close() != nil {
		t.Fatal(err)
	}
	if _, err := Load(fmt.Sprintf("/dev/fd/%d", reader.Fd()), testEnv); err != nil {
		t.Errorf("a pipe with a text: %v", err)
	}
}
