package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"
	"github.com/rogpeppe/go-internal/testscript"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// TestRunbooksAreExecuted: the script of a page's name runs every command of a page in
// docs/runbooks, in the same order, and expects every line of output that the page shows.
func TestRunbooksAreExecuted(t *testing.T) {
	found, err := filepath.Glob(filepath.Join(repository, "docs/runbooks/*.md"))
	if err != nil || len(found) < 4 {
		t.Fatal(found, err)
	}
	for _, path := range found {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(path), ".md")
		script, err := os.ReadFile(scriptFiles(t, "runbook_"+strings.ReplaceAll(name, "-", "_"))[0])
		if err != nil {
			t.Fatal(err)
		}
		run := executed(string(script))
		outputs := expected(t, string(script))
		for _, b := range (page{text: string(text)}).blocks() {
			if b.language == "text" {
				for line := range strings.Lines(b.text) {
					line = strings.TrimRight(line, "\n")
					if !slices.ContainsFunc(outputs, func(o *regexp.Regexp) bool { return o.MatchString(line) }) {
						t.Errorf("%s: its script expects no such line: %s", path, line)
					}
				}
			}
			if b.language != "sh" {
				continue
			}
			for _, words := range commandsOf(b.text) {
				command := strings.Join(words, " ")
				for len(run) > 0 && run[0] != command {
					run = run[1:]
				}
				if len(run) == 0 {
					t.Fatalf("%s: its script does not run, or not in this order: %s", path, command)
				}
				run = run[1:]
			}
		}
	}
}

// expected returns the output lines that a script expects.
func expected(t *testing.T, script string) (found []*regexp.Regexp) {
	t.Helper()
	for _, m := range regexp.MustCompile(`(?m)^(?:stdout|stderr|until) '(.*?)'`).FindAllStringSubmatch(script, -1) {
		e, err := regexp.Compile(m[1])
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, e)
	}
	return found
}

// executed returns this program's commands in a script, without flags that only tests need.
func executed(script string) []string {
	ours := regexp.MustCompile(` --(allow-emulator|listen off|log-format text|idle 200ms)`)
	var found []string
	for line := range strings.Lines(script) {
		if at := strings.Index(line, "replicator "); at >= 0 && !strings.HasPrefix(line, "#") {
			for _, words := range commandsOf(ours.ReplaceAllString(line[at:], "")) {
				found = append(found, strings.Join(words, " "))
			}
		}
	}
	return found
}

// until REGEXP COMMAND… repeats a command until its stdout matches.
func untilOutput(ts *testscript.TestScript, _ bool, args []string) {
	want := regexp.MustCompile("(?m)" + args[0])
	var out []byte
	for began := time.Now(); time.Since(began) < time.Minute; {
		c := exec.Command(args[1], args[2:]...)
		c.Dir, c.Env = ts.MkAbs("."), append(os.Environ(), servicesOf(ts).environment()...)
		c.Env = append(c.Env, "AWS_CONFIG_FILE=/nowhere", "AWS_SHARED_CREDENTIALS_FILE=/nowhere", "PATH="+ts.Getenv("PATH"))
		if out, _ = c.Output(); want.Match(out) {
			_, err := ts.Stdout().Write(out)
			ts.Check(err)
			return
		}
	}
	ts.Fatalf("the output never was like %s; at last:\n%s", args[0], out)
}

// backup is a copy of a Bigtable table.
type backup struct {
	families map[string]bigtable.Family
	rows     []bigtable.Row
}

// changeTarget is `target` with one of: backup TABLE, restore TABLE, drop TABLE, delete TABLE ROW.
// A restored table replaces the existing one.
func changeTarget(ts *testscript.TestScript, _ bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := grpc.NewClient("passthrough:///"+servicesOf(ts).bigtable, grpc.WithTransportCredentials(insecure.NewCredentials()))
	ts.Check(err)
	defer conn.Close()
	admin, err := bigtable.NewAdminClient(ctx, "p", "i", option.WithGRPCConn(conn))
	ts.Check(err)
	client, err := bigtable.NewClient(ctx, "p", "i", option.WithGRPCConn(conn))
	ts.Check(err)
	switch table := args[1]; args[0] {
	case "drop":
		ts.Check(admin.DeleteTable(ctx, table))
	case "delete":
		m := bigtable.NewMutation()
		m.DeleteRow()
		ts.Check(client.Open(table).Apply(ctx, args[2], m))
	case "set": // ROW FAMILY QUALIFIER VALUE, as another program would
		m := bigtable.NewMutation()
		m.Set(args[3], args[4], bigtable.Now(), []byte(args[5]))
		ts.Check(client.Open(table).Apply(ctx, args[2], m))
	case "backup":
		info, err := admin.TableInfo(ctx, table)
		ts.Check(err)
		b := &backup{families: map[string]bigtable.Family{}}
		for _, f := range info.FamilyInfos {
			b.families[f.Name] = bigtable.Family{GCPolicy: f.FullGCPolicy, ValueType: f.ValueType}
		}
		ts.Check(client.Open(table).ReadRows(ctx, bigtable.InfiniteRange(""), func(r bigtable.Row) bool {
			b.rows = append(b.rows, r)
			return true
		}))
		ts.Value(slotKey{}).(*slot).backup = b
	case "restore":
		b := ts.Value(slotKey{}).(*slot).backup
		ts.Check(admin.DeleteTable(ctx, table))
		ts.Check(admin.CreateTableFromConf(ctx, &bigtable.TableConf{TableID: table, ColumnFamilies: b.families}))
		for _, row := range b.rows {
			m := bigtable.NewMutation()
			for family, cells := range row {
				for _, c := range cells {
					m.Set(family, strings.TrimPrefix(c.Column, family+":"), c.Timestamp, c.Value)
				}
			}
			ts.Check(client.Open(table).Apply(ctx, row.Key(), m))
		}
	default:
		ts.Fatalf("target cannot %s", args[0])
	}
}
