package engine

import (
	"context"
	"errors"
	"math"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/source"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/relay"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// The limits that can make work wait, by the names in metrics, status and events.
const (
	LimitRows   = "rows per second"    // backfill.max_rows_per_second
	LimitUnits  = "read capacity"      // backfill.max_read_capacity
	LimitSource = "DynamoDB throttles" // the stream or the table
	limitTarget = "Bigtable throttles"
	limitTopic  = "Pub/Sub throttles"
)

// limitOf reports whether a step failed because a service lacked capacity. If so, it returns the
// limit of that service.
func limitOf(err error) (string, bool) {
	var read *cdc.Error
	var topic *relay.Error
	switch {
	case errors.As(err, &read):
		return LimitSource, read.Reason == cdc.Throttled
	case errors.As(err, &topic):
		return limitTopic, topic.Reason == relay.Throttled
	case sink.Is(err, sink.Throttled):
		return limitTarget, true
	}
	return "", false
}

// causeOf returns why a step failed, in a text that can be stored and shown. The text has fixed
// words, or a service's words if they contain no item data.
func causeOf(err error) string {
	var read *cdc.Error
	var record *cdc.RecordError
	var write *sink.Error
	var topic *relay.Error
	var file *source.Fault
	var hole *checkpoint.NotAdmissible
	switch {
	case errors.As(err, &file): // the text of this error contains no item data
		return file.Error() + ": " + file.Fix
	case errors.As(err, &hole):
		return hole.Reason
	case errors.Is(err, cdc.ErrChecksum):
		return "DynamoDB: an answer has a wrong checksum; check whether a proxy changes answers"
	case errors.As(err, &record):
		return quoting("malformed record", record.Error())
	case errors.As(err, &read):
		return "DynamoDB: " + read.Reason.String()
	case errors.As(err, &write):
		return quoting("Bigtable: "+write.Reason.String()+" ("+write.Code+")", write.Text)
	case errors.As(err, &topic):
		cause := "Pub/Sub: " + string(topic.Reason) + " (" + topic.Code + ")"
		if topic.Op == "Publish" {
			cause += ", its ordering keys are blocked until the next attempt"
		}
		return quoting(cause, topic.Text)
	case errors.Is(err, backfill.ErrProgress):
		return "this version cannot read the progress of the copy in the ledger"
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	}
	return "failed; see the worker's log"
}

// mostQuoted is the maximum length of quoted words of a service, in bytes. The words are stored in
// the lease's row.
const mostQuoted = 300

// quoting adds the words of a service to a cause, in one line. The words are escaped when the cause
// is shown.
func quoting(cause, words string) string {
	words = strings.Join(strings.Fields(words), " ")
	if words == "" {
		return cause
	}
	if len(words) > mostQuoted {
		words = strings.ToValidUTF8(words[:mostQuoted], "") + "…"
	}
	return cause + ": " + words
}

// Notes collects the failures that two loops under the same lease report. If both loops fail, the
// failure of the first loop is reported.
type Notes struct {
	Tell func(checkpoint.Trouble)

	mu    sync.Mutex
	slots [2]checkpoint.Trouble
}

func (n *Notes) Slot(i int) func(checkpoint.Trouble) {
	return func(t checkpoint.Trouble) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.slots[i] = t
		if n.slots[0] != (checkpoint.Trouble{}) {
			n.Tell(n.slots[0])
			return
		}
		n.Tell(n.slots[1])
	}
}

// diary records the failures of one step while it is retried.
type diary struct {
	tell  func(checkpoint.Trouble) // if nil, failures are not recorded
	step  string
	since time.Time
}

func (d *diary) write(ctx context.Context, err error) {
	if d.tell == nil {
		return
	}
	if d.since.IsZero() {
		d.since = task.Now(ctx).UTC()
	}
	_, throttled := limitOf(err)
	d.tell(checkpoint.Trouble{Step: d.step, Cause: causeOf(err), Since: d.since, Throttled: throttled})
}

// close ends the record of a step's failures. It must be called even if the step failed. Otherwise
// a step that is no longer retried would still show as a failure of the lease.
func (d *diary) close() {
	if d.tell != nil && !d.since.IsZero() {
		d.tell(checkpoint.Trouble{})
	}
}

// RateMeter measures the applied changes per second. The rate is a mean in which changes older than
// rateWindow have little weight.
type RateMeter struct {
	At      time.Duration // time of the last addition
	rate    float64
	pending int // changes that were added at the same moment as At
}

// rateWindow is the time constant of that mean.
const rateWindow = 30 * time.Second

// Add records n changes that were applied between the last call and the time `now`. It returns the
// rate, rounded to a thousandth.
func (t *RateMeter) Add(n int, now time.Duration) float64 {
	t.pending += n
	passed := now - t.At
	if passed <= 0 {
		return t.rounded()
	}
	weight := 1 - math.Exp(-passed.Seconds()/rateWindow.Seconds())
	t.rate += (float64(t.pending)/passed.Seconds() - t.rate) * weight
	t.At, t.pending = now, 0
	return t.rounded()
}

func (t *RateMeter) rounded() float64 { return math.Round(t.rate*1000) / 1000 }

// waits records the times in the last hour in which a table's work in this process waited for
// limits. Segments and shards wait concurrently. So the report counts the time in which at least
// one of them waited. A sum over all segments and shards might be days within one hour.
type waits struct {
	mu      sync.Mutex
	reasons map[string]*waited
}

// waitTick is the resolution of `waits`: work waited in a tick, or it did not. The beginning and
// the end of a wait are rounded to ticks, and the rounding errors cancel out on average.
const (
	waitTick       = 100 * time.Millisecond
	ticksPerMinute = int64(time.Minute / waitTick)
)

// waited records the ticks in which work waited for one limit. It is a ring of minutes since the
// Unix epoch. A wait may be recorded at its beginning, for the future, so the ring is longer than
// an hour.
type waited struct {
	first   time.Time
	last    time.Time
	minutes [64]waitedMinute
}

type waitedMinute struct {
	minute int64
	ticks  [(ticksPerMinute + 63) / 64]uint64
}

// tickOf returns the tick that contains a time, within its minute.
func tickOf(at time.Time) (minute, tick int64) {
	ticks := at.UnixMilli() / waitTick.Milliseconds()
	if minute = ticks / ticksPerMinute; ticks < minute*ticksPerMinute { // round down even for a time before 1970
		minute--
	}
	return minute, ticks - minute*ticksPerMinute
}

func (r *waited) in(minute int64) *waitedMinute {
	slots := int64(len(r.minutes))
	return &r.minutes[(minute%slots+slots)%slots]
}

// add records a wait of duration `spent` that begins at `from`. It may be called at the beginning
// or at the end of the wait.
func (w *waits) add(reason string, from time.Time, spent time.Duration, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.reasons == nil {
		w.reasons = map[string]*waited{}
	}
	r := w.reasons[reason]
	if r == nil {
		r = &waited{first: from}
		w.reasons[reason] = r
	}
	r.last = now
	until, untilTick := tickOf(from.Add(spent))
	minute, tick := tickOf(from)
	if minute < until-60 {
		minute, tick = until-60, 0
	}
	for ; minute < until || minute == until && tick < untilTick; tick++ {
		if tick == ticksPerMinute {
			minute, tick = minute+1, -1
			continue
		}
		at := r.in(minute)
		if at.minute != minute {
			*at = waitedMinute{minute: minute}
		}
		at.ticks[tick/64] |= 1 << (tick % 64)
	}
}

// Report returns how long work waited for each limit in the hour before the time `now`. It leaves
// out limits for which no work waited.
func (w *waits) Report(now time.Time) []checkpoint.Throttled {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []checkpoint.Throttled
	minute, tick := tickOf(now)
	for reason, r := range w.reasons {
		ticks := 0
		for back := range int64(60) {
			m := *r.in(minute - back)
			if m.minute != minute-back {
				continue
			}
			for i, word := range m.ticks {
				// Later ticks of this minute are in the future.
				if left := tick - int64(i)*64; back == 0 && left < 64 {
					word &= 1<<max(left, 0) - 1
				}
				ticks += bits.OnesCount64(word)
			}
		}
		if ticks == 0 {
			continue
		}
		since := time.Unix((minute-59)*60, 0)
		if r.first.After(since) {
			since = r.first
		}
		seconds := (time.Duration(ticks) * waitTick).Seconds()
		out = append(out, checkpoint.Throttled{Reason: reason, Seconds: seconds, Since: since.UTC(), Last: r.last.UTC()})
	}
	slices.SortFunc(out, func(a, b checkpoint.Throttled) int { return strings.Compare(a.Reason, b.Reason) })
	return out
}

// Throttled records that the table's work begins to wait for a limit now, for the given time.
func (r *Retrier) Throttled(ctx context.Context, reason string, wait time.Duration) {
	now := task.Now(ctx)
	r.Waits.add(reason, now, wait, now)
	r.Events.Throttled(r.Source, reason, wait)
}

// Waited records that the table's work has waited for a limit for the given time, until now.
func (r *Retrier) Waited(ctx context.Context, reason string, wait time.Duration) {
	now := task.Now(ctx)
	r.Waits.add(reason, now.Add(-wait), wait, now)
	r.Events.Throttled(r.Source, reason, wait)
}
