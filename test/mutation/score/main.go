// Score plants bugs by rule in a package, and prints how many bugs of a sample its own tests find,
// in percent:
//
//	go run ./test/mutation/score                          # the packages of floors.txt; fails if one is below its floor
//	go run ./test/mutation/score -packages cdc -lived     # and the bugs that no test finds
//
// The rules: a condition is always true or false, a bound moves, a statement is left out, an error
// is swallowed, a number is one too large, a field is not set. All bugs of a package are built into
// one test program, each selected by its number (package byrule). Each bug of a sample is active in
// one run of the tests. The sample is chosen by hashes of the code's text, so a change of one
// function does not change the sample of others. A bug that no test finds may change no behaviour.
// If it breaks a promise, it needs a test.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/test/mutation/score/byrule"
)

// floorsFile has a line for each package: its name and its minimum, in percent.
const floorsFile = "test/mutation/score/floors.txt"

func main() {
	var o options
	packages := flag.String("packages", "", "packages, with a comma between them; empty: those of "+floorsFile)
	flag.IntVar(&o.sample, "sample", 40, "how many bugs of each package")
	flag.Uint64Var(&o.seed, "seed", 1, "of the sample")
	flag.BoolVar(&o.lived, "lived", false, "print the bugs that no test finds")
	flag.Parse()
	if err := o.run(strings.FieldsFunc(*packages, func(r rune) bool { return r == ',' })); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type options struct {
	sample int
	seed   uint64
	lived  bool
}

func (o options) run(packages []string) error {
	text, err := os.ReadFile(floorsFile)
	if err != nil {
		return err
	}
	floors, names, err := parseFloors(string(text))
	if err != nil {
		return err
	}
	if len(packages) == 0 {
		packages = names
	}
	var below []error
	for _, name := range packages {
		began := time.Now()
		score, err := o.score(name)
		if err != nil {
			return err
		}
		fmt.Printf("%-20s %3d %%, floor %d %%, in %s\n", name, score, floors[name], time.Since(began).Round(time.Second))
		if score < floors[name] {
			below = append(below, fmt.Errorf("%s: its tests find %d %% of the sample, and the floor is %d %%: see with -packages %s -lived what they miss, and test what breaks a promise", name, score, floors[name], name))
		}
	}
	return errors.Join(below...)
}

// score returns the share of the sample's bugs that tests find, in percent.
func (o options) score(name string) (int, error) {
	dir, err := os.MkdirTemp("", "score")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	overlay, sites, err := instrument(".", dir, name)
	if err != nil {
		return 0, err
	}
	program := filepath.Join(dir, "package.test")
	if out, err := exec.Command("go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", program, "./"+name).CombinedOutput(); err != nil {
		return 0, fmt.Errorf("go test -c ./%s with bugs by rule: %w\n%s", name, err, out)
	}
	began := time.Now()
	if out, passes := o.test(program, name, 0, 10*time.Minute); !passes {
		return 0, fmt.Errorf("the tests of %s fail without a bug: mend them first\n%s", name, out)
	}
	limit := 10*time.Second + 4*time.Since(began) // a bug counts as found if the tests take longer
	sample := draw(sites, o.sample, o.seed)
	found := 0
	for _, p := range sample {
		if _, passes := o.test(program, name, p.number, limit); !passes {
			found++
		} else if o.lived {
			fmt.Printf("lives: %s/%s (line %d)\n", name, p.text(), p.line)
		}
	}
	return 100 * found / max(1, len(sample)), nil
}

// test runs the tests with one bug active, or with 0 none.
func (o options) test(program, name string, number int, limit time.Duration) (out []byte, passes bool) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	c := exec.CommandContext(ctx, program, "-test.failfast")
	c.Dir, c.WaitDelay = name, time.Second
	c.Env = append(os.Environ(), fmt.Sprintf("%s=%d", byrule.Variable, number), "RAPID_SEED=1", "RAPID_NOFAILFILE=true")
	out, err := c.CombinedOutput()
	return out, err == nil
}

// draw returns the sites whose texts have the lowest hashes.
func draw(sites []site, number int, seed uint64) []site {
	hash := func(p site) uint64 {
		h := fnv.New64a()
		fmt.Fprintln(h, seed, p.text())
		return h.Sum64()
	}
	drawn := slices.Clone(sites)
	slices.SortStableFunc(drawn, func(a, b site) int { return cmp.Compare(hash(a), hash(b)) })
	return drawn[:min(number, len(drawn))]
}

func parseFloors(text string) (floors map[string]int, names []string, err error) {
	floors = map[string]int{}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		var name string
		var floor int
		if n, _ := fmt.Sscan(line, &name, &floor); n != 2 || floor < 0 || floor > 100 {
			return nil, nil, fmt.Errorf("%s: %q is no package with its floor: write for example \"cdc 80\"", floorsFile, line)
		}
		floors[name], names = floor, append(names, name)
	}
	return floors, names, nil
}
