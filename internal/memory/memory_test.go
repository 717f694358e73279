package memory

import (
	"errors"
	"runtime/debug"
	"testing"
	"time"
)

func TestLimitOfTheContainer(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"none":                     {nil, 0},
		"version 2, at the root":   {map[string]string{"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/memory.max": "1073741824\n"}, 1 << 30},
		"version 2, no limit":      {map[string]string{"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/memory.max": "max\n"}, 0},
		"version 2, of the parent": {map[string]string{"/proc/self/cgroup": "0::/a/b\n", "/sys/fs/cgroup/a/b/memory.max": "max\n", "/sys/fs/cgroup/a/memory.max": "1000\n"}, 1000},
		"the lowest counts":        {map[string]string{"/proc/self/cgroup": "0::/a\n", "/sys/fs/cgroup/a/memory.max": "3000\n", "/sys/fs/cgroup/memory.max": "2000\n"}, 2000},
		"version 1": {map[string]string{"/proc/self/cgroup": "5:cpu:/x\n4:memory:/docker/1\n",
			"/sys/fs/cgroup/memory/memory.limit_in_bytes": "536870912\n", "/sys/fs/cgroup/memory/x/memory.limit_in_bytes": "7\n"}, 512 << 20},
		"version 1, no limit": {map[string]string{"/proc/self/cgroup": "4:memory:/\n", "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 0},
		"nonsense":            {map[string]string{"/proc/self/cgroup": "x\n0::..\n", "/sys/fs/cgroup/memory.max": "-5\n"}, 0},
	} {
		got := containerLimit(func(file string) ([]byte, error) {
			if text, found := c.files[file]; found {
				return []byte(text), nil
			}
			return nil, errors.New("no such file")
		})
		if got != c.want {
			t.Errorf("%s: %d, not %d", name, got, c.want)
		}
	}
}

// A limit that is already set is not changed.
func TestAGivenLimitStays(t *testing.T) {
	before := debug.SetMemoryLimit(300 << 20)
	defer debug.SetMemoryLimit(before)
	t.Setenv("GOMEMLIMIT", "300MiB")
	t.Setenv("GOGC", "100")
	if got := Fit(); got != 300<<20 || debug.SetMemoryLimit(-1) != got || rows.fits {
		t.Errorf("%d", got)
	}
}

func TestBound(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	t.Setenv("GOMEMLIMIT", "")
	t.Setenv("GOGC", "100")
	if Bound(100 << 20); debug.SetMemoryLimit(-1) > 100<<20 || rows.floor != nil {
		t.Error("not bounded")
	}
	t.Setenv("GOGC", "")
	if Bound(100 << 20); debug.SetMemoryLimit(-1) > 100<<20+int64(len(rows.floor)) {
		t.Error("not bounded with the floor")
	}
	rows.floor = nil
	debug.SetMemoryLimit(300 << 20)
	t.Setenv("GOMEMLIMIT", "300MiB")
	if Bound(100 << 20); debug.SetMemoryLimit(-1) != 300<<20 {
		t.Error("a limit that is given is gone")
	}
}

// The floor exists while many rows are handled, and for a minute after that.
func TestTheFloorIsKeptForManyRows(t *testing.T) {
	const s = time.Second
	kept := &traffic{fits: true}
	for _, c := range []struct {
		at   time.Duration
		rows int
		want bool
	}{
		{0, 999, false}, {10 * s, 999, false}, {19 * s, 1, true}, {70 * s, 999, true}, {79*s - 1, 0, true}, {79 * s, 0, false}, {100 * s, 5000, true}, {150 * s, 5000, true},
		{209 * s, 0, true}, {210 * s, 999, false},
	} {
		if kept.count(c.rows, c.at); (kept.floor != nil) != c.want {
			t.Errorf("%d rows after %s: %v", c.rows, c.at, kept.floor != nil)
		}
	}
	none := &traffic{}
	if none.count(1e6, s); none.floor != nil {
		t.Error("a floor in a small container")
	}
}
