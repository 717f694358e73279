package fallback

import (
	"errors"
	"testing"
	"time"
)

// A window of five or fifteen minutes is recognised by what the source refuses. Any other source
// gets no way back.
func TestH143_TheSignatureWindow(t *testing.T) {
	broken := errors.New("no answer")
	for name, c := range map[string]struct {
		really time.Duration
		fails  error
		want   time.Duration
		err    error
	}{
		"five minutes":     {5 * time.Minute, nil, 5 * time.Minute, nil},
		"fifteen minutes":  {15 * time.Minute, nil, 16 * time.Minute, nil},
		"no window":        {1000 * time.Hour, nil, 0, errNoWindow},
		"clocks differ":    {3 * time.Minute, nil, 0, errClocks},
		"no answer at all": {time.Minute, broken, 0, broken},
	} {
		got, err := defaultAges.window(func(age time.Duration) (bool, error) { return age <= c.really, c.fails })
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	seconds := Ages{4 * time.Second, 6 * time.Second, 16 * time.Second}
	if got, err := seconds.window(func(age time.Duration) (bool, error) { return age <= 5*time.Second, nil }); got != 5*time.Second || err != nil {
		t.Errorf("a window of seconds: %v, %v", got, err)
	}
}

func TestTheWaitAfterASignature(t *testing.T) {
	if got := (Timings{}).Wait(5 * time.Minute); got != 8*time.Minute {
		t.Errorf("W of a window of 5 minutes is %v", got)
	}
	scaled := Timings{Clocks: time.Second, Execution: time.Second, Spare: time.Second}
	if got := scaled.Wait(5 * time.Second); got != 8*time.Second {
		t.Errorf("W of a window of 5 seconds is %v", got)
	}
}
