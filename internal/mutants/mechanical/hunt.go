package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/mutants/mechanical/planted"
)

// hunt is one run over all bugs.
type hunt struct {
	options
	dir    string
	points []point
	// ran and differ are the watched seeds that come to each point, and those in which its bug makes a difference there.
	ran, differ map[int][]uint64
	seen        map[uint64]played // by watched seed
	print       sync.Mutex
}

// played is the line that play prints for a seed.
type played struct {
	Seed        uint64
	Steps       int
	Gap         bool
	Failure     string
	Ran, Differ []int
}

func (h *hunt) command(ctx context.Context, n int, name string, arguments ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, name, arguments...)
	c.Env = append(os.Environ(), fmt.Sprintf("%s=%d", planted.Variable, n), "GOMAXPROCS=1")
	c.WaitDelay = time.Second
	return c
}

// watch plays seeds without a bug.
func (h *hunt) watch() error {
	seeds, err := kept()
	if err != nil {
		return err
	}
	for i := range h.watched {
		seeds = append(seeds, h.from+uint64(i))
	}
	h.ran, h.differ, h.seen = map[int][]uint64{}, map[int][]uint64{}, map[uint64]played{}
	parts := make([]error, h.parallel)
	var all sync.WaitGroup
	for i := range parts {
		arguments := []string{"-watch", fmt.Sprint(len(h.points))}
		for j := i; j < len(seeds); j += h.parallel {
			arguments = append(arguments, fmt.Sprint(seeds[j]))
		}
		all.Go(func() {
			out, err := h.command(context.Background(), 0, filepath.Join(h.dir, "play"), arguments...).Output()
			if err != nil {
				parts[i] = fmt.Errorf("without a bug: %w: %s", err, out)
			}
			for _, p := range read(out) {
				h.print.Lock()
				h.seen[p.Seed] = p
				for _, n := range p.Ran {
					h.ran[n] = append(h.ran[n], p.Seed)
				}
				for _, n := range p.Differ {
					h.differ[n] = append(h.differ[n], p.Seed)
				}
				h.print.Unlock()
			}
		})
	}
	all.Wait()
	return errors.Join(parts...)
}

// kept are the seeds that a defect of the replicator or of the simulation was found by once, with long outages and rare faults.
func kept() (seeds []uint64, err error) {
	text, err := os.ReadFile("internal/sim/testdata/seeds.txt")
	for line := range strings.Lines(string(text)) {
		var seed uint64
		if _, err := fmt.Sscan(line, &seed); err == nil {
			seeds = append(seeds, seed)
		}
	}
	return seeds, err
}

func read(out []byte) (all []played) {
	for line := range bytes.Lines(out) {
		var p played
		if json.Unmarshal(line, &p) == nil {
			all = append(all, p)
		}
	}
	return all
}

// verdict is what became of a bug.
type verdict struct {
	point  int
	state  state
	by     string
	needed int // seeds that were played until it was found
	seed   uint64
}

type state string

const (
	found     state = "found"
	byTests   state = "found by tests"
	survived  state = "SURVIVED"
	same      state = "makes no difference"
	unreached state = "never reached"
)

// all wakes one bug after the other.
func (h *hunt) all() []verdict {
	var verdicts []verdict
	turns := make(chan struct{}, max(1, h.parallel))
	var all sync.WaitGroup
	for i, p := range h.points {
		if h.again != nil && !h.again[lineNumber.ReplaceAllString(p.String(), " |")] || !h.only.MatchString(p.String()) || h.except.String() != "" && h.except.MatchString(p.String()) {
			continue
		}
		turns <- struct{}{}
		all.Go(func() {
			v := h.wake(i + 1)
			h.print.Lock()
			verdicts = append(verdicts, v)
			if v.state == found || v.state == survived || v.state == byTests {
				fmt.Println(h.line(v))
			}
			h.print.Unlock()
			<-turns
		})
	}
	all.Wait()
	slices.SortFunc(verdicts, func(a, b verdict) int { return cmp.Compare(a.point, b.point) })
	return verdicts
}

func (h *hunt) wake(n int) verdict {
	v := verdict{point: n}
	switch {
	case len(h.ran[n]) == 0:
		v.state = unreached
	case len(h.differ[n]) == 0:
		v.state = same
	default:
		v = h.play(n, h.some(h.differ[n]))
	}
	if h.tests && v.state != found {
		if by := h.runTests(n); by != "" {
			v.state, v.by = byTests, by
		}
	}
	return v
}

// some gives as many of the seeds as a bug is awake in: cheap ones, from all over the cheapest third, and of each three one with a gap if there is
// one. In the others everything is promised to the end.
func (h *hunt) some(seeds []uint64) (some []uint64) {
	slices.SortFunc(seeds, func(a, b uint64) int { return cmp.Or(cmp.Compare(h.seen[a].Steps, h.seen[b].Steps), cmp.Compare(a, b)) })
	var whole, gaps []uint64
	for _, s := range seeds {
		if h.seen[s].Gap {
			gaps = append(gaps, s)
		} else {
			whole = append(whole, s)
		}
	}
	lost := max(h.seeds/3, h.seeds-len(whole))
	return append(spread(whole, h.seeds-min(lost, len(gaps))), spread(gaps, lost)...)
}

// spread gives so many of the seeds, from all over the first third.
func spread(seeds []uint64, number int) (some []uint64) {
	number = min(number, len(seeds))
	seeds = seeds[:max(number, len(seeds)/3)]
	for i := range number {
		some = append(some, seeds[i*len(seeds)/number])
	}
	return some
}

// play plays the seeds with one bug until one fails.
func (h *hunt) play(n int, seeds []uint64) verdict {
	ctx, cancel := context.WithTimeout(context.Background(), h.limit)
	defer cancel()
	var arguments []string
	for _, s := range seeds {
		arguments = append(arguments, fmt.Sprint(s))
	}
	c := h.command(ctx, n, filepath.Join(h.dir, "play"), arguments...)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	results := read(out)
	v := verdict{point: n, state: found, needed: len(results)}
	switch {
	case err == nil:
		v.state = survived
		return v
	case len(results) > 0 && results[len(results)-1].Failure != "":
		v.by = results[len(results)-1].Failure
	case ctx.Err() != nil:
		v.by = "does not end"
		v.needed++
	default:
		v.by, _, _ = strings.Cut(stderr.String(), "\n")
		v.needed++
	}
	v.seed = seeds[min(v.needed, len(seeds))-1]
	return v
}

func (h *hunt) testsOf(pkg string) string {
	return filepath.Join(h.dir, strings.ReplaceAll(pkg, "/", "-")+".test")
}

var failedTest = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)

// runTests names a test of the point's package that fails with its bug; "" if none does.
func (h *hunt) runTests(n int) string {
	ctx, cancel := context.WithTimeout(context.Background(), h.limit)
	defer cancel()
	pkg := filepath.ToSlash(filepath.Dir(h.points[n-1].File))
	c := h.command(ctx, n, h.testsOf(pkg), "-test.failfast")
	c.Dir = pkg
	out, err := c.CombinedOutput()
	name := failedTest.FindSubmatch(out)
	switch {
	case err == nil:
		return ""
	case name != nil:
		return string(name[1])
	}
	return "the tests do not end well"
}

// line is what became of one bug, for people.
func (h *hunt) line(v verdict) string {
	p := h.points[v.point-1]
	text := string(v.state)
	if v.state == found {
		text = fmt.Sprintf("found with %d, seed %d, by %s", v.needed, v.seed, v.by)
	} else if v.state == byTests {
		text += ": " + v.by
	}
	return fmt.Sprintf("%s | %.160s", p, text)
}

func (h *hunt) lines(verdicts []verdict) string {
	var b strings.Builder
	for _, s := range []state{survived, same, unreached, byTests, found} {
		for _, v := range verdicts {
			if v.state == s {
				fmt.Fprintln(&b, h.line(v))
			}
		}
	}
	return b.String()
}

// missing lists the points that no watched seed comes to.
func (h *hunt) missing() string {
	var b strings.Builder
	for i := range h.points {
		if len(h.ran[i+1]) == 0 {
			fmt.Fprintln(&b, h.line(verdict{point: i + 1, state: unreached}))
		}
	}
	return b.String()
}

// summary counts by package.
func (h *hunt) summary(verdicts []verdict) string {
	counts := map[string]map[state]int{}
	for _, v := range verdicts {
		for _, name := range []string{filepath.Dir(h.points[v.point-1].File), "all"} {
			if counts[name] == nil {
				counts[name] = map[state]int{}
			}
			counts[name][v.state]++
		}
	}
	var b strings.Builder
	for _, name := range append(slices.Clone(h.packages), "all") {
		c := counts[name]
		fmt.Fprintf(&b, "%-20s", name)
		for _, s := range []state{found, byTests, survived, same, unreached} {
			fmt.Fprintf(&b, "  %5d %s", c[s], s)
		}
		fmt.Fprintln(&b)
	}
	return b.String()
}
