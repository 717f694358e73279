package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// bug is one entry of a file below planted.
type bug struct {
	name    string
	hazards []string // numbers of HAZARDS.md, such as H45 or I6; at least one
	why     string   // the consequence
	plays   string   // the features that its seeds play: verifies, relay, exports, dual-writes, cutovers, mappings, fast, fallback, rollback, or nothing
	seed    *uint64  // the seed that found it; nil if none did yet
	// file is the product's file, relative to the root. old occurs in it once; new replaces it.
	file, old, new string

	text string // the entry's file,
	line int    // and the line where the entry begins
	seen int    // the line of found, or of why if there is none
}

// errorf returns an error with the place of the entry.
func (b *bug) errorf(line int, format string, arguments ...any) error {
	return fmt.Errorf("%s:%d: %s", b.text, line, fmt.Sprintf(format, arguments...))
}

// load reads all bugs below a directory, sorted by file.
func load(dir string) ([]bug, error) {
	var all []bug
	names := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		file, ok := strings.CutSuffix(filepath.ToSlash(name), ".go.txt")
		if !ok {
			return fmt.Errorf("%s: not a file of planted bugs: name it after the product's file, such as sink/guard.go.txt", path)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		bugs, err := parse(path, file+".go", string(text))
		if err != nil {
			return err
		}
		for _, b := range bugs {
			if first, ok := names[b.name]; ok {
				return b.errorf(b.line, "another bug is called %q (%s): give this one a name of its own", b.name, first)
			}
			names[b.name] = fmt.Sprintf("%s:%d", b.text, b.line)
		}
		all = append(all, bugs...)
		return nil
	})
	return all, err
}

// parse reads the entries of one file.
func parse(path, file, text string) (all []bug, err error) {
	var entry []string
	lines := append(strings.Split(strings.TrimSuffix(text, "\n"), "\n"), "")
	for i, line := range lines {
		switch {
		case strings.HasPrefix(line, "#"):
			if len(entry) > 0 {
				return nil, fmt.Errorf("%s:%d: a comment within an entry: put it before the entry", path, i+1)
			}
		case line != "":
			entry = append(entry, line)
		case len(entry) > 0:
			b := bug{file: file, text: path, line: i + 1 - len(entry)}
			if err := b.parse(entry); err != nil {
				return nil, err
			}
			all, entry = append(all, b), nil
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: no bug is planted: remove the file", path)
	}
	return all, nil
}

var (
	reference = regexp.MustCompile(`^(H\d{2,3}|I\d{1,2})$`)
	fields    = []string{"bug", "hazards", "why", "plays", "found"}
)

// parse reads the lines of an entry: the fields in their order, removed lines, new lines.
func (b *bug) parse(lines []string) error {
	value := map[string]string{}
	at, order := 0, 0
	for ; at < len(lines) && lines[at][0] != '-'; at++ {
		name, text, ok := strings.Cut(lines[at], ": ")
		next := slices.Index(fields, name)
		if !ok || next < order {
			return b.errorf(b.line+at, "%q is no field here: an entry has the fields %s in this order, each once, and then lines that begin with - and +",
				lines[at], strings.Join(fields, ", "))
		}
		value[name], order = strings.TrimSpace(text), next+1
		b.seen = b.line + at
	}
	for _, name := range fields[:3] {
		if value[name] == "" {
			return b.errorf(b.line, "an entry without %s: write a line \"%s: …\"", name, name)
		}
	}
	b.name, b.why, b.hazards, b.plays = value["bug"], value["why"], strings.Fields(value["hazards"]), value["plays"]
	if b.plays != "" && b.plays != "verifies" && b.plays != "relay" && b.plays != "dual-writes" && b.plays != "cutovers" && b.plays != "exports" && b.plays != "mappings" && b.plays != "fast" && b.plays != "fallback" && b.plays != "rollback" {
		return b.errorf(b.line, "plays %q: write verifies, relay, exports, dual-writes, cutovers, mappings, fast, fallback or rollback, or leave the line out", b.plays)
	}
	for _, h := range b.hazards {
		if !reference.MatchString(h) {
			return b.errorf(b.line, "%q is no number of a hazard or an invariant: write it as in HAZARDS.md, such as H45 or I6", h)
		}
	}
	if text, ok := value["found"]; ok {
		seed, err := strconv.ParseUint(strings.TrimPrefix(text, "seed "), 10, 64)
		if err != nil || !strings.HasPrefix(text, "seed ") {
			return b.errorf(b.seen, "found by %q: write \"found: seed\" and a number, or leave the line out and run -hunt", text)
		}
		b.seed = &seed
	}
	var goes, comes []string
	for ; at < len(lines); at++ {
		switch line := lines[at]; {
		case line[0] == '-' && len(comes) == 0:
			goes = append(goes, line[1:])
		case line[0] == '+':
			comes = append(comes, line[1:])
		default:
			return b.errorf(b.line+at, "%q: lines that go begin with -, and after them lines that come begin with +", line)
		}
	}
	b.old, b.new = strings.TrimSpace(strings.Join(goes, "\n")), strings.TrimSpace(strings.Join(comes, "\n"))
	switch {
	case b.old == "":
		return b.errorf(b.line, "nothing goes: write what the bug replaces as lines that begin with -")
	case b.old == b.new:
		return b.errorf(b.line, "what comes is what goes: change the lines that begin with +")
	}
	return nil
}

// place finds the removed text in the product's file.
func (b *bug) place(source []byte) (from int, err error) {
	if n := bytes.Count(source, []byte(b.old)); n != 1 {
		return 0, b.errorf(b.line, "bug %q: what goes occurs %d times in %s, not once: copy the lines from the file as they are now, or remove the entry if its code is gone",
			b.name, n, b.file)
	}
	return bytes.Index(source, []byte(b.old)), nil
}

// save writes the seeds that found bugs into their entries, and changes nothing else.
func save(dir string, all []bug) error {
	byText := map[string][]bug{}
	for _, b := range all {
		byText[b.text] = append(byText[b.text], b)
	}
	for path, bugs := range byText {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(withSeeds(string(text), bugs)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func withSeeds(text string, bugs []bug) string {
	lines := strings.SplitAfter(text, "\n")
	for _, b := range bugs {
		if b.seed == nil {
			continue
		}
		if strings.HasPrefix(lines[b.seen-1], "found: ") {
			lines[b.seen-1] = ""
		}
		lines[b.seen-1] += fmt.Sprintf("found: seed %d\n", *b.seed)
	}
	return strings.Join(lines, "")
}
