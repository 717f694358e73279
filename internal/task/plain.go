package task

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// plain is ordinary Go: goroutines, timers, channels.
type plain struct{}

// started is the start of Mono's clock. time.Since uses its monotonic reading.
var started = time.Now()

func (plain) Now() time.Time        { return time.Now() }
func (plain) Mono() time.Duration   { return time.Since(started) }
func (plain) Rand() float64         { return rand.Float64() }
func (plain) Go(_ string, f func()) { go f() }
func (plain) NewEvent() Event       { return &plainEvent{done: make(chan struct{})} }

func (plain) Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return context.Cause(ctx)
	}
	var other <-chan struct{} // a nil channel never ends a wait
	if e, ok := ctx.(either); ok {
		other = e.other.Done()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
	case <-other:
	}
	return context.Cause(ctx)
}

func (plain) WithTimeout(ctx context.Context, d time.Duration, cause error) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d, cause)
}

type plainEvent struct {
	once sync.Once
	done chan struct{}
}

func (e *plainEvent) Set() { e.once.Do(func() { close(e.done) }) }

func (e *plainEvent) Wait(ctx context.Context) error {
	select {
	case <-e.done:
		return nil
	default:
	}
	select {
	case <-e.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
