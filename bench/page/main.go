// Page measures what open pages take of a worker that has work to do, on the embedded services, each in a process of its own:
//
//	go run ./bench/page -pages 50 -lasts 2m -rate 1000 -out bench/page.txt
//
// The worker's process is counted without pages, with them, and without them again, in one run. Beside that difference, which its
// own ups and downs blur, stands the share of its CPU profile that lies in the page's handlers and in rendering the page.
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/bench/embedded"
)

// The goals: the pages' share of a core, and by how much the worker's memory may grow while they are open.
const (
	cpuGoal    = 0.02
	memoryGoal = 1.10
)

// profiled is as long as a profile may be that a worker's server has the time for.
const profiled = 30 * time.Second

func main() {
	if text := os.Getenv(embedded.RoleVariable); text != "" {
		exit(embedded.Serve(text, os.Stdin, os.Stdout, nil))
	}
	b := bench{}
	flag.IntVar(&b.pages, "pages", 50, "how many pages are open")
	flag.DurationVar(&b.lasts, "lasts", 2*time.Minute, "how long they are; half of it before and after is without them")
	flag.IntVar(&b.rate, "rate", 1000, "changes a second that the worker applies")
	flag.IntVar(&b.shards, "shards", 4, "how many shards the stream has, which the page draws and lists")
	out := flag.String("out", "", "keep what is printed in this file, too")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var report bytes.Buffer
	b.out = io.MultiWriter(os.Stdout, &report)
	err := b.run(ctx)
	if *out != "" && report.Len() > 0 {
		err = errors.Join(err, os.WriteFile(*out, report.Bytes(), 0o644))
	}
	exit(err)
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

type bench struct {
	pages, rate, shards int
	lasts               time.Duration
	out                 io.Writer

	dir    string
	worker *embedded.Worker
}

func (b *bench) run(ctx context.Context) (err error) {
	if b.dir, err = os.MkdirTemp("", "replicator-page-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	program, err := embedded.Build(ctx, b.dir)
	if err != nil {
		return err
	}
	stand, err := embedded.NewStand(b.dir, program, "", embedded.Role{Items: 1000, Shards: b.shards}, "--pprof")
	if err != nil {
		return err
	}
	defer stand.Stop()
	b.worker = stand.Worker

	writing, stop := context.WithCancel(ctx)
	var beside sync.WaitGroup
	defer beside.Wait()
	defer stop()
	beside.Go(func() { b.write(writing, stand.Source.Line) })

	const settled = 20 * time.Second // the copy is done, and the rate steady
	if err := b.rest(ctx, settled); err != nil {
		return err
	}
	before, err := b.measure(ctx, b.lasts/2)
	if err != nil {
		return err
	}
	following, leave := context.WithCancel(ctx)
	heard := make([]heard, b.pages)
	var pages sync.WaitGroup
	for i := range heard {
		pages.Go(func() { heard[i] = follow(following, b.worker.Address()) })
	}
	with, err := b.measure(ctx, b.lasts)
	leave()
	pages.Wait()
	if err != nil {
		return err
	}
	after, err := b.measure(ctx, b.lasts/2)
	if err != nil {
		return err
	}
	return b.report(before, with, after, heard)
}

// span is what the worker took for a while.
type span struct {
	lasted     time.Duration
	cpu        float64 // of a core
	pages, all float64 // milliseconds of the CPU profiles: the page's, and everything
	profiles   time.Duration
	memory     []int64 // resident bytes, again and again
	rate       float64 // changes a second that were written meanwhile
}

func (b *bench) measure(ctx context.Context, lasts time.Duration) (s span, err error) {
	began, applied := time.Now(), b.applied()
	used, err := cpu(b.worker.Process.Pid)
	if err != nil {
		return s, err
	}
	measuring, stop := context.WithCancel(ctx)
	var beside sync.WaitGroup
	beside.Go(func() {
		for b.rest(measuring, time.Second) == nil {
			s.memory = append(s.memory, resident(b.worker.Process.Pid))
		}
	})
	for ends := began.Add(lasts); err == nil && time.Until(ends) > time.Second; {
		err = b.profile(ctx, &s, min(profiled, time.Until(ends)))
	}
	stop()
	beside.Wait()
	if err != nil {
		return s, err
	}
	usedThen, err := cpu(b.worker.Process.Pid)
	s.lasted = time.Since(began)
	s.cpu = (usedThen - used).Seconds() / s.lasted.Seconds()
	s.rate = (b.applied() - applied) / s.lasted.Seconds()
	return s, err
}

// accounted is how `go tool pprof -top` sums up.
var accounted = regexp.MustCompile(`accounting for ([\d.]+)ms, [\d.]+% of ([\d.]+)ms total`)

// profile takes a CPU profile of so long, and adds up what of it is the page's.
func (b *bench) profile(ctx context.Context, s *span, lasts time.Duration) error {
	seconds := max(1, int(lasts.Seconds()))
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", b.worker.Address(), seconds), nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("profile: %s: %s", response.Status, text)
	}
	if err != nil {
		return err
	}
	file := filepath.Join(b.dir, "cpu.pprof")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return err
	}
	top, err := exec.CommandContext(ctx, "go", "tool", "pprof", "-top", "-unit=ms", "-nodefraction=0", "-focus=internal/dashboard", file).Output()
	if err != nil {
		return fmt.Errorf("go tool pprof: %w", err)
	}
	s.profiles += time.Duration(seconds) * time.Second
	found := accounted.FindSubmatch(top)
	if found == nil { // nothing of the page is in it
		return nil
	}
	pages, _ := strconv.ParseFloat(string(found[1]), 64)
	all, _ := strconv.ParseFloat(string(found[2]), 64)
	s.pages, s.all = s.pages+pages, s.all+all
	return nil
}

// applied is how many changes the worker has applied, by its own metrics.
func (b *bench) applied() (sum float64) {
	response, err := http.Get("http://" + b.worker.Address() + "/metrics")
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if name, figure, ok := strings.Cut(lines.Text(), " "); ok && strings.HasPrefix(name, "replicator_changes_applied_total{") {
			n, _ := strconv.ParseFloat(figure, 64)
			sum += n
		}
	}
	return sum
}

// write changes items at the rate, 25 in a request, until ctx ends.
func (b *bench) write(ctx context.Context, address string) {
	const batch, items = 25, 1000
	ticker := time.NewTicker(time.Second * batch / time.Duration(b.rate))
	defer ticker.Stop()
	for n := 0; ; n += batch {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		var body strings.Builder
		body.WriteString(`{"RequestItems":{"` + embedded.Table + `":[`)
		for i := range batch {
			if i > 0 {
				body.WriteByte(',')
			}
			fmt.Fprintf(&body, `{"PutRequest":{"Item":{"pk":{"S":%q},"number":{"N":"%d"},"note":{"S":%q}}}}`, embedded.Key((n+i)%items), n+i, embedded.Note(n+i))
		}
		body.WriteString(`]}}`)
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address, strings.NewReader(body.String()))
		if err != nil {
			return
		}
		request.Header.Set("X-Amz-Target", "DynamoDB_20120810.BatchWriteItem")
		request.Header.Set("Content-Type", "application/x-amz-json-1.0")
		if response, err := http.DefaultClient.Do(request); err == nil {
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
		}
	}
}

// heard is what came to one page.
type heard struct {
	bodies, ticks int
	bytes         int64
	err           error // why it ended, unless it was to end
}

// follow is an open page: it reads what comes until ctx ends.
func follow(ctx context.Context, address string) (h heard) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/api/v1/page", nil)
	if err != nil {
		return heard{err: err}
	}
	client := http.Client{Transport: &http.Transport{}} // a connection of its own
	defer client.CloseIdleConnections()
	response, err := client.Do(request)
	if err != nil {
		return heard{err: err}
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return heard{err: errors.New(response.Status)}
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		h.bytes += int64(len(lines.Bytes())) + 1
		switch lines.Text() {
		case "event: page":
			h.bodies++
		case "event: tick":
			h.ticks++
		}
	}
	if ctx.Err() == nil {
		h.err = errors.Join(lines.Err(), errors.New("the stream ended"))
	}
	return h
}

// rest lets the worker run for a while.
func (b *bench) rest(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-b.worker.Exited:
		return errors.New("the worker has ended")
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (b *bench) report(before, with, after span, heard []heard) error {
	fmt.Fprintf(b.out, "# %s, %s %s/%s, %d cores\n# go run ./bench/page -pages %d -lasts %s -rate %d -shards %d\n", time.Now().UTC().Format(time.DateOnly), runtime.Version(), runtime.GOOS, runtime.GOARCH,
		runtime.NumCPU(), b.pages, b.lasts, b.rate, b.shards)
	for _, s := range []struct {
		name string
		span
	}{{"without pages", before}, {fmt.Sprintf("with %d pages", b.pages), with}, {"without again", after}} {
		fmt.Fprintf(b.out, "%-14s %4.0fs  %4.0f changes/s  process %5.1f %% of a core, the page's part of the profile %5.2f %%; resident %d MiB, from %d to %d\n", s.name, s.lasted.Seconds(), s.rate,
			100*s.cpu, 100*s.share(), mean(s.memory)>>20, slices.Min(s.memory)>>20, slices.Max(s.memory)>>20)
	}
	bodies, ticks, size := 0, 0, int64(0)
	for _, h := range heard {
		if h.err != nil {
			return fmt.Errorf("a page: %w", h.err)
		}
		bodies, ticks, size = bodies+h.bodies, ticks+h.ticks, size+h.bytes
	}
	n := float64(len(heard)) * with.lasted.Seconds()
	difference := with.cpu - (before.cpu+after.cpu)/2
	third := len(with.memory) / 3
	first, last := mean(with.memory[:third]), mean(with.memory[len(with.memory)-third:])
	fmt.Fprintf(b.out, "each page heard %.2f events a second, and %.1f KiB\n", float64(bodies+ticks)/n, float64(size)/n/1024)
	fmt.Fprintf(b.out, "%d pages: %.2f %% of a core by the profile (goal %.0f), %.1f by the process with and without them; memory %d MiB in the first third, %d in the last (goal: %.0f %% more)\n", b.pages,
		100*with.share(), 100*cpuGoal, 100*difference, first>>20, last>>20, 100*(memoryGoal-1))
	switch {
	case float64(bodies+ticks)/n < 0.9, with.rate < float64(b.rate)/2:
		return errors.New("pages hear too little, or the worker applies too little: this measures nothing")
	case with.share() > cpuGoal, float64(last) > memoryGoal*float64(first):
		return errors.New("a goal is missed")
	}
	return nil
}

// share is the page's part of a core, by the profiles.
func (s span) share() float64 { return s.pages / float64(s.profiles.Milliseconds()) }

func mean(figures []int64) int64 {
	sum := int64(0)
	for _, f := range figures {
		sum += f
	}
	return sum / int64(max(1, len(figures)))
}

// resident is the memory that a process has, in bytes.
func resident(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	pages, _ := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// cpu is the CPU time that a process has used.
func cpu(pid int) (used time.Duration, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// Behind the name in parentheses; the 12th and 13th of these are ticks, of which Linux has 100 a second.
	_, rest, _ := strings.Cut(string(text), ") ")
	for _, field := range strings.Fields(rest)[11:13] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, err
		}
		used += time.Duration(ticks) * 10 * time.Millisecond
	}
	return used, nil
}
