package job

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/log"
)

// handler passes records to Beam's log, which brings them to the runner.
type handler struct {
	slog.Handler
	lines *lines
}

// lines is the text of the record that is being written.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func newHandler() slog.Handler {
	l := &lines{}
	return handler{slog.NewTextHandler(&l.text, &slog.HandlerOptions{ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey) {
			return slog.Attr{} // Beam's log adds them
		}
		return a
	}}), l}
}

func (h handler) Handle(ctx context.Context, r slog.Record) error {
	h.lines.mu.Lock()
	defer h.lines.mu.Unlock()
	h.lines.text.Reset()
	if err := h.Handler.Handle(ctx, r); err != nil {
		return err
	}
	log.Output(ctx, severity(r.Level), 1, strings.TrimSuffix(h.lines.text.String(), "\n"))
	return nil
}

func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{h.Handler.WithAttrs(attrs), h.lines}
}

func (h handler) WithGroup(name string) slog.Handler {
	return handler{h.Handler.WithGroup(name), h.lines}
}

func severity(l slog.Level) log.Severity {
	switch {
	case l >= slog.LevelError:
		return log.SevError
	case l >= slog.LevelWarn:
		return log.SevWarn
	case l >= slog.LevelInfo:
		return log.SevInfo
	}
	return log.SevDebug
}
