package virtual

import (
	"container/heap"
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// World is one simulated run. It is not safe for use by several goroutines, nor does it need to be: everything in it runs
// as a coroutine of the goroutine that calls Run.
type World struct {
	rng     *rand.Rand
	epoch   time.Time
	now     time.Duration
	tasks   []*coroutine
	current *coroutine
	timers  timerHeap
	ticket  uint64 // orders timers of one instant by creation
	steps   int
	trace   *strings.Builder
	hub     *Process
	choices []choice // reused between steps

	injected map[string]int
	// StepLimit ends a run after so many steps, 0 for never: loops that take steps but no time would not end otherwise.
	StepLimit int
}

// coroutine is one task.
type coroutine struct {
	name   string
	proc   *Process
	resume func() (struct{}, bool)
	stop   func()
	yield  func(struct{}) bool

	runnable bool
	waiting  context.Context // what ends a blocked wait early; nil if nothing does
	ended    bool
}

// choice is something that may happen next.
type choice struct {
	task  *coroutine
	timer *timer
}

// killed unwinds the tasks of a process that no longer exists.
type killed struct{}

// NewWorld returns a world at the given instant. Trace, if kept, is a line for every step.
func NewWorld(seed uint64, start time.Time, keepTrace bool) *World {
	w := &World{rng: rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15)), epoch: start, injected: map[string]int{}}
	if keepTrace {
		w.trace = &strings.Builder{}
	}
	w.hub = w.NewProcess("world")
	return w
}

// Rand is the world's source of randomness.
func (w *World) Rand() *rand.Rand { return w.rng }

// Now is the true time, which no process sees unless its clock is right.
func (w *World) Now() time.Time { return w.epoch.Add(w.now) }

// Elapsed is how much virtual time has passed.
func (w *World) Elapsed() time.Duration { return w.now }

// After lets f happen in the world itself once d has passed: a message that is delivered, for example. F must not wait.
func (w *World) After(d time.Duration, f func()) { w.after(w.hub, d, f) }

// NewEvent returns an event that tasks of any process may wait for.
func (w *World) NewEvent() task.Event { return w.hub.NewEvent() }

// Running is the name of the process whose task goes on at the moment: "world" for tasks and messages of the world itself. Models
// ask it to tell their callers apart.
func (w *World) Running() string {
	if w.current == nil {
		return w.hub.name
	}
	return w.current.proc.name
}

// Steps is the number of steps taken so far.
func (w *World) Steps() int { return w.steps }

// Injected counts the faults that took effect so far, by name.
func (w *World) Injected() map[string]int { return w.injected }

// Inject counts a fault that took effect.
func (w *World) Inject(fault string) { w.injected[fault]++ }

// Chance is true with the given probability. A probability of zero takes nothing from the source of randomness.
func (w *World) Chance(p float64) bool { return p > 0 && w.rng.Float64() < p }

// Travel is how long a message takes, at the most d.
func (w *World) Travel(d time.Duration) time.Duration {
	took := w.UpTo(d)
	if took > 200*time.Millisecond {
		w.Inject("slow message")
	}
	return took
}

// UpTo is a duration in (0, d].
func (w *World) UpTo(d time.Duration) time.Duration { return time.Duration(1 + w.rng.Int64N(int64(d))) }

// Trace is what was kept, a line a step.
func (w *World) Trace() string {
	if w.trace == nil {
		return ""
	}
	return w.trace.String()
}

// Tracef adds a line to the trace: models note what they did and to which row.
func (w *World) Tracef(format string, args ...any) {
	if w.trace == nil {
		return
	}
	name := "-"
	if w.current != nil {
		name = w.current.proc.name + "/" + w.current.name
	}
	fmt.Fprintf(w.trace, "%12.3f %-24s ", w.now.Seconds(), name)
	fmt.Fprintf(w.trace, format, args...)
	w.trace.WriteByte('\n')
}

// Context is for tasks of the world itself: the workload, the faults, the network that delivers late.
func (w *World) Context() context.Context { return w.hub.Context() }

// Go starts a task of the world itself.
func (w *World) Go(name string, f func(ctx context.Context)) {
	w.hub.Go(name, func() { f(w.hub.Context()) })
}

// Stuck is returned when nothing can ever happen again while the run is not over.
type Stuck struct{ Tasks []string }

func (s *Stuck) Error() string { return "virtual: nothing can go on: " + strings.Join(s.Tasks, ", ") }

// Run starts script as a task of the world and lets time pass until it returns, then ends all other tasks. It fails with
// *Stuck when nothing can go on, and with an error once limit of virtual time has passed.
func (w *World) Run(limit time.Duration, script func(ctx context.Context)) error {
	over := false
	w.Go("script", func(ctx context.Context) {
		script(ctx)
		over = true
	})
	defer w.end()
	for !over {
		if w.now > limit {
			return fmt.Errorf("virtual: not over after %s: %s", limit, strings.Join(w.blocked(), ", "))
		}
		if w.StepLimit > 0 && w.steps > w.StepLimit {
			return fmt.Errorf("virtual: not over after %d steps and %s: %s", w.steps, w.now, strings.Join(w.blocked(), ", "))
		}
		if !w.step() {
			return &Stuck{Tasks: w.blocked()}
		}
	}
	return nil
}

func (w *World) blocked() []string {
	var names []string
	for _, t := range w.tasks {
		names = append(names, t.proc.name+"/"+t.name)
	}
	return names
}

func (w *World) end() {
	for len(w.tasks) > 0 {
		t := w.tasks[len(w.tasks)-1]
		w.tasks = w.tasks[:len(w.tasks)-1]
		t.kill()
	}
}

// step lets one thing happen; false if nothing can.
func (w *World) step() bool {
	for {
		w.choices = w.choices[:0]
		for _, t := range w.tasks {
			if t.proc.paused() {
				continue
			}
			if t.runnable || (t.waiting != nil && t.waiting.Err() != nil) {
				w.choices = append(w.choices, choice{task: t})
			}
		}
		for _, t := range w.timers.due(w.now) {
			if !t.proc.paused() {
				w.choices = append(w.choices, choice{timer: t})
			}
		}
		if len(w.choices) > 0 {
			break
		}
		next, ok := w.timers.next(w.now)
		if !ok {
			return false
		}
		w.now = next
	}
	w.steps++
	c := w.choices[w.rng.IntN(len(w.choices))]
	if c.timer != nil {
		w.timers.remove(c.timer)
		c.timer.fire()
		return true
	}
	w.run(c.task)
	return true
}

func (w *World) run(t *coroutine) {
	before := w.current
	w.current = t
	if w.trace != nil {
		w.Tracef("goes on")
	}
	t.runnable, t.waiting = false, nil
	_, alive := t.resume()
	w.current = before
	if !alive {
		w.forget(t)
	}
}

func (w *World) forget(t *coroutine) {
	t.ended = true
	for i, o := range w.tasks {
		if o == t {
			w.tasks = append(w.tasks[:i], w.tasks[i+1:]...)
			return
		}
	}
}

// start makes f a task of p; it runs when it is chosen.
func (w *World) start(p *Process, name string, f func()) {
	t := &coroutine{name: name, proc: p, runnable: true}
	t.resume, t.stop = iter.Pull(func(yield func(struct{}) bool) {
		t.yield = yield
		defer func() {
			if r := recover(); r != nil {
				if _, ok := r.(killed); !ok {
					panic(r)
				}
			}
		}()
		f()
	})
	w.tasks = append(w.tasks, t)
}

// kill unwinds a task: its deferred calls run, but nothing they ask of the world happens any more.
func (t *coroutine) kill() {
	if t.ended {
		return
	}
	t.ended = true
	t.stop()
}

// pause gives control back until the task is made runnable or ctx ends.
func (w *World) pause(ctx context.Context) {
	t := w.current
	if t == nil {
		panic("virtual: a wait outside of a task")
	}
	if t.ended {
		panic(killed{})
	}
	t.waiting = ctx
	if !t.yield(struct{}{}) || t.ended {
		panic(killed{})
	}
}

// timer is something that happens at an instant of virtual time.
type timer struct {
	at     time.Duration
	ticket uint64
	proc   *Process
	fire   func()
	index  int
}

func (w *World) after(p *Process, d time.Duration, fire func()) *timer {
	w.ticket++
	t := &timer{at: w.now + max(d, 0), ticket: w.ticket, proc: p, fire: fire}
	heap.Push(&w.timers, t)
	return t
}

type timerHeap struct {
	list   []*timer
	dueNow []*timer
}

func (h *timerHeap) Len() int { return len(h.list) }
func (h *timerHeap) Less(i, j int) bool {
	a, b := h.list[i], h.list[j]
	if a.at != b.at {
		return a.at < b.at
	}
	return a.ticket < b.ticket
}
func (h *timerHeap) Swap(i, j int) {
	h.list[i], h.list[j] = h.list[j], h.list[i]
	h.list[i].index, h.list[j].index = i, j
}
func (h *timerHeap) Push(x any) {
	t := x.(*timer)
	t.index = len(h.list)
	h.list = append(h.list, t)
}
func (h *timerHeap) Pop() any {
	t := h.list[len(h.list)-1]
	h.list = h.list[:len(h.list)-1]
	t.index = -1
	return t
}

func (h *timerHeap) remove(t *timer) {
	if t.index >= 0 {
		heap.Remove(h, t.index)
	}
}

// due lists what may fire at now, earliest first. Timers of a paused process stay due until it goes on.
func (h *timerHeap) due(now time.Duration) []*timer {
	h.dueNow = h.dueNow[:0]
	if len(h.list) == 0 || h.list[0].at > now {
		return nil
	}
	h.collect(0, now)
	return h.dueNow
}

func (h *timerHeap) collect(i int, now time.Duration) {
	if i >= len(h.list) || h.list[i].at > now {
		return
	}
	h.dueNow = append(h.dueNow, h.list[i])
	h.collect(2*i+1, now)
	h.collect(2*i+2, now)
}

// next is the earliest instant after now at which something may happen.
func (h *timerHeap) next(now time.Duration) (time.Duration, bool) {
	if len(h.list) > 0 && h.list[0].at > now {
		return h.list[0].at, true
	}
	found, at := false, time.Duration(0) // what is due belongs to paused processes
	for _, t := range h.list {
		if t.at > now && (!found || t.at < at) {
			found, at = true, t.at
		}
	}
	return at, found
}
