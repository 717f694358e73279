package sim

import (
	"context"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// quietApp is what an application that writes the target too knows of its own requests to it. Its
// hook promises that these have ended, if three conditions hold: no request is in flight, none of
// the last settle time is without an answer, and no instance was killed within that time. Requests
// without an answer, and those of killed instances, are executed all the same, up to the settle
// time after the change.
type quietApp struct {
	promises bool // the hook knows how to promise
	inFlight int  // requests whose answers an instance awaits
	doubted  time.Duration
	killed   time.Duration
}

// drawQuiet lets the hooks of about half of the applications that write the target promise that
// they are quiet. Of two groups only one does.
func (d *cutoverRun) drawQuiet(seed uint64) {
	first := stream(seed, "quiet").IntN(2) == 0 || d.o.Quiet
	for i, g := range d.groups {
		g.app.quiet = quietApp{promises: d.Late > 0 && first == (i == 0), doubted: -g.Late, killed: -g.Late}
	}
}

// send sends the second of an application's two writes. The application may not learn its outcome.
func (d *cutoverRun) send(t *cutTable, pk, value string, whole bool) {
	at, arrives := d.World.Now(), d.World.UpTo(d.Late*9/10)
	d.World.After(arrives, func() { d.dual(t, pk, value, at, whole) })
	a := &d.app.quiet
	if !a.promises {
		return
	}
	a.inFlight++
	sent, ends, fate := d.World.Elapsed(), arrives, d.World.Rand().IntN(16)
	if fate < 2 {
		ends = d.World.UpTo(arrives)
	}
	d.World.After(ends, func() {
		a.inFlight--
		switch fate {
		case 0:
			d.World.Inject("application's request is never answered")
			a.doubted = max(a.doubted, sent)
		case 1:
			d.World.Inject("application's instance is killed")
			a.killed = d.World.Elapsed()
		}
	})
}

// isQuiet reports whether the promise is true now.
func (d *cutoverRun) isQuiet() bool {
	a, now := d.app.quiet, d.World.Elapsed()
	return a.promises && a.inFlight == 0 && now-a.doubted > d.Late && now-a.killed > d.Late
}

// answerFreeze is the answer of a hook that has frozen the application. It waits for a while until
// the application is quiet.
func (d *cutoverRun) answerFreeze(ctx context.Context) (outcome string) {
	if !d.app.quiet.promises {
		return ""
	}
	for end := d.World.Elapsed() + d.World.UpTo(2*d.Late); !d.isQuiet() && d.World.Elapsed() < end; {
		if task.Sleep(ctx, time.Second) != nil {
			break
		}
	}
	if ctx.Err() != nil || !d.isQuiet() {
		return ""
	}
	d.World.Inject("application promises to be quiet")
	return "quiet"
}

// expires removes items by TTL just after the application was frozen, before canaries are written.
// No application's write belongs to that.
func (d *cutoverRun) expires(was, is checkpoint.Cutover) {
	if !is.Quiet || was.Quiet || d.World.Rand().IntN(2) == 0 {
		return
	}
	d.World.After(d.World.UpTo(2*time.Second), func() {
		t, pk := d.tables[d.World.Rand().IntN(len(d.tables))], "k2"
		if !d.app.frozen || d.app.switched || !t.holds(pk) || t.told[pk].badly {
			return
		}
		d.World.Inject("item expires while the application is frozen")
		t.Source.ExpireItem(keysOf(pk))
		t.told[pk] = told{at: d.World.Elapsed()}
	})
}
