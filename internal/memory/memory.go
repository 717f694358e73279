// Package memory sets the garbage collector for a worker.
package memory

import (
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
)

// headroom is the share of a limit that is reserved for memory outside Go's heap, such as system
// stacks and kernel buffers.
const headroom = 0.1

// floor is memory that is never touched, so it uses no physical memory. But it counts as live, so
// the collector runs only after half as much has been allocated. Without it, a small heap would
// make the collector run for nearly every page, which costs as much as decoding the pages.
const floor = 48 << 20

// small is the limit below which the floor is not used.
const small = 256 << 20

var untouched []byte

// Fit sets Go's memory limit to the container's limit minus a tenth, unless GOMEMLIMIT is set. It
// also keeps the collector from running for each page, unless GOGC is set. It returns the limit in
// bytes; 0 if there is none.
func Fit() int64 {
	limit := debug.SetMemoryLimit(-1)
	if os.Getenv("GOMEMLIMIT") == "" {
		if contained := containerLimit(os.ReadFile); contained > 0 {
			limit = int64(float64(contained) * (1 - headroom))
			debug.SetMemoryLimit(limit)
		}
	}
	if os.Getenv("GOGC") == "" && limit >= small {
		untouched = make([]byte, floor)
	}
	if limit == math.MaxInt64 {
		return 0
	}
	return limit
}

// Bound sets Go's memory limit to the given bytes, unless GOMEMLIMIT is set or the container has
// less. It is for a command that runs next to other work on a machine. Live memory may exceed the
// limit.
func Bound(bytes int64) {
	if contained := containerLimit(os.ReadFile); contained > 0 {
		bytes = min(bytes, int64(float64(contained)*(1-headroom)))
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(bytes)
	}
}

// containerLimit returns the memory limit of this process's control group or of one above it. It
// returns 0 if there is none, or if it is unknown. Source:
// https://docs.kernel.org/admin-guide/cgroup-v2.html (memory.max) and cgroup-v1/memory.html.
func containerLimit(read func(string) ([]byte, error)) (least int64) {
	text, _ := read("/proc/self/cgroup")
	take := func(file string) {
		text, _ := read(file)
		n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err == nil && n > 0 && n < 1<<60 && (least == 0 || n < least) { // without a limit, version 1 has about 2⁶³, and version 2 has max
			least = n
		}
	}
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) < 3 {
			continue
		}
		root, name := "/sys/fs/cgroup", "memory.max"
		if parts[1] != "" { // a version 1 group with its controllers
			if parts[1] != "memory" {
				continue
			}
			root, name = "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
		}
		// In a container the group's own path may be missing, and the limit is at the root.
		for group := path.Join("/", parts[2]); ; group = path.Dir(group) {
			take(path.Join(root, group, name))
			if group == "/" {
				break
			}
		}
	}
	return least
}
