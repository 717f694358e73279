package backfill

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// These constants say how often lines are written if they cannot be redrawn. At first, lines are
// frequent: an operator who has just started a load sees that it moves. Later, lines are rare: a
// log of several days stays readable.
const (
	plainEveryAtFirst = time.Second
	plainAtFirst      = 10 * time.Second
	plainEvery        = 10 * time.Second
)

// mostDrawn bounds the lines that are redrawn on a terminal, because lines that have scrolled off
// the top could not be erased.
const mostDrawn = 10

// Renderer shows the loads of all tables. On a terminal it redraws one line for each load.
// Otherwise it writes lines at intervals. It is also an io.Writer for other output to the same
// terminal, such as logs. So this output does not break up the lines. It is safe for concurrent
// use.
type Renderer struct {
	out      io.Writer
	record   func(Report) // receives each report instead of a line; nil: lines are written
	terminal bool
	width    func() int

	mu      sync.Mutex
	drawn   []string // the lines on the terminal now
	began   bool
	start   time.Duration
	written time.Duration // when plain lines were last written
}

// NewRenderer returns a Renderer that writes to out. The argument `width` returns the width of the
// terminal in characters. It is called at every redraw. The argument `width` must be nil if out is
// not a terminal.
func NewRenderer(out io.Writer, width func() int) *Renderer {
	return &Renderer{out: out, terminal: width != nil, width: width}
}

// NewRecorder returns a Renderer that passes each report to record, as often as it would write
// lines. It is for programs that read the reports.
func NewRecorder(record func(Report)) *Renderer { return &Renderer{out: io.Discard, record: record} }

// Show updates the output. Callers should call it about once a second. The argument `now` is a
// monotonic time.
func (r *Renderer) Show(now time.Duration, reports []Report) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.terminal {
		return r.redraw(reports)
	}
	if !r.began {
		r.began, r.start, r.written = true, now, now-plainEvery
	}
	every := plainEvery
	if now-r.start <= plainAtFirst {
		every = plainEveryAtFirst
	}
	if now-r.written < every {
		return nil
	}
	r.written = now
	return r.lines(reports)
}

// Finish writes the final lines of loads that have ended, regardless of the interval.
func (r *Renderer) Finish(reports []Report) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b bytes.Buffer
	r.erase(&b)
	r.drawn = nil
	if _, err := r.out.Write(b.Bytes()); err != nil {
		return err
	}
	return r.lines(reports)
}

// Write writes other output above the lines. Text should end with a line end.
func (r *Renderer) Write(text []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.drawn) == 0 {
		return r.out.Write(text)
	}
	var b bytes.Buffer
	r.erase(&b)
	b.Write(text)
	if !bytes.HasSuffix(text, []byte("\n")) {
		b.WriteByte('\n')
	}
	b.WriteString(strings.Join(r.drawn, "\n"))
	if _, err := r.out.Write(b.Bytes()); err != nil {
		return 0, err
	}
	return len(text), nil
}

func (r *Renderer) lines(reports []Report) error {
	if len(reports) == 0 {
		return nil
	}
	var b bytes.Buffer
	for _, report := range reports {
		if r.record != nil {
			r.record(report)
			continue
		}
		b.WriteString(report.String())
		b.WriteByte('\n')
	}
	_, err := r.out.Write(b.Bytes())
	return err
}

func (r *Renderer) redraw(reports []Report) error {
	var b bytes.Buffer
	r.erase(&b)
	r.drawn = r.drawn[:0]
	width := r.width() - 1 // some terminals wrap when the last column is used
	for i, report := range reports {
		if i == mostDrawn-1 && len(reports) > mostDrawn {
			r.drawn = append(r.drawn, shorten(fmt.Sprintf("and %d more tables", len(reports)-i), width))
			break
		}
		r.drawn = append(r.drawn, shorten(report.String(), width))
	}
	b.WriteString(strings.Join(r.drawn, "\n"))
	_, err := r.out.Write(b.Bytes()) // in one write, because otherwise the terminal flickers
	return err
}

// erase removes the drawn lines and leaves the cursor at the start of the first one. Source of the
// sequences: ECMA-48, CPL (cursor preceding line) and ED (erase in page).
func (r *Renderer) erase(b *bytes.Buffer) {
	switch n := len(r.drawn); {
	case n == 0:
	case n == 1:
		b.WriteString("\r\x1b[J")
	default:
		fmt.Fprintf(b, "\x1b[%dF\x1b[J", n-1)
	}
}

// shorten cuts a line to width characters, because a line that wraps could not be erased. If the
// width is not known, it returns the whole line.
func shorten(line string, width int) string {
	if width <= 1 || utf8.RuneCountInString(line) <= width {
		return line
	}
	runes := []rune(line)
	return string(runes[:width-1]) + "…"
}
