// Mutants shows that the simulation (internal/sim) finds what it is for: it plants one known bug at a time, by way of the compiler's
// overlay, so that nothing of it is in the tree, and plays seeds until a checker fails.
//
//	go run ./internal/mutants
//
// It prints, for each mutant, the seeds needed and what caught it, and fails if one survives its budget. Bugs at places the
// simulation does not run are not here: the filters that Bigtable executes and the type of iterator asked for belong to the
// conformance suites of sink and cdc; that a lease is trusted from when its renewal was sent is efficiency, and no checker can see it.
// Images older than tombstones are kept from being put by a test of sink alone: here no delay comes near the age of a tombstone.
// That a child is covered up to when its parent was done, rather than by what listings showed, takes two outages in a row that no seed of a
// small budget has: TestReopen of checkpoint holds it.
// An orphan without a gap loses nothing once its parent is listed after all; TestH76_OrphanIsNoRoot holds that it is declared.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	seeds := flag.Uint64("seeds", 600, "the budget of seeds of each mutant")
	from := flag.Uint64("from", 0, "the first seed")
	only := flag.String("only", "", "mutants whose names contain this")
	table := flag.String("table", "", "write the table to this file as well")
	flag.Parse()
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	defer os.RemoveAll(dir)
	var text strings.Builder
	survivors := 0
	for _, m := range mutants {
		if !strings.Contains(m.name, *only) {
			continue
		}
		began := time.Now()
		line, killed := m.run(dir, *from, *seeds)
		if !killed {
			survivors++
		}
		fmt.Printf("%-42s %-9s %5.1f s  %s\n", m.name, m.hazard, time.Since(began).Seconds(), line)
		fmt.Fprintf(&text, "%-42s %-9s %s\n", m.name, m.hazard, line)
	}
	if *table != "" {
		if err := os.WriteFile(*table, []byte(text.String()), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}
	if survivors > 0 {
		fmt.Printf("%d mutants survive\n", survivors)
		os.Exit(1)
	}
}

// run builds the simulation with the mutant and plays seeds, one core after the other, until one fails.
func (m mutant) run(dir string, from, seeds uint64) (line string, killed bool) {
	mutated, err := m.apply(".")
	if err != nil {
		return err.Error(), false
	}
	source, overlay, binary := filepath.Join(dir, "mutant.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "soak")
	path, err := filepath.Abs(m.file)
	if err != nil {
		return err.Error(), false
	}
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {path: source}})
	if err != nil {
		return err.Error(), false
	}
	for name, data := range map[string][]byte{source: []byte(mutated), overlay: replace} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			return err.Error(), false
		}
	}
	if out, err := exec.Command("go", "build", "-overlay", overlay, "-o", binary, "./internal/sim/soak").CombinedOutput(); err != nil {
		return "does not build: " + string(out), false
	}
	out, err := exec.Command(binary, "-quiet", "-failures", "1", "-budget", "2m", "-from", fmt.Sprint(from), "-seeds", fmt.Sprint(seeds)).CombinedOutput()
	first, _, _ := strings.Cut(string(out), "\n")
	if err == nil || !strings.HasPrefix(first, "FAIL seed ") {
		return "SURVIVES " + first, false
	}
	words := strings.SplitN(first, ": ", 3)
	var seed uint64
	_, _ = fmt.Sscanf(first, "FAIL seed %d", &seed)
	why := words[len(words)-1]
	return fmt.Sprintf("%3d seeds  %-4s %s", seed-from+1, words[min(1, len(words)-1)], why[:min(len(why), 90)]), true
}

// apply is the mutant's file with the bug in it. The text must occur exactly once: a mutant that no longer applies proves nothing.
func (m mutant) apply(root string) (string, error) {
	data, err := os.ReadFile(filepath.Join(root, m.file))
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(data), m.old); n != 1 {
		return "", fmt.Errorf("mutant %q: its text occurs %d times in %s", m.name, n, m.file)
	}
	return strings.Replace(string(data), m.old, m.new, 1), nil
}
