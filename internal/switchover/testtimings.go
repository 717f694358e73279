package switchover

import (
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/fallback"
)

// windowVariable names the signature window of a DynamoDB for tests, such as 5s. It counts only if the
// target is an emulator, too. The timings of ways back are then scaled to that window.
const windowVariable = "REPLICATOR_EMULATOR_WINDOW"

// fallbackTimings returns the timings of ways back: the defaults, except in tests with emulators.
func fallbackTimings(env func(string) (string, bool)) (t fallback.Timings) {
	text, _ := env(windowVariable)
	window, err := time.ParseDuration(text)
	if emulator, _ := env("BIGTABLE_EMULATOR_HOST"); err != nil || emulator == "" || window <= 0 {
		return t
	}
	return fallback.ScaledTimings(window)
}
