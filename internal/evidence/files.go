package evidence

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/page"
)

// File is one file of the folder.
type File struct {
	Name    string
	Content []byte
}

// The files of every folder.
const (
	pageFile = "index.html"
	jsonFile = "evidence.json"
	sumsFile = "SHA256SUMS"
)

// Files renders the folder. The folder also includes the files in `more`, such as reports of a
// verify. A name in `more` must be a plain file name. The last file is sumsFile, with the checksums
// of all files in the format of sha256sum(1).
func Files(d *Document, more ...File) ([]File, error) {
	text, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return nil, err
	}
	files := []File{{jsonFile, append(text, '\n')}, {"shards.csv", d.shards()}, {"steps.csv", d.steps()}, {"timeline.csv", d.timeline()}}
	for _, f := range more {
		known := func(o File) bool { return o.Name == f.Name }
		if f.Name != filepath.Base(f.Name) || strings.HasPrefix(f.Name, ".") || f.Name == pageFile || f.Name == sumsFile || slices.ContainsFunc(files, known) {
			return nil, fmt.Errorf("%q cannot be the name of an evidence file", f.Name)
		}
		files = append(files, f)
	}
	shown, err := d.page(files)
	if err != nil {
		return nil, err
	}
	files = append(files, File{pageFile, shown})
	var sums bytes.Buffer
	for _, f := range files {
		fmt.Fprintf(&sums, "%s  %s\n", sum(f.Content), f.Name)
	}
	return append(files, File{sumsFile, sums.Bytes()}), nil
}

func sum(content []byte) string {
	s := sha256.Sum256(content)
	return hex.EncodeToString(s[:])
}

// Write writes the folder. The folder must not exist yet, because evidence is never overwritten.
// Write creates the whole folder or, after an error, nothing.
func Write(dir string, files []File) error {
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			err = &fs.PathError{Op: "create", Path: dir, Err: fs.ErrExist}
		}
		return err
	}
	unfinished, err := os.MkdirTemp(filepath.Dir(dir), "."+filepath.Base(dir)+"-")
	if err != nil {
		return err
	}
	for _, f := range files {
		if err = os.WriteFile(filepath.Join(unfinished, f.Name), f.Content, 0o600); err != nil {
			break
		}
	}
	if err == nil {
		err = os.Rename(unfinished, dir)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(unfinished))
	}
	return nil
}

func table(head []string, rows [][]string) []byte {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	_ = w.Write(head)
	_ = w.WriteAll(rows) // a write to a buffer never fails
	return b.Bytes()
}

func (d *Document) shards() []byte {
	var rows [][]string
	for _, t := range d.Tables {
		for _, s := range t.Shards {
			rows = append(rows, []string{t.Source, s.ID, s.Parent, s.State, s.Position, instant(s.Latest), strconv.FormatUint(s.Applied, 10), s.Proof, s.Proved})
		}
	}
	return table([]string{"table", "shard", "parent", "state", "position", "latest_change", "applied", "proof", "proved_position"}, rows)
}

// Took returns the length of the step in seconds; "" if it has not ended.
func (s Step) Took() string {
	if s.Seconds == nil {
		return ""
	}
	return strconv.FormatFloat(*s.Seconds, 'f', 1, 64)
}

func (d *Document) steps() []byte {
	var rows [][]string
	for _, s := range d.Steps {
		rows = append(rows, []string{s.Step, instant(&s.BegunAt), instant(s.EndedAt), s.Took(), s.Text})
	}
	return table([]string{"step", "begun_at", "ended_at", "seconds", "why"}, rows)
}

func (d *Document) timeline() []byte {
	var rows [][]string
	for _, e := range d.Events() {
		rows = append(rows, []string{instant(&e.At), e.Step, e.Text, e.Token, e.Outcome, e.Took})
	}
	return table([]string{"at", "step", "what", "token", "outcome", "took"}, rows)
}

// Event is a line of the timeline, including calls of hooks.
type Event struct {
	At                         time.Time
	Step, Text, Token, Outcome string
	Took, Output               string
}

// Events returns the steps and the hook calls, in chronological order.
func (d *Document) Events() (events []Event) {
	for _, e := range d.Timeline {
		text := e.Text
		if e.By != "" {
			text += " (" + e.By + ")"
		}
		events = append(events, Event{At: e.At, Step: e.Step, Text: text})
	}
	for _, h := range d.Hooks {
		events = append(events, Event{At: h.Began, Text: "hook " + h.Name, Token: h.Token, Outcome: h.Outcome, Took: h.Ended.Sub(h.Began).Round(time.Millisecond).String(), Output: h.Output})
	}
	slices.SortStableFunc(events, func(a, b Event) int { return a.At.Compare(b.At) })
	return events
}

// Verdict returns the outcome of the cutover in a sentence.
func (d *Document) Verdict() string {
	switch d.Step {
	case "watching":
		return "The application has switched. replicator still watches for late writers."
	case "done":
		return "The application has switched, and the watch for late writers is over."
	case "cancelled":
		return "The cutover was cancelled: " + d.Reason
	case "rehearsed":
		return "The rehearsal is complete. The application was neither stopped nor switched."
	}
	return "The cutover is running, at step " + d.Step + "."
}

// Good reports whether the cutover succeeded, without late writes.
func (d *Document) Good() bool {
	return (d.Step == "watching" || d.Step == "done" || d.Step == "rehearsed") && d.Strays == 0
}

// FrozenFor returns how long the application's writes were frozen, as text.
func (d *Document) FrozenFor() string {
	return time.Duration(d.FrozenSeconds * float64(time.Second)).Round(100 * time.Millisecond).String()
}

func instant(t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

//go:embed evidence.html
var pageText string

var pageTemplate = template.Must(template.New("evidence").Funcs(template.FuncMap{
	"time": func(t any) string {
		switch t := t.(type) {
		case time.Time:
			return instant(&t)
		case *time.Time:
			return instant(t)
		}
		return ""
	},
}).Parse(pageText))

// summed is a file with its checksum, for the page.
type summed struct{ Name, Sum string }

func (d *Document) page(files []File) ([]byte, error) {
	shown := struct {
		*Document
		Style  template.CSS
		Policy string
		Files  []summed
	}{Document: d, Style: page.Style(), Policy: page.Policy()}
	for _, f := range files {
		shown.Files = append(shown.Files, summed{f.Name, sum(f.Content)})
	}
	var b bytes.Buffer
	err := pageTemplate.Execute(&b, shown)
	return b.Bytes(), err
}
