package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// mutant is one planted bug: a text that occurs once in a file, within a function, and what takes its place.
type mutant struct {
	name string
	// hazards are the numbers in HAZARDS.md that it lets in; "" for what has none.
	hazards        string
	file, old, new string
	// test names what finds it, as "package pattern"; "" is the simulation. A mutant with a test has a reason in why: what keeps the
	// simulation from seeing it.
	test, why string
}

// mutants is the whole table.
func mutants() []mutant {
	return slices.Concat(inStream, inListing, inReader, inLineage, inFold, inEncoding, inGuard, inWriter, inKeeping, inLease, inLedger, inCoverage, inScan, inFollow, inKeeper, inBalance, inCopy,
		inReview, inSurvivors, inReach, inStatements, inOwnership, inMoves, inRules, inCounters, inTemplates, inOutside, inStrangers, inOutages, inGuests, inGuestsOfTheWriter, inPassersby, inBystanders, inCallers, inKeepers, inReaders, inEdges, inTellings, inBounds, inRounds)
}

// verdict is what became of a mutant.
type verdict struct {
	killed bool
	// by says what found it: a checker of the simulation and what it said, or tests; of a survivor, why it counts as one.
	by     string
	seed   uint64 // that found it
	needed uint64 // how many seeds were played until then; 0 if it was found by tests
	took   time.Duration
}

// range of seeds.
type seeds struct{ from, number uint64 }

// hunters are the programs that look for mutants: the simulation and the tests, with all mutants in them.
type hunters struct {
	dir string
	all []mutant
}

// build compiles what the mutants need into dir.
func build(dir string, all []mutant) (*hunters, error) {
	overlay, err := plant(".", dir, all)
	if err != nil {
		return nil, err
	}
	h := &hunters{dir, all}
	commands := map[string][]string{}
	for _, m := range all {
		if pkg, _, _ := strings.Cut(m.test, " "); pkg == "" {
			commands[h.simulation()] = []string{"build", "-overlay", overlay, "-ldflags=-s -w", "-o", h.simulation(), "./internal/sim/soak"}
		} else {
			commands[h.tests(pkg)] = []string{"test", "-c", "-vet=off", "-overlay", overlay, "-ldflags=-s -w", "-o", h.tests(pkg), pkg}
		}
	}
	for _, command := range commands {
		if out, err := exec.Command("go", command...).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("go %s: %w\n%s", strings.Join(command, " "), err, out)
		}
	}
	return h, nil
}

func (h *hunters) simulation() string { return filepath.Join(h.dir, "soak") }

func (h *hunters) tests(pkg string) string {
	return filepath.Join(h.dir, strings.ReplaceAll(strings.TrimPrefix(pkg, "./"), "/", "-")+".test")
}

// hunt wakes the mutant of the given index and runs what is to find it: tests, or the ranges of seeds one after the other.
func (h *hunters) hunt(i int, ranges ...seeds) (v verdict) {
	began := time.Now()
	defer func() { v.took = time.Since(began) }()
	if h.all[i].test != "" {
		return h.runTests(i)
	}
	for _, r := range ranges {
		if v = h.play(i, r); v.killed {
			break
		}
	}
	return v
}

// command runs with a mutant awake. Property tests draw the same cases every time, so that what is found once is found again, and write nothing of
// what failed into the tree.
func (h *hunters) command(i int, name string, arguments ...string) *exec.Cmd {
	c := exec.Command(name, arguments...)
	c.Env = append(os.Environ(), fmt.Sprintf("%s=%d", awake, i+1), "RAPID_SEED=1", "RAPID_NOFAILFILE=true")
	return c
}

// failure is the line that soak prints for a seed: the seed, the virtual hours, and what the first checker said.
var failure = regexp.MustCompile(`(?m)^FAIL seed (\d+) after [0-9.]+ virtual hours: (.*)$`)

// play plays seeds in their order until one fails.
func (h *hunters) play(i int, r seeds) verdict {
	out, err := h.command(i, h.simulation(), "-quiet", "-parallel", "1", "-failures", "1",
		"-from", fmt.Sprint(r.from), "-seeds", fmt.Sprint(r.number)).CombinedOutput()
	found := failure.FindStringSubmatch(string(out))
	if found == nil || err == nil {
		first, _, _ := strings.Cut(string(out), "\n")
		return verdict{by: "SURVIVES " + first}
	}
	v := verdict{killed: true, by: found[2]}
	_, _ = fmt.Sscan(found[1], &v.seed)
	v.needed = v.seed - r.from + 1
	return v
}

// failedTest is what a test binary prints for a test that failed, but not for its subtests.
var failedTest = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)

// runTests runs the tests that the table names.
func (h *hunters) runTests(i int) verdict {
	pkg, pattern, _ := strings.Cut(h.all[i].test, " ")
	c := h.command(i, h.tests(pkg), "-test.run", pattern, "-test.timeout", "3m")
	c.Dir = pkg
	out, err := c.CombinedOutput()
	text := string(out)
	var names []string
	for _, found := range failedTest.FindAllStringSubmatch(text, -1) {
		names = append(names, found[1])
	}
	if len(names) == 0 && strings.Contains(text, "panic: ") {
		names = []string{"panic in " + pattern}
	}
	var exit *exec.ExitError
	switch {
	case strings.Contains(text, "no tests to run"):
		return verdict{by: "no test is called " + pattern}
	case err == nil:
		return verdict{by: "SURVIVES " + h.all[i].test}
	case !errors.As(err, &exit) || len(names) == 0:
		return verdict{by: fmt.Sprintf("%v without a failing test: %s", err, text)}
	}
	return verdict{killed: true, by: strings.TrimPrefix(pkg, "./") + ": " + strings.Join(names, ", ")}
}
