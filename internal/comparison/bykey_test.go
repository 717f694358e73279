package comparison

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/test/kit"
)

// keyed compares the items with the given partition keys.
func (s *scene) keyed(change func(o *Operator), keys ...string) (*Keys, string) {
	s.Helper()
	d, code := s.begin(func(o *Operator) {
		for _, pk := range keys {
			o.Keys = append(o.Keys, keyText(pk))
		}
		if change != nil {
			change(o)
		}
	})
	if len(d.Tables) == 0 {
		return nil, code
	}
	return d.Tables[0].Keys, code
}

func keyText(pk string) string { return fmt.Sprintf(`{"pk":%q}`, pk) }

// results returns the listed results as text.
func (k *Keys) results() (all []string) {
	for _, key := range k.Listed {
		text := fmt.Sprint(key.Number, " ", key.Result)
		for _, f := range key.Rows {
			text += " " + f.Kind
			for _, c := range f.Columns {
				text += " " + c.Column
			}
		}
		all = append(all, text)
	}
	return all
}

// Each key has its own result. Rows of other items do not count, and the ledger's record of the table
// stays as it is.
func TestWhatAComparisonOfKeysFinds(t *testing.T) {
	playScene(t, func(s *scene) {
		s.Damage("orders", "b", "d", "total", "x")
		s.Damage("orders", "c", "", "", "")
		delete(s.Source.Items["Orders"], "d")
		s.Damage("orders", "e", "d", "total", "x") // not asked for
		before := s.Table("Orders").Verify
		k, code := s.keyed(nil, "a", "b", "c", "d", "nothing", "a")
		want := []string{"1 same", "2 differs different d:total", "3 differs missing d:pk d:total", "4 differs extra d:pk d:total", "5 same", "6 same"}
		if got := k.results(); code != diag.RowsDiffer || !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", code, got, want)
		}
		if k.Clean || !k.Complete || k.Keys != 6 || k.Same != 3 || k.Differing != 3 || k.Rows != 5 || k.EndedAt.Before(k.BegunAt) {
			t.Errorf("%+v", k)
		}
		if after := s.Table("Orders").Verify; after.Number != before.Number || after.Full != before.Full || after.Result != before.Result {
			t.Errorf("the record of the verify has changed: %+v", after)
		}
		if k, code = s.keyed(nil, "a", "f"); code != "" || !k.Clean || k.Same != 2 {
			t.Errorf("equal keys: %s: %+v", code, k)
		}
		if k, code = s.keyed(func(o *Operator) { o.ShowValues = true }, "b"); code != diag.RowsDiffer || k.Listed[0].Key == nil || *k.Listed[0].Rows[0].Columns[0].HaveValue != "x" {
			t.Errorf("with values: %s: %+v", code, k)
		}
	})
}

// A repair rewrites the rows of the given keys only. A dry run writes nothing.
func TestARepairOfKeys(t *testing.T) {
	playScene(t, func(s *scene) {
		s.Damage("orders", "b", "d", "total", "x")
		s.Damage("orders", "c", "", "", "")
		repairing := func(dry bool) func(o *Operator) { return func(o *Operator) { o.Repair, o.DryRun = true, dry } }
		if _, code := s.keyed(repairing(true), "b"); code != diag.RowsDiffer {
			t.Errorf("a dry run: %q", code)
		}
		if k, code := s.keyed(repairing(false), "b"); code != "" || k.Differing != 1 {
			t.Errorf("%q: %+v", code, k)
		}
		k, code := s.keyed(nil, "b", "c")
		if got := k.results(); code != diag.RowsDiffer || !slices.Equal(got, []string{"1 same", "2 differs missing d:pk d:total"}) {
			t.Errorf("%q: %q", code, got)
		}
	})
}

// A change that no worker applies leaves its key in flight. A damaged row is found nevertheless.
func TestKeysInFlight(t *testing.T) {
	playScene(t, func(s *scene) {
		s.Sleep(time.Minute)
		s.StopWorker()
		s.Sleep(10 * time.Minute)
		s.Must(s.Source.Put(s.Ctx, "Orders", kit.Item("d", "total=new")))
		s.Damage("orders", "c", "", "", "")
		k, code := s.keyed(func(o *Operator) { o.reach = s.reading }, "a", "c", "d")
		if got := k.results(); code != diag.RowsDiffer || !slices.Equal(got, []string{"1 same", "2 differs missing d:pk d:total", "3 in_flight in_flight d:total"}) {
			t.Errorf("%q: %q", code, got)
		}
		if k, code = s.keyed(func(o *Operator) { o.reach = s.reading }, "d"); code != diag.RowsDiffer || k.Clean || k.InFlight != 1 {
			t.Errorf("only in flight: %q: %+v", code, k)
		}
	})
}

// Keys come from a file or from stdin, one in each line. Errors name the line, and come before the
// first comparison if the keys are in a file.
func TestFilesOfKeys(t *testing.T) {
	playScene(t, func(s *scene) {
		dir := t.TempDir()
		name := filepath.Join(dir, "keys.jsonl")
		for text, want := range map[string]string{
			keyText("a") + "\n\n" + ` {"pk":{"S":"b"}}` + "\r\n": "",
			"\ufeff" + keyText("a"):                              "",
			"":                                                   "it has no key",
			"\n\n":                                               "it has no key",
			keyText("a") + "\nnonsense":                          "line 2 of " + name + ": it is not a JSON object",
			`{"pk":"a","x":1}`:                                   "line 1 of " + name + `: "x" is not part of the primary key`,
			`{"x":"a"}`:                                          `"x" is not part of the primary key`,
			`{}`:                                                 `attribute "pk" is missing`,
			`{"pk":7}`:                                           `attribute "pk" is of type S in the table`,
			strings.Repeat(" ", longestKey+1):                    "line 1 has more than",
		} {
			s.Must(os.WriteFile(name, []byte(text), 0o600))
			s.stdout.Reset()
			err := s.operator(func(o *Operator) { o.KeysFile = name }).Begin(s.Ctx)
			if (err == nil) != (want == "") || err != nil && (!diag.Has(err, diag.Usage) || !strings.Contains(err.Error(), want)) {
				t.Errorf("%.40q: %v, want %q", text, err, want)
			}
			if err != nil && s.stdout.Len() > 0 {
				t.Errorf("%.40q: %s", text, &s.stdout)
			}
		}
		for _, missing := range []string{filepath.Join(dir, "none"), dir} {
			if err := s.operator(func(o *Operator) { o.KeysFile = missing }).Begin(s.Ctx); !diag.Has(err, diag.Usage) {
				t.Errorf("%s: %v", missing, err)
			}
		}
		k, code := s.keyed(func(o *Operator) { o.KeysFile, o.Stdin = "-", strings.NewReader(keyText("a")+"\n"+keyText("b")) })
		if code != "" || k.Same != 2 || k.Listed[1].Number != 2 {
			t.Errorf("from stdin: %q: %+v", code, k)
		}
		err := s.operator(func(o *Operator) { o.KeysFile, o.Stdin = "-", strings.NewReader(keyText("a")+"\n{}") }).Begin(s.Ctx)
		if !diag.Has(err, diag.Usage) || !strings.Contains(err.Error(), "line 2 of stdin") {
			t.Errorf("from stdin: %v", err)
		}
	})
}

// Keys need the name of a table if there are several. A table that no worker follows is refused.
func TestKeysThatAreRefused(t *testing.T) {
	playScene(t, func(s *scene) {
		several := *s.Config
		several.Tables = append(slices.Clone(several.Tables), config.Table{From: "Other"})
		err := s.operator(func(o *Operator) { o.Cfg, o.Table, o.Keys = &several, "", []string{keyText("a")} }).Begin(s.Ctx)
		if !diag.Has(err, diag.Usage) || !strings.Contains(err.Error(), "has several") {
			t.Errorf("several tables: %v", err)
		}
		s.Change("Orders", unfollowed)
		if _, code := s.keyed(nil, "a"); code != diag.VerifyRefused {
			t.Errorf("a table that no worker follows: %q", code)
		}
	})
}

// Many keys are compared in batches. What was compared before an error is shown, and is not clean.
func TestManyKeys(t *testing.T) {
	playScene(t, func(s *scene) {
		const many = 2*keysAtOnce + 5
		var lines strings.Builder
		for i := range many {
			pk := "a"
			if i == many-1 {
				pk = "c"
			}
			lines.WriteString(keyText(pk) + "\n")
		}
		s.Damage("orders", "c", "", "", "")
		read := func(o *Operator) { o.KeysFile, o.Stdin = "-", strings.NewReader(lines.String()) }
		k, code := s.keyed(read)
		if code != diag.RowsDiffer || k.Keys != many || k.Same != many-1 || len(k.Listed) != mostSame+1 || k.Listed[mostSame].Number != many || k.Rows != 4 {
			t.Errorf("%q: %d keys, %d same, %d listed, %d rows", code, k.Keys, k.Same, len(k.Listed), k.Rows)
		}
		failing := errors.New("a read failed")
		s.stdout.Reset()
		err := s.operator(func(o *Operator) {
			o.KeysFile, o.Stdin = "-", &brokenReader{strings.NewReader(lines.String()), failing}
		}).Begin(s.Ctx)
		if err == nil || !strings.Contains(err.Error(), failing.Error()) {
			t.Errorf("a file that breaks: %v", err)
		}
	})
}

// brokenReader fails where its text ends.
type brokenReader struct {
	text *strings.Reader
	err  error
}

func (r *brokenReader) Read(b []byte) (int, error) {
	if r.text.Len() == 0 {
		return 0, r.err
	}
	return r.text.Read(b)
}

// The text for people lists the keys, and says what to do.
func TestTheTextOfKeys(t *testing.T) {
	playScene(t, func(s *scene) {
		s.Damage("orders", "b", "d", "total", "x")
		s.stdout.Reset()
		err := s.operator(func(o *Operator) { o.Output, o.Keys = "text", []string{keyText("a"), keyText("b")} }).Begin(s.Ctx)
		text := s.stdout.String()
		for _, want := range []string{"KEYS  SAME  DIFFER", "  same\n", "  differs\n", "different row in orders  d:total"} {
			if !strings.Contains(text, want) {
				t.Errorf("the text has no %q:\n%s", want, text)
			}
		}
		if strings.Contains(text, `"pk"`) || err == nil || !strings.Contains(err.Error(), "1 key of table Orders differs") {
			t.Errorf("%v\n%s", err, text)
		}
	})
}

// The report of keys has a line for each row that differs, and their counts. Its page has no keys.
func TestAReportOfKeys(t *testing.T) {
	playScene(t, func(s *scene) {
		s.Damage("orders", "b", "d", "total", "secret")
		name := filepath.Join(t.TempDir(), "keys.jsonl")
		s.keyed(func(o *Operator) { o.Report = name }, "a", "b")
		lines, err := os.ReadFile(name)
		s.Must(err)
		var found, last line
		parts := strings.Split(strings.TrimSpace(string(lines)), "\n")
		s.Must(errors.Join(json.Unmarshal([]byte(parts[0]), &found), json.Unmarshal([]byte(parts[1]), &last)))
		if len(parts) != 2 || found.Kind != "different" || found.Row != "b" || last.Keys == nil || last.Keys.Same != 1 || last.Result != nil || len(last.Keys.Listed) > 0 {
			t.Errorf("%s", lines)
		}
		page, err := os.ReadFile(pageName(name))
		s.Must(err)
		if text := string(page); !strings.Contains(text, "1 of 2 keys differ") || strings.Contains(text, "secret") || strings.Contains(text, "pk") {
			t.Errorf("%s", text)
		}
	})
}

// A read that DynamoDB refuses as invalid ends the command at once. Any other failure is retried for the
// operator's patience, and shown.
func TestReadsThatFail(t *testing.T) {
	playScene(t, func(s *scene) {
		for reason, retried := range map[cdc.Reason]bool{cdc.Malformed: false, cdc.Denied: true, cdc.Unavailable: true} {
			s.Source.Fail = func(call string) error {
				if call != "Get" {
					return nil
				}
				return &cdc.Error{Op: "GetItem", Reason: reason, Err: errors.New("no")}
			}
			began := s.Now()
			s.stderr.Reset()
			err := s.operator(func(o *Operator) { o.Keys = []string{keyText("a")} }).Begin(s.Ctx)
			if took := s.Now().Sub(began); err == nil || (took >= patience) != retried || took > 2*patience {
				t.Errorf("%s: %v after %s", reason, err, took)
			}
			if shown := strings.Count(s.stderr.String(), "Orders  retrying for at most 2m: GetItem: "); shown != 1 && retried || shown > 1 {
				t.Errorf("%s: %s", reason, &s.stderr)
			}
		}
	})
}

// A signal ends the command without a result.
func TestKeysThatAreInterrupted(t *testing.T) {
	playScene(t, func(s *scene) {
		ctx, cancel := context.WithCancel(s.Ctx)
		cancel()
		s.stdout.Reset()
		if err := s.operator(func(o *Operator) { o.Keys = []string{keyText("a")} }).Begin(ctx); err == nil || s.stdout.Len() > 0 {
			t.Errorf("%v: %s", err, &s.stdout)
		}
	})
}
