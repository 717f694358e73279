package sink

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// Requests that begin close together share a deadline, so none of them has more than the timeout,
// and none has less than nineteen twentieths of it.
func TestRequestsShareADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 20 * time.Second
		began, d := time.Now(), &deadlines{ctx: t.Context(), timeout: timeout}
		var all []context.Context
		for _, step := range []time.Duration{0, 500 * time.Millisecond, 500 * time.Millisecond, time.Millisecond, time.Second, time.Hour} {
			time.Sleep(step)
			ctx := d.at(time.Since(began))
			at, ok := ctx.Deadline()
			if left := time.Until(at); !ok || left > timeout || left < timeout*19/20 {
				t.Errorf("a request has %s", left)
			}
			all = append(all, ctx)
		}
		if all[0] != all[1] || all[1] != all[2] || all[2] == all[3] || all[3] != all[4] || all[4] == all[5] {
			t.Error("the requests of one second have several contexts, or later ones the same")
		}
		if len(d.ends) != 1 || all[2].Err() == nil {
			t.Errorf("%d contexts are kept, although all but the last have ended", len(d.ends))
		}
		d.end()
		for i, ctx := range all {
			if ctx.Err() == nil {
				t.Errorf("context %d outlives its requests", i)
			}
		}
	})
}
