package fallback

import (
	"testing"
	"time"
)

// The timings are scaled only for a test service: the target must be an emulator, too.
func TestTimingsOfAnEnvironment(t *testing.T) {
	for _, c := range []struct {
		window, emulator string
		want             time.Duration
	}{
		{"", "", 0}, {"5s", "", 0}, {"", "localhost:1", 0}, {"soon", "localhost:1", 0}, {"-5s", "localhost:1", 0}, {"5s", "localhost:1", 2 * time.Second},
	} {
		env := map[string]string{"REPLICATOR_EMULATOR_WINDOW": c.window, "BIGTABLE_EMULATOR_HOST": c.emulator}
		got := TimingsOf(func(name string) (string, bool) { v, ok := env[name]; return v, ok })
		if got.Carried != c.want {
			t.Errorf("window %q, emulator %q: %s, want %s", c.window, c.emulator, got.Carried, c.want)
		}
	}
}
