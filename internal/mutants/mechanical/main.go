// Mechanical plants thousands of bugs in the replicator by rule, and shows which of them the simulation finds:
//
//	go run ./internal/mutants/mechanical -seeds 10 -table survivors.txt
//	go run ./internal/mutants/mechanical -only 'keeper.go.*discover'
//	go run ./internal/mutants/mechanical -unreached
//
// Where internal/mutants has bugs that somebody thought of, this has those that nobody did: conditions that count as true or false, bounds
// that are moved, statements left out or too early, errors swallowed, numbers off by one, fields not set, arguments exchanged. All of them
// are built into one program by way of the compiler's overlay, each behind its number (package planted).
//
// First some seeds are played without any bug, to see which of them come to each place, and to which a bug there would make a difference. Then
// each bug is awake in some of those. What survives is for people to judge: a bug may be none, or cost time alone. For those the tests of the
// package itself are run as well, with -tests.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"
)

func main() {
	var o options
	flag.IntVar(&o.seeds, "seeds", 10, "how many seeds each bug is awake in")
	flag.IntVar(&o.watched, "watched", 200, "how many fresh seeds are played without a bug to choose from")
	flag.Uint64Var(&o.from, "from", 0, "the first of them")
	packages := flag.String("packages", "internal/pipeline,checkpoint,sink,cdc,backfill,transform", "where bugs are planted")
	only := flag.String("only", "", "bugs whose description, as in the table, matches this regular expression")
	except := flag.String("except", `\.events\.`, "bugs that are left out though -only matches them")
	again := flag.String("again", "", "a table: what survived in it, and nothing else")
	flag.StringVar(&o.table, "table", "", "write what became of each bug to this file")
	flag.BoolVar(&o.unreached, "unreached", false, "print what no watched seed comes to, and end")
	flag.BoolVar(&o.tests, "tests", false, "run the package's own tests for what survives")
	flag.DurationVar(&o.limit, "limit", time.Minute, "how long a bug may be awake: one that has something go on without end is found by it")
	flag.IntVar(&o.parallel, "parallel", runtime.GOMAXPROCS(0), "how many bugs at once, each in a process of its own")
	flag.Parse()
	o.packages = strings.Split(*packages, ",")
	var err error
	if o.only, err = regexp.Compile(*only); err == nil {
		o.except, err = regexp.Compile(*except)
	}
	if err == nil && *again != "" {
		o.again, err = survivors(*again)
	}
	if err == nil {
		err = o.run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type options struct {
	seeds, watched, parallel int
	from                     uint64
	packages                 []string
	only, except             *regexp.Regexp
	again                    map[string]bool
	table                    string
	unreached, tests         bool
	limit                    time.Duration
}

func (o options) run() error {
	dir, err := os.MkdirTemp("", "mechanical")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	began := time.Now()
	overlay, points, err := plant(".", dir, o.packages)
	if err != nil {
		return err
	}
	h := &hunt{options: o, dir: dir, points: points}
	if err := h.build(overlay); err != nil {
		return err
	}
	fmt.Printf("%d bugs are built in %s\n", len(points), time.Since(began).Round(time.Second))
	if err := h.watch(); err != nil {
		return err
	}
	fmt.Printf("%d seeds are watched in %s\n", o.watched, time.Since(began).Round(time.Second))
	if o.unreached {
		fmt.Print(h.missing())
		return nil
	}
	verdicts := h.all()
	fmt.Printf("all in %s\n%s", time.Since(began).Round(time.Second), h.summary(verdicts))
	if o.table == "" {
		return nil
	}
	return os.WriteFile(o.table, []byte(h.summary(verdicts)+h.lines(verdicts)), 0o644)
}

// lineNumber is left out where bugs are compared, because lines move.
var lineNumber = regexp.MustCompile(`:\d+ \|`)

// survivors are the bugs of a table that survived.
func survivors(table string) (map[string]bool, error) {
	text, err := os.ReadFile(table)
	all := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if bug, ok := strings.CutSuffix(line, " | "+string(survived)+"\n"); ok {
			all[lineNumber.ReplaceAllString(bug, " |")] = true
		}
	}
	return all, err
}

// build compiles what plays the seeds, and the tests if they are asked for.
func (h *hunt) build(overlay string) error {
	commands := [][]string{{"build", "-overlay", overlay, "-o", filepath.Join(h.dir, "play"), "./internal/mutants/mechanical/play"}}
	for _, p := range h.packages {
		if h.tests {
			commands = append(commands, []string{"test", "-c", "-vet=off", "-overlay", overlay, "-o", h.testsOf(p), "./" + p})
		}
	}
	for _, command := range commands {
		if out, err := exec.Command("go", command...).CombinedOutput(); err != nil {
			return errors.Join(fmt.Errorf("go %s: %w", strings.Join(command, " "), err), errors.New(string(out)))
		}
	}
	return nil
}
