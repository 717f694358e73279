package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// bench is how much is measured, and where the table goes.
type bench struct {
	rounds int
	scale  float64
	only   *regexp.Regexp
	// profile, if set, is where the CPU profile of ours goes: the first way of what was measured last.
	profile string
	before  map[string]func() error // by a way's name: what prepares a round of it, and is not measured
	out     io.Writer
}

func (b *bench) skips(row string) bool { return !b.only.MatchString(row) }

// times scales a number of repetitions.
func (b *bench) times(n int) int { return max(1, int(float64(n)*b.scale)) }

// way is one way to do a piece of work: it returns how many records or rows it did.
type way struct {
	name string
	do   func() (int, error)
}

// cost is what a unit cost in one round.
type cost struct {
	cpu, allocations float64 // microseconds; objects
	rate             float64 // units a second of wall time
}

// measure runs all ways once in every round, one after the other, after a round that does not count.
func (b *bench) measure(ways ...way) ([][]cost, error) {
	all := make([][]cost, len(ways))
	for round := range b.rounds + 1 {
		for i, w := range ways {
			if err := b.prepare(w); err != nil {
				return nil, err
			}
			runtime.GC()
			if i == 0 && round == b.rounds && b.profile != "" {
				if err := profiled(b.profile, w.do); err != nil {
					return nil, err
				}
				if err := b.prepare(w); err != nil {
					return nil, err
				}
			}
			before, cpu, start := allocations(), processorTime(), time.Now()
			n, err := w.do()
			took, used, made := time.Since(start), processorTime()-cpu, allocations()-before
			if err != nil {
				return nil, fmt.Errorf("%s: %w", w.name, err)
			}
			if units := float64(n); round > 0 {
				all[i] = append(all[i], cost{float64(used.Nanoseconds()) / 1e3 / units, float64(made) / units, units / took.Seconds()})
			}
		}
	}
	return all, nil
}

func (b *bench) prepare(w way) error {
	before := b.before[w.name]
	if before == nil {
		return nil
	}
	if err := before(); err != nil {
		return fmt.Errorf("prepare %s: %w", w.name, err)
	}
	return nil
}

func profiled(path string, do func() (int, error)) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return err
	}
	_, err = do()
	pprof.StopCPUProfile()
	return errors.Join(err, file.Close())
}

func allocations() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func cpu(c cost) float64    { return c.cpu }
func allocs(c cost) float64 { return c.allocations }
func rate(c cost) float64   { return c.rate }

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

func medianOf(costs []cost, of func(cost) float64) float64 {
	var list []float64
	for _, c := range costs {
		list = append(list, of(c))
	}
	return median(list)
}

// ratio prints a row: a figure of ours, that of a baseline, and the median of the rounds' ratios.
func (b *bench) ratio(row, figure string, of func(cost) float64, ours, baseline []cost, goal goal) {
	var ratios []float64
	for i := range ours {
		ratios = append(ratios, of(ours[i])/of(baseline[i]))
	}
	b.row(row, figure, medianOf(ours, of), medianOf(baseline, of), median(ratios), goal)
}

func (b *bench) row(row, figure string, ours, baseline, ratio float64, goal goal) {
	fmt.Fprintf(b.out, "%-44s %-9s %9s %9s %9s  %s\n", row, figure, number(ours), number(baseline), number(ratio), goal.of(ratio))
}

// alone prints a row without a baseline.
func (b *bench) alone(row, figure string, ours float64, goal goal) {
	fmt.Fprintf(b.out, "%-44s %-9s %9s %9s %9s  %s\n", row, figure, number(ours), "", "", goal.of(ours))
}

func number(f float64) string {
	switch {
	case f >= 1000:
		return fmt.Sprintf("%.0f", f)
	case f >= 10:
		return fmt.Sprintf("%.1f", f)
	}
	return fmt.Sprintf("%.3f", f)
}

// goal is a bound of a ratio, or of a figure that stands alone; the zero value is none.
type goal struct {
	bound float64
	least bool
}

func atMost(bound float64) goal  { return goal{bound: bound} }
func atLeast(bound float64) goal { return goal{bound: bound, least: true} }

// of is the goal as text, and whether a figure misses it.
func (g goal) of(figure float64) string {
	if g == (goal{}) {
		return ""
	}
	text, missed := "<= ", figure > g.bound
	if g.least {
		text, missed = ">= ", figure < g.bound
	}
	text += strconv.FormatFloat(g.bound, 'f', -1, 64)
	if missed {
		text += "  missed"
	}
	return text
}
