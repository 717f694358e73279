// Package report writes findings to standard error.
package report

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"sync"

	"github.com/dynamodb-bigtable/replicator/internal/admin"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// Documents writes each finding as a line of JSON, in the same form as `lint -o json`.
func Documents(w io.Writer, found diag.List) error {
	few, rest := found.Few()
	encoder := json.NewEncoder(diag.PrintableJSON(w))
	encoder.SetEscapeHTML(false)
	for _, e := range few {
		if err := encoder.Encode(e); err != nil {
			return err
		}
	}
	if rest == "" {
		return nil
	}
	return encoder.Encode(map[string]string{"severity": "error", "what": rest})
}

// Records logs each finding as a record.
func Records(log *slog.Logger, found diag.List) {
	few, rest := found.Few()
	for _, e := range few {
		f := e.Facts()
		attributes := []any{admin.KeyCode, f.Code}
		if f.Cause != "" {
			attributes = append(attributes, admin.KeyCause, f.Cause)
		}
		attributes = append(attributes, admin.KeyFix, f.Fix, admin.KeyMore, f.More)
		if e.Pos != (diag.Position{}) {
			attributes = append(attributes, admin.KeyPlace, e.Pos.String())
		}
		if e.Warning {
			log.Warn(f.What, attributes...)
		} else {
			log.Error(f.What, attributes...)
		}
	}
	if rest != "" {
		log.Error(rest)
	}
}

// Lines returns a writer that logs each line as a record. It keeps an incomplete last line until
// the rest of the line is written.
func Lines(log *slog.Logger) io.Writer { return &lines{log: log} }

type lines struct {
	log *slog.Logger

	mu   sync.Mutex
	rest []byte
}

func (l *lines) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, text...)
	for {
		line, rest, ended := bytes.Cut(l.rest, []byte("\n"))
		if !ended {
			return len(text), nil
		}
		if line := strings.TrimSpace(string(line)); line != "" {
			l.log.Info(line)
		}
		l.rest = rest
	}
}
