// Package memory sets the garbage collector for a worker.
package memory

import (
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"
)

// headroom is the share of a limit that is reserved for memory outside Go's heap, such as system
// stacks and kernel buffers.
const headroom = 0.1

// floor is the size of memory that is allocated but never used, so it takes no physical memory. The
// collector counts it as live, and so runs less often. Without it, the collector of a small heap
// would run for nearly every page. That would cost as much as decoding the pages. A process that
// handles few rows has no floor, because garbage of that size would only make it larger.
const floor = 48 << 20

// small is the memory limit below which floor is not allocated.
const small = 256 << 20

const (
	// many is the number of rows within a period from which on the floor is kept.
	many = 1000
	// period is how long rows are counted.
	period = 10 * time.Second
	// after is how long the floor is kept after the last period with many rows.
	after = time.Minute
)

// traffic counts the rows that this process handles, and holds the floor while there are many.
type traffic struct {
	mu    sync.Mutex
	fits  bool // the floor may be allocated
	floor []byte
	rows  int
	since time.Duration // when the period began
	last  time.Duration // when there were many rows
}

var rows traffic

// Count records that this process handled rows or changes. The argument `at` is a time on any
// monotonic clock, which must be the same in all calls. Zero rows only show that time passes.
func Count(n int, at time.Duration) { rows.count(n, at) }

func (t *traffic) count(n int, at time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at-t.since >= period {
		t.since, t.rows = at, 0
	}
	if t.rows += n; t.fits && t.rows >= many {
		if t.last = at; t.floor == nil {
			t.floor = make([]byte, floor)
		}
	}
	if at-t.last >= after {
		t.floor = nil
	}
}

// Fit sets Go's memory limit to the container's limit minus a tenth, unless GOMEMLIMIT is set.
// Unless GOGC is set, it also allows Count to ensure that the collector does not run for each page.
// It returns the limit in bytes, or 0 if there is no limit.
func Fit() int64 {
	limit := debug.SetMemoryLimit(-1)
	if os.Getenv("GOMEMLIMIT") == "" {
		if contained := containerLimit(os.ReadFile); contained > 0 {
			limit = int64(float64(contained) * (1 - headroom))
			debug.SetMemoryLimit(limit)
		}
	}
	if os.Getenv("GOGC") == "" && limit >= small {
		rows.mu.Lock()
		rows.fits = true
		rows.mu.Unlock()
	}
	if limit == math.MaxInt64 {
		return 0
	}
	return limit
}

// Bound sets Go's memory limit so that the process takes the given bytes, unless GOMEMLIMIT is set
// or the container's limit is lower. It is for a command that handles many rows, and shares a
// machine with other work. So it allocates the floor in addition, unless GOGC is set. It is a soft
// limit: live memory may exceed it.
func Bound(bytes int64) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	limit := bytes
	if os.Getenv("GOGC") == "" {
		limit += floor
	}
	if contained := containerLimit(os.ReadFile); contained > 0 {
		limit = min(limit, int64(float64(contained)*(1-headroom)))
	}
	if limit == bytes+floor {
		rows.mu.Lock()
		rows.floor = make([]byte, floor)
		rows.mu.Unlock()
	}
	debug.SetMemoryLimit(limit)
}

// containerLimit returns the memory limit of this process's control group: the least limit of the
// group and the groups above it. It returns 0 if there is no limit, or if it is unknown. Source:
// https://docs.kernel.org/admin-guide/cgroup-v2.html (memory.max) and cgroup-v1/memory.html.
func containerLimit(read func(string) ([]byte, error)) (least int64) {
	text, _ := read("/proc/self/cgroup")
	take := func(file string) {
		text, _ := read(file)
		n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		// A file without a limit contains about 2⁶³ in version 1, and max in version 2.
		if err == nil && n > 0 && n < 1<<60 && (least == 0 || n < least) {
			least = n
		}
	}
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) < 3 {
			continue
		}
		root, name := "/sys/fs/cgroup", "memory.max"
		if parts[1] != "" { // a group of version 1, with its controllers
			if parts[1] != "memory" {
				continue
			}
			root, name = "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
		}
		// In a container, the group's own path may be missing. Then the limit is at the root.
		for group := path.Join("/", parts[2]); ; group = path.Dir(group) {
			take(path.Join(root, group, name))
			if group == "/" {
				break
			}
		}
	}
	return least
}
