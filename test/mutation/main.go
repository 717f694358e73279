// Mutation plants bugs that the simulation must find, one at a time:
//
//	go run ./test/mutation                           # the seed that found it last time, and fresh seeds if that one does not
//	go run ./test/mutation -hunt -seeds 400          # only fresh seeds; writes the seed that found each bug into its entry
//	go run ./test/mutation -only 'lease.go|no hop'   # bugs whose file or name matches
//	go run ./test/mutation -files 'sink/guard.go' -share 3/10   # those of these files, and a tenth of the others
//
// The bugs are text files below planted, one for each product file: planted/sink/guard.go.txt has
// those of sink/guard.go. An entry has a few fields, then the removed lines (-) and the new lines
// (+), as in a diff without context:
//
//	bug: no hop
//	hazards: H11
//	why: a child's sequence numbers may begin anew, and its changes are refused as old
//	found: seed 0
//	-	v := NewVersion(s.Generation, s.Hop, c.Sequence, CountExact)
//	+	v := NewVersion(s.Generation, 500_000, c.Sequence, CountExact)
//
// A blank line ends an entry; a line that begins with # is a comment. The removed text must occur
// once in the file, within one function. Surrounding space does not count, so it may be a part of a
// line. Omit found in a new entry: -hunt writes it.
//
// "plays: relay" lets the workers of its seeds publish what they apply. "plays: verifies" adds
// verifies and repairs, "plays: exports" loads from exports, "plays: mappings" replaced mappings,
// "plays: fast" fast loads, "plays: fallback"
// the way back, and "plays: rollback" rollbacks.
//
// A bug belongs here if it stands for a hazard or an invariant of HAZARDS.md and the simulation
// finds it. For bugs that only a package's own tests can find there is ./test/mutation/score.
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
	flag.Uint64Var(&o.fresh.number, "seeds", 400, "how many fresh seeds each bug may take")
	flag.Uint64Var(&o.fresh.from, "from", 0, "the first fresh seed")
	flag.BoolVar(&o.hunt, "hunt", false, "play fresh seeds alone, and write those that find a bug into its entry")
	only := flag.String("only", "", "bugs whose file or name matches this regular expression")
	flag.StringVar(&o.files, "files", "", "bugs of these product files alone, and those of -share")
	flag.StringVar(&o.share, "share", "", "K/N: of the bugs of other files each Nth, from the Kth on")
	flag.IntVar(&o.parallel, "parallel", runtime.GOMAXPROCS(0), "how many bugs at once")
	flag.Parse()
	var err error
	if o.only, err = regexp.Compile(*only); err == nil {
		err = o.run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type options struct {
	fresh    seeds
	hunt     bool
	only     *regexp.Regexp
	files    string // separated by spaces
	share    string
	parallel int
}

// chosen returns the bugs that -files and -share select, if either is given.
func (o options) chosen(all []bug) (chosen []bug, err error) {
	if o.files == "" && o.share == "" {
		return all, nil
	}
	k, n := len(all), len(all)+1 // none
	if o.share != "" {
		if _, err := fmt.Sscanf(o.share, "%d/%d", &k, &n); err != nil || k < 0 || k >= n {
			return nil, fmt.Errorf("-share %s: not K/N with K below N, such as 3/10", o.share)
		}
	}
	files := strings.Fields(o.files)
	for i, b := range all {
		if i%n == k || slices.Contains(files, b.file) {
			chosen = append(chosen, b)
		}
	}
	return chosen, nil
}

// planted is the directory with the bugs, relative to the root of the repository.
const planted = "test/mutation/planted"

func (o options) run() error {
	all, err := load(planted)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(b bug) bool { return !o.only.MatchString(b.file + ": " + b.name) })
	if len(all) == 0 {
		return fmt.Errorf("%s: no bug matches %q: give a part of its file or name with -only", planted, o.only)
	}
	if all, err = o.chosen(all); err != nil {
		return err
	}
	if len(all) == 0 {
		fmt.Println("no bug is planted in these files")
		return nil
	}
	dir, err := os.MkdirTemp("", "mutation")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	began := time.Now()
	s, err := build(dir, all)
	if err != nil {
		return err
	}
	fmt.Printf("%d bugs built in %s\n", len(all), time.Since(began).Round(time.Second))
	verdicts := o.playAll(s, all)
	survivors := 0
	for i, v := range verdicts {
		if !v.found {
			survivors++ // the seed of its entry stays: the fresh seeds may be too few
		} else {
			all[i].seed = v.seed
		}
	}
	fmt.Printf("%d bugs in %s, %d survive\n", len(all), time.Since(began).Round(time.Second), survivors)
	if o.hunt {
		if err := save(planted, all); err != nil {
			return err
		}
	}
	if survivors > 0 {
		return errors.New("bugs survive: a checker of the simulation became blind to them, or the product does not need that code any more")
	}
	return nil
}

// playAll plays several bugs in parallel, and prints the result of each in the order of the files.
func (o options) playAll(s simulation, all []bug) []verdict {
	results := make([]chan verdict, len(all))
	for i := range results {
		results[i] = make(chan verdict, 1)
	}
	go func() {
		turns := make(chan struct{}, max(1, o.parallel))
		for i, b := range all {
			turns <- struct{}{}
			go func() {
				defer func() { <-turns }()
				ranges := []seeds{o.fresh}
				if b.seed != nil && !o.hunt {
					ranges = []seeds{{*b.seed, 1}, o.fresh}
				}
				results[i] <- s.find(i, b.plays, ranges)
			}()
		}
	}()
	verdicts := make([]verdict, len(all))
	for i, b := range all {
		v := <-results[i]
		verdicts[i] = v
		outcome := "SURVIVES"
		if v.found {
			outcome = fmt.Sprintf("seed %d", *v.seed)
		}
		fmt.Printf("%5.1f s  %-28s %-60s %4d played  %-16s %.90s\n", v.took.Seconds(), b.file, b.name, v.played, outcome, v.by)
	}
	return verdicts
}
