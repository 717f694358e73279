package virtual

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// World is one simulated run. It is not safe for concurrent use and does not need to be: every task
// runs as a coroutine of the goroutine that calls Run.
type World struct {
	rng     *rand.Rand
	epoch   time.Time
	now     time.Duration
	tasks   []*coroutine
	current *coroutine
	timers  timerHeap
	ticket  uint64 // orders timers of the same instant by creation
	steps   int
	trace   *strings.Builder
	hub     *Process
	choices []choice // reused between steps

	injected map[string]int
	// StepLimit ends a run after that many steps, 0 for never. Otherwise a loop that takes no time
	// would never end.
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
	waiting  context.Context // ends a blocked wait early; may be nil
	ended    bool
	alarm    timer // of the current sleep: a task has at most one
}

// choice is one possible next step.
type choice struct {
	task  *coroutine
	timer *timer
}

// killed unwinds the tasks of a process that no longer exists.
type killed struct{}

// NewWorld returns a world at the given instant. If it keeps a trace, the trace has a line for
// every step.
func NewWorld(seed uint64, start time.Time, keepTrace bool) *World {
	w := &World{rng: rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15)), epoch: start, injected: map[string]int{}}
	if keepTrace {
		w.trace = &strings.Builder{}
	}
	w.hub = w.NewProcess("world")
	return w
}

// Rand returns the world's source of randomness.
func (w *World) Rand() *rand.Rand { return w.rng }

// Now returns the true time. A process sees it only if its clock is right.
func (w *World) Now() time.Time { return w.epoch.Add(w.now) }

// Elapsed returns the virtual time that has passed.
func (w *World) Elapsed() time.Duration { return w.now }

// After calls f in the world once d has passed, for example to deliver a message. F must not wait.
func (w *World) After(d time.Duration, f func()) { w.after(w.hub, d, f) }

// NewEvent returns an event that tasks of any process may wait for.
func (w *World) NewEvent() task.Event { return w.hub.NewEvent() }

// Running returns the name of the process whose task is running: "world" for tasks and messages of
// the world itself. Models use it to distinguish their callers.
func (w *World) Running() string {
	if w.current == nil {
		return w.hub.name
	}
	return w.current.proc.name
}

// Steps returns the number of steps taken so far.
func (w *World) Steps() int { return w.steps }

// Injected counts the faults that took effect so far, by name.
func (w *World) Injected() map[string]int { return w.injected }

// Inject counts a fault that took effect.
func (w *World) Inject(fault string) { w.injected[fault]++ }

// Chance returns true with the given probability. A probability of zero draws no random number.
func (w *World) Chance(p float64) bool { return p > 0 && w.rng.Float64() < p }

// Travel returns how long a message takes, at most d.
func (w *World) Travel(d time.Duration) time.Duration {
	took := w.UpTo(d)
	if took > 200*time.Millisecond {
		w.Inject("slow message")
	}
	return took
}

// UpTo returns a random duration in (0, d].
func (w *World) UpTo(d time.Duration) time.Duration { return time.Duration(1 + w.rng.Int64N(int64(d))) }

// Trace returns the trace, one line per step.
func (w *World) Trace() string {
	if w.trace == nil {
		return ""
	}
	return w.trace.String()
}

// Tracing reports whether a trace is kept. Callers format frequent lines only then.
func (w *World) Tracing() bool { return w.trace != nil }

// Tracef adds a line to the trace. Models record what they did and to which row.
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

// Context is for tasks of the world itself: the workload, the faults, and the network that delivers
// late.
func (w *World) Context() context.Context { return w.hub.Context() }

// Go starts a task of the world itself.
func (w *World) Go(name string, f func(ctx context.Context)) {
	w.hub.Go(name, func() { f(w.hub.Context()) })
}

// Stuck is the error of a run that is not over but has no possible next step.
type Stuck struct{ Tasks []string }

func (s *Stuck) Error() string { return "virtual: nothing can go on: " + strings.Join(s.Tasks, ", ") }

// Run starts script as a task of the world and advances time until it returns. Then it ends all
// other tasks. It fails with *Stuck if no step is possible, and with an error once limit of virtual
// time has passed.
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

// step makes one step; it returns false if none is possible.
func (w *World) step() bool {
	for {
		w.choices = w.choices[:0]
		for _, t := range w.tasks {
			if (t.runnable || t.waiting != nil && t.waiting.Err() != nil) && !t.proc.paused() {
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
		c.timer.fired = true
		if c.timer.wakes == nil {
			c.timer.fire()
			return true
		}
		c.task = c.timer.wakes
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

// start makes f a task of p. It runs when it is chosen.
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

// kill unwinds a task. Its deferred calls run, but have no effect on the world.
func (t *coroutine) kill() {
	if t.ended {
		return
	}
	t.ended = true
	t.stop()
}

// pause yields control until the task is runnable or ctx ends.
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

// timer is an event at an instant of virtual time: a sleeping task continues, or a function is
// called.
type timer struct {
	at     time.Duration
	ticket uint64
	proc   *Process
	wakes  *coroutine
	fire   func()
	fired  bool
	index  int
}

func (w *World) after(p *Process, d time.Duration, fire func()) *timer {
	return w.add(&timer{at: w.now + max(d, 0), proc: p, fire: fire})
}

func (w *World) add(t *timer) *timer {
	w.ticket++
	t.ticket = w.ticket
	w.timers.push(t)
	return t
}

// timerHeap holds the timers, the earliest first. It is a separate binary heap because every step
// uses it.
type timerHeap struct {
	list   []*timer
	dueNow []*timer
}

func (t *timer) before(o *timer) bool { return t.at < o.at || t.at == o.at && t.ticket < o.ticket }

func (h *timerHeap) push(t *timer) {
	h.list = append(h.list, t)
	h.up(len(h.list)-1, t)
}

// up and down put t at i, or move it up or down until the heap is in order.
func (h *timerHeap) up(i int, t *timer) {
	for i > 0 {
		parent := (i - 1) / 2
		if !t.before(h.list[parent]) {
			break
		}
		h.list[i] = h.list[parent]
		h.list[i].index = i
		i = parent
	}
	h.list[i], t.index = t, i
}

func (h *timerHeap) down(i int, t *timer) {
	for {
		child := 2*i + 1
		if child >= len(h.list) {
			break
		}
		if child+1 < len(h.list) && h.list[child+1].before(h.list[child]) {
			child++
		}
		if !h.list[child].before(t) {
			break
		}
		h.list[i] = h.list[child]
		h.list[i].index = i
		i = child
	}
	h.list[i], t.index = t, i
}

func (h *timerHeap) remove(t *timer) {
	i, last := t.index, len(h.list)-1
	if i < 0 {
		return
	}
	t.index = -1
	moved := h.list[last]
	h.list[last] = nil
	h.list = h.list[:last]
	if i == last {
		return
	}
	if i > 0 && moved.before(h.list[(i-1)/2]) {
		h.up(i, moved)
	} else {
		h.down(i, moved)
	}
}

// due lists the timers that may fire at now, earliest first. Timers of a paused process stay due
// until it continues.
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

// next returns the earliest instant after now at which a step is possible.
func (h *timerHeap) next(now time.Duration) (time.Duration, bool) {
	if len(h.list) > 0 && h.list[0].at > now {
		return h.list[0].at, true
	}
	found, at := false, time.Duration(0) // due timers belong to paused processes
	for _, t := range h.list {
		if t.at > now && (!found || t.at < at) {
			found, at = true, t.at
		}
	}
	return at, found
}
