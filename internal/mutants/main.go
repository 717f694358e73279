// Mutants shows that what protects the promise is watched: it plants bugs by way of the compiler's overlay, so that nothing of them is in
// the tree, wakes one at a time, and fails if one survives.
//
//	go run ./internal/mutants                            # from fresh seeds alone
//	go run ./internal/mutants -kept bench/mutants.txt    # first the seed that found it last time
//	go run ./internal/mutants -only "no hop"
//
// Most are found by the simulation of the whole system (internal/sim): seeds are played until a checker fails. The simulation takes the
// place of both services, so that what only the real clients do (the filter that Bigtable executes, the type of iterator asked for, the
// decoding of answers) is found by the tests that the table names. So is what is one of two lines of defence of which the other holds,
// and what only makes others wait.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

func main() {
	var o options
	flag.Uint64Var(&o.fresh.number, "seeds", 400, "the budget of fresh seeds of each mutant")
	flag.Uint64Var(&o.fresh.from, "from", 0, "the first fresh seed")
	flag.StringVar(&o.only, "only", "", "mutants whose names match this regular expression")
	flag.StringVar(&o.kept, "kept", "", "a table of an earlier run: its seeds are played before the fresh ones")
	flag.StringVar(&o.table, "table", "", "write the table to this file as well")
	flag.IntVar(&o.parallel, "parallel", runtime.GOMAXPROCS(0), "how many mutants at once")
	flag.Parse()
	if err := o.run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type options struct {
	fresh             seeds
	only, kept, table string
	parallel          int
}

func (o options) run() error {
	if o.only != "" && o.table != "" {
		return errors.New("-only with -table would write a part of the table for the whole")
	}
	known, err := readTable(o.kept)
	if err != nil {
		return err
	}
	chosen, err := matching(o.only)
	if err != nil {
		return err
	}
	if len(chosen) == 0 {
		return fmt.Errorf("no mutant is called %q", o.only)
	}
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	began := time.Now()
	h, err := build(dir, chosen)
	if err != nil {
		return err
	}
	fmt.Printf("%d mutants are built in %s\n", len(chosen), time.Since(began).Round(time.Second))
	text, survivors := o.huntAll(h, known)
	fmt.Printf("%d mutants in %s, %d survive\n", len(chosen), time.Since(began).Round(time.Second), survivors)
	if o.table != "" {
		if err := os.WriteFile(o.table, []byte(tableHead(o.fresh)+text), 0o644); err != nil {
			return err
		}
	}
	if survivors > 0 {
		return fmt.Errorf("%d mutants survive", survivors)
	}
	return nil
}

// huntAll hunts some mutants at once, and prints what became of each in the order of the table.
func (o options) huntAll(h *hunters, known map[string]uint64) (text string, survivors int) {
	verdicts := make([]chan verdict, len(h.all))
	for i := range verdicts {
		verdicts[i] = make(chan verdict, 1)
	}
	go func() {
		turns := make(chan struct{}, max(1, o.parallel))
		for i, m := range h.all {
			turns <- struct{}{}
			go func() {
				ranges := []seeds{o.fresh}
				if seed, ok := known[m.name]; ok {
					ranges = []seeds{{seed, 1}, o.fresh}
				}
				verdicts[i] <- h.hunt(i, ranges...)
				<-turns
			}()
		}
	}()
	var b strings.Builder
	for i, m := range h.all {
		v := <-verdicts[i]
		if !v.killed {
			survivors++
		}
		line := tableLine(m, v)
		fmt.Printf("%5.1f s  %s\n", v.took.Seconds(), line)
		fmt.Fprintln(&b, line)
	}
	return b.String(), survivors
}

func matching(only string) ([]mutant, error) {
	pattern, err := regexp.Compile(only)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(mutants(), func(m mutant) bool { return !pattern.MatchString(m.name) }), nil
}
