package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strings"
	"syscall"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// pathVariable names the environment variable that names the configuration file.
const pathVariable = "REPLICATOR_CONFIG"

// maxBytes bounds the size of the file. Even a file with thousands of tables is far smaller.
const maxBytes = 1 << 20

// defaultPaths are tried in order if neither flag nor variable names a file.
var defaultPaths = []string{"replicator.yaml", "/etc/replicator/replicator.yaml"}

// Flag is a value from the command line for a key of the configuration.
type Flag struct {
	Name  string // as typed, for messages: "--listen"
	Key   string // path of the key: "http.listen"
	Value string
}

// override is an environment variable that overrides a key of the file.
type override struct{ Name, Key string }

// variables returns the environment variables that override the file, in the order of their keys.
func variables() []override {
	var found []override
	walkScalars(&schema, reflect.New(reflect.TypeFor[Config]()).Elem(), func(f *field, _ reflect.Value) {
		if f.env != "" {
			found = append(found, override{f.env, f.path})
		}
	})
	return found
}

// Find returns the path of the configuration file: the flag's value, or else $REPLICATOR_CONFIG.
// Without these, it is the first existing file of ./replicator.yaml and
// /etc/replicator/replicator.yaml. Find does not check that a named file exists.
func Find(flag string, env Lookup) (string, error) { return find(flag, env, defaultPaths) }

func find(flag string, env Lookup, paths []string) (string, error) {
	if flag != "" {
		return flag, nil
	}
	if path, _ := env(pathVariable); path != "" {
		return path, nil
	}
	for _, path := range paths {
		// An existing file must not be skipped, even if it cannot be read. Load reports such errors
		// better.
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			return path, nil
		}
	}
	return "", &diag.Error{Code: diag.ConfigNotFound, What: "no configuration file found",
		Cause: "neither -c nor $" + pathVariable + " names one, and none of these files exists: " + strings.Join(paths, ", ")}
}

// Load reads, decodes and checks the configuration file. The error is a diag.List with all
// findings, each with exit status 2 and its position. Flags override the environment, and the
// environment overrides the file.
func Load(path string, env Lookup, flags ...Flag) (*Config, error) {
	content, err := open(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, content, env, flags...)
}

// open reads the file. If it fails, the error explains why.
func open(path string) ([]byte, error) {
	content, err := read(path)
	if err != nil {
		code, fix := diag.ConfigUnreadable, ""
		if errors.Is(err, fs.ErrNotExist) {
			code, fix = diag.ConfigNotFound, "check the path of -c or $"+pathVariable
		}
		return nil, diag.List{{Code: code, What: "cannot read the configuration file " + path, Err: err, Fix: fix}}
	}
	return content, nil
}

func read(path string) ([]byte, error) {
	// Without O_NONBLOCK, opening a pipe without a writer would block.
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.IsDir() {
		return nil, fmt.Errorf("%s is a directory", path)
	}
	content, err := io.ReadAll(io.LimitReader(file, maxBytes+1))
	if err == nil && len(content) > maxBytes {
		err = fmt.Errorf("%s is larger than %d bytes", path, maxBytes)
	}
	if info, statErr := file.Stat(); err == nil && len(content) == 0 && statErr == nil && info.Mode()&fs.ModeNamedPipe != 0 {
		err = fmt.Errorf("%s is a pipe, and no process writes to it", path)
	}
	return content, err
}

// Parse does the same as Load for a given text. The argument `file` is its name in messages.
func Parse(file string, content []byte, env Lookup, flags ...Flag) (*Config, error) {
	c, found := parse(file, content, env, flags)
	if err := found.Err(); err != nil {
		return nil, err
	}
	return c, nil
}

// parse returns the part of the configuration that it could decode, and every mistake. The
// configuration is nil if the text is not YAML.
func parse(file string, content []byte, env Lookup, flags []Flag) (*Config, diag.List) {
	content = bytes.TrimPrefix(content, []byte("\ufeff"))
	d := &decoder{file: file, env: env, lines: strings.Split(string(content), "\n"),
		where: map[string]diag.Position{}, written: map[string]written{}, bad: map[string]bool{}}
	root, syntax := document(file, content)
	if syntax != nil {
		return nil, diag.List{syntax}
	}
	c := &Config{where: d.where, forms: d.written}
	v := reflect.ValueOf(c).Elem()
	setDefaults(v)
	d.refuseFeatures(root)
	d.where[""] = d.at(root)
	d.section(&schema, root, v, "")
	d.overlay(v, flags)
	if !d.bad[""] {
		d.required(&schema, v, "")
	}
	d.checkTables(c)
	d.checkRoles(c)
	d.checkParkTo(c)
	d.checkLoads(c)
	for i := range c.Tables {
		if c.Tables[i].DualWrites != "off" {
			c.Tables[i].number = c.DualWrites.VersionAttribute
		}
	}
	d.checkMappings(c)
	d.checkDualWrites(c)
	d.checkModes(c)
	d.checkHooks(c)
	d.checkFreeze(c)
	d.checkGroups(c)
	d.checkNotify(c)
	delete(d.where, "")
	return c, sorted(d.found)
}

func setDefaults(v reflect.Value) {
	walkScalars(&schema, v, func(f *field, value reflect.Value) {
		if f.fallback == "" {
			return
		}
		if err := f.set(value, f.fallback); err != nil {
			panic("config: bad default of " + f.path + ": " + err.cause)
		}
	})
}

// overlay overrides values of the file, first from the environment and then from the flags.
func (d *decoder) overlay(v reflect.Value, flags []Flag) {
	known := map[string]bool{}
	walkScalars(&schema, v, func(f *field, value reflect.Value) {
		if f.env != "" {
			if text, ok := d.env(f.env); ok {
				d.text(f, text, value, f.path, diag.Position{File: "$" + f.env})
			}
		}
		known[f.path] = true
		given := slices.DeleteFunc(slices.Clone(flags), func(flag Flag) bool { return flag.Key != f.path })
		if f.single && len(given) > 0 {
			d.replaceTexts(f, given, value)
			return
		}
		for _, flag := range given {
			d.text(f, flag.Value, value, f.path, diag.Position{File: flag.Name})
		}
	})
	for _, flag := range flags {
		if !known[flag.Key] {
			panic("config: flag " + flag.Name + " sets " + flag.Key + ", which is not a key outside of lists")
		}
	}
}

// required reports missing required keys. A key with a refused value does not count as missing.
func (d *decoder) required(f *field, v reflect.Value, path string) {
	for i := range f.fields {
		sub := &f.fields[i]
		value, subPath := v.Field(sub.index), join(path, sub.key)
		absent := value.IsZero() || (sub.kind == list || sub.kind == dictionary) && value.Len() == 0
		if sub.required != "" && absent && !d.bad[subPath] {
			d.missing(f, sub, path, subPath)
		}
		switch {
		case d.bad[subPath]:
		case sub.kind == section:
			d.required(sub, value, subPath)
		case sub.kind == dictionary:
			d.requiredOfDictionary(sub, value, subPath)
		case sub.kind == list:
			for i := range value.Len() {
				if entry := fmt.Sprintf("%s[%d]", subPath, i); !d.bad[entry] {
					d.required(sub, value.Index(i), entry)
				}
			}
		}
	}
}

func (d *decoder) missing(parent, f *field, path, subPath string) {
	d.bad[subPath] = true
	pos := d.where[""]
	for _, nearest := range []string{path, subPath} {
		if at, ok := d.where[nearest]; ok {
			pos = at
		}
	}
	fix := fmt.Sprintf("add %s: %s", f.key, f.required)
	switch {
	case f.kind == list:
		fix = fmt.Sprintf("add %s:\n  - %s: %s", f.key, f.fields[0].key, f.fields[0].required)
	case parent.kind == section && path != "":
		fix = fmt.Sprintf("add below %s:\n  %s: %s", path, f.key, f.required)
	}
	d.report(diag.Error{Code: diag.MissingValue, Pos: pos, What: subPath + " is missing",
		Cause: "it has no default, and an empty value counts as not set", Fix: fix})
}

// checkParkTo ensures that messages of parked items do not go to the topic of changes.
func (d *decoder) checkParkTo(c *Config) {
	if topic := c.Errors.Topic(); topic != "" && topic == c.Relay.Topic {
		d.report(diag.Error{Code: diag.InvalidValue, Pos: d.where["errors.park_to"], What: "errors.park_to is the same topic as relay.pubsub_topic",
			Cause: "programs that apply or consume changes cannot read the messages of parked items", Fix: "name another topic"})
	}
}

// checkTables fills in the settings that entries inherit, and checks the entries together.
func (d *decoder) checkTables(c *Config) {
	sources, targets := map[string]int{}, map[string]int{} // index of the entry with each name
	for i := range c.Tables {
		t, path := &c.Tables[i], fmt.Sprintf("tables[%d]", i)
		t.where, t.written, t.refused, t.index = d.where, d.written, d.bad, i
		t.splitARN()
		if t.Start == "" {
			t.Start = c.Source.Start
		}
		if t.From == "" || !d.checkPattern(t, path) {
			continue // already reported
		}
		if first, ok := sources[t.Glob()]; ok { // patterns that differ only in the names of their parts match the same tables
			d.duplicate(t, &c.Tables[first])
			t.To = cmp.Or(t.To, t.From)
			continue
		}
		sources[t.Glob()] = i
		pos, ok := d.target(t, path)
		if !ok {
			d.bad[path] = true // skips the check of the entry's mapping
			continue
		}
		t.merged = t.merged || c.Target.Shared
		for _, to := range t.targets() {
			if first, ok := targets[to]; ok {
				// checkMappings checks whether two tables can write the same row.
				t.merged, c.Tables[first].merged = true, true
			}
			targets[to] = i
			if to == c.State.Table {
				d.report(diag.Error{Code: diag.TargetIsState, Pos: pos, What: fmt.Sprintf("%s: the target %s is the state table", path, to),
					Cause: "state.table is " + c.State.Table})
			}
		}
		if t.KeepVersions && c.Relay.Topic != "" {
			d.report(diag.Error{Code: diag.HistoryImpossible, Pos: d.where[path+".keep_versions"], What: path + ".keep_versions does not work with relay.pubsub_topic",
				Cause: "changes from a topic arrive in any order, and older cells must be written in order"})
		}
	}
	d.checkARNs(c)
}

// target determines the name of an entry's target, and returns the position for errors about that
// name. It returns false if there is no valid name.
func (d *decoder) target(t *Table, path string) (diag.Position, bool) {
	if d.bad[path+".to"] {
		return diag.Position{}, false
	}
	if pos, given := d.where[path+".to"]; given {
		return pos, true
	}
	pos := d.where[path+".from"]
	if t.IsPattern() {
		d.report(diag.Error{Code: diag.TargetNameNeeded, Pos: pos, What: path + ".from: a pattern needs the name of a target table",
			Cause: "all tables of a pattern go to one Bigtable table", Fix: "add to this entry:\n  to: a name of at most 50 characters that begins with a letter, a digit or '_'"})
		return pos, false
	}
	if !bigtableTable.MatchString(t.From) {
		d.report(diag.Error{Code: diag.TargetNameNeeded, Pos: pos, What: path + ".from: this name is not a valid name of a Bigtable table",
			Cause: targetNameCause(t.From), Fix: "add to this entry:\n  to: a name of at most 50 characters that begins with a letter, a digit or '_'"})
		return pos, false
	}
	t.To = t.From
	return pos, true
}

func targetNameCause(from string) string {
	if len(from) > 50 {
		return fmt.Sprintf("Bigtable table names have at most 50 characters, this one has %d", len(from))
	}
	return "Bigtable table names begin with a letter, a digit or '_'"
}

// sorted returns the findings in the file by position, and then those in variables and flags.
func sorted(found diag.List) diag.List {
	slices.SortStableFunc(found, func(a, b *diag.Error) int {
		if (a.Pos.Line == 0) != (b.Pos.Line == 0) {
			if a.Pos.Line == 0 {
				return 1
			}
			return -1
		}
		return cmp.Or(cmp.Compare(a.Pos.Line, b.Pos.Line), cmp.Compare(a.Pos.Column, b.Pos.Column))
	})
	return found
}
