package fallback

import "time"

// windowVariable names the signature window of a DynamoDB for tests, such as 5s. It counts only if the
// target is an emulator, too. The timings of ways back are then scaled to that window.
const windowVariable = "REPLICATOR_EMULATOR_WINDOW"

// TimingsOf returns the timings of ways back in a process with the given environment: the defaults,
// except in tests with emulators.
func TimingsOf(env func(string) (string, bool)) (t Timings) {
	text, _ := env(windowVariable)
	window, err := time.ParseDuration(text)
	if emulator, _ := env("BIGTABLE_EMULATOR_HOST"); err != nil || emulator == "" || window <= 0 {
		return t
	}
	return scaledTimings(window)
}
