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

// How often lines are written where they cannot be redrawn: often at first, so that somebody who just started a load sees it
// move, and seldom afterwards, so that a log of days stays readable.
const (
	plainEveryAtFirst = time.Second
	plainAtFirst      = 10 * time.Second
	plainEvery        = 10 * time.Second
)

// mostDrawn bounds what is redrawn on a terminal: lines that scrolled out of its top could not be erased.
const mostDrawn = 10

// Renderer shows the loads of all tables. On a terminal it redraws a line for each; elsewhere it writes lines now and then. It
// is an io.Writer for everything else that goes to the same terminal, such as logs, so that they do not tear the lines.
// It may be used by several tasks at once.
type Renderer struct {
	out      io.Writer
	record   func(Report) // takes each report in place of a line; nil: lines are written
	terminal bool
	width    func() int

	mu      sync.Mutex
	drawn   []string // what stands on the terminal now
	began   bool
	start   time.Duration
	written time.Duration // when plain lines were last written
}

// NewRenderer shows on out. Width is that of the terminal in characters, asked for at every redraw, and nil if out is none.
func NewRenderer(out io.Writer, width func() int) *Renderer {
	return &Renderer{out: out, terminal: width != nil, width: width}
}

// NewRecorder gives each report to record, as often as lines were written; for programs that read them.
func NewRecorder(record func(Report)) *Renderer { return &Renderer{out: io.Discard, record: record} }

// Show brings what is shown up to date; callers call it about once a second. Now is a monotonic time.
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

// Finish writes lines that stay, whatever the time: the last word on loads that are over.
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

// Write passes text of others on, above the lines. Text should end with a line end.
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
	width := r.width() - 1 // some terminals wrap as soon as the last column is used
	for i, report := range reports {
		if i == mostDrawn-1 && len(reports) > mostDrawn {
			r.drawn = append(r.drawn, shorten(fmt.Sprintf("and %d more tables", len(reports)-i), width))
			break
		}
		r.drawn = append(r.drawn, shorten(report.String(), width))
	}
	b.WriteString(strings.Join(r.drawn, "\n"))
	_, err := r.out.Write(b.Bytes()) // in one piece, or the terminal flickers
	return err
}

// erase takes the drawn lines away and leaves the cursor where the first one began.
// Source of the sequences: ECMA-48, CPL (cursor preceding line) and ED (erase in page).
func (r *Renderer) erase(b *bytes.Buffer) {
	switch n := len(r.drawn); {
	case n == 0:
	case n == 1:
		b.WriteString("\r\x1b[J")
	default:
		fmt.Fprintf(b, "\x1b[%dF\x1b[J", n-1)
	}
}

// shorten cuts a line to so many characters: a wrapped line could not be erased. A width that is not known leaves it whole.
func shorten(line string, width int) string {
	if width <= 1 || utf8.RuneCountInString(line) <= width {
		return line
	}
	runes := []rune(line)
	return string(runes[:width-1]) + "…"
}
