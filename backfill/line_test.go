package backfill

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares with a file of expected output, or writes it.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; got:\n%s", path, got)
	}
}

func TestReportLines(t *testing.T) {
	const unknown = -1
	full := Report{
		Table: "VideoApp", Items: 41_234_567, Estimate: 136_100_000, Rate: 22_431, ETA: 70*time.Minute + 29*time.Second,
		Lag: 840 * time.Millisecond, Headroom: 23*time.Hour + 41*time.Minute, Throttled: "target CPU 74% > 70%",
	}
	vary := func(change func(*Report)) Report {
		r := full
		change(&r)
		return r
	}
	var b strings.Builder
	for _, r := range []Report{
		full,
		vary(func(r *Report) { r.ETA, r.Throttled = 0, "" }),
		{Table: "Fresh", Rate: unknown, Lag: unknown, Headroom: unknown},
		{Table: "Fresh", Estimate: 12, Rate: unknown, Lag: unknown, Headroom: unknown},
		{Table: "Uncounted", Items: 1234, Rate: 411.3, Lag: 12 * time.Second, Headroom: unknown},
		{Table: "Grown", Items: 1_020_000, Estimate: 1_000_000, Rate: 998.7, Lag: unknown, Headroom: unknown},
		{Table: "Almost", Items: 999_999, Estimate: 1_000_000, Rate: 0, Lag: unknown, Headroom: unknown},
		vary(func(r *Report) { r.Done, r.Took, r.Items = true, 2*time.Hour+3*time.Minute, 136_412_000 }),
	} {
		fmt.Fprintln(&b, r)
	}
	golden(t, "testdata/lines.txt", b.String())
}

func TestFormatCount(t *testing.T) {
	for n, want := range map[float64]string{
		0: "0", 7: "7", 999: "999", 999.6: "1k", 1000: "1k", 1249: "1.2k", 22_431: "22.4k", 99_949: "99.9k", 99_960: "100k",
		999_499: "999k", 999_500: "1M", 41_234_567: "41.2M", 136_100_000: "136M", 5e9: "5G", 2.5e12: "2.5T", 4e15: "4000T",
	} {
		if got := FormatCount(n); got != want {
			t.Errorf("%v: %s, not %s", n, got, want)
		}
	}
}

func TestFormatDuration(t *testing.T) {
	for text, want := range map[string]string{
		"0s": "0.0s", "840ms": "0.8s", "9.99s": "9.9s", "10s": "10s", "59.9s": "59s", "1m": "1m00s", "3m20s": "3m20s", "9m59s": "9m59s",
		"12m40s": "12m", "59m59s": "59m", "1h10m59s": "1h10m", "2h3m": "2h03m", "23h41m": "23h41m", "99h": "99h00m", "100h": "4d04h", "-90s": "-1m30s",
	} {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := FormatDuration(d); got != want {
			t.Errorf("%s: %s, not %s", text, got, want)
		}
	}
}

func report(items int64) Report {
	return Report{Table: "Orders", Items: items, Estimate: 10_000, Rate: 100, Lag: -1, Headroom: -1}
}

func TestPlainLinesComeOftenAtFirst(t *testing.T) {
	var out bytes.Buffer
	r := NewRenderer(&out, nil)
	var at []int
	for now := time.Duration(0); now <= 45*time.Second; now += 100 * time.Millisecond {
		before := out.Len()
		if err := r.Show(time.Hour+now, []Report{report(int64(now / time.Second))}); err != nil {
			t.Fatal(err)
		}
		if out.Len() != before {
			at = append(at, int(now/time.Second))
		}
	}
	if got, want := fmt.Sprint(at), "[0 1 2 3 4 5 6 7 8 9 10 20 30 40]"; got != want {
		t.Errorf("lines after %s, not %s", got, want)
	}
	if err := r.Finish([]Report{{Table: "Orders", Items: 45, Done: true, Took: 45 * time.Second, Rate: 1, Lag: -1, Headroom: -1}}); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintln(r, "a log line"); err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/plain.txt", out.String())
}

// TestTerminal checks what a person sees: it plays the bytes on a small terminal.
func TestTerminal(t *testing.T) {
	screen := &screen{}
	r := NewRenderer(screen, func() int { return 40 })
	var b strings.Builder
	snapshot := func(title string) { fmt.Fprintf(&b, "--- %s\n%s\n", title, strings.Join(screen.lines, "\n")) }
	show := func(reports ...Report) {
		t.Helper()
		if err := r.Show(0, reports); err != nil {
			t.Fatal(err)
		}
	}
	fmt.Fprintln(r, "before anything")
	show(report(1))
	snapshot("one table")
	show(report(250))
	snapshot("redrawn")
	other := report(77)
	other.Table = "A_table_with_a_name_that_is_long"
	show(report(300), other)
	snapshot("two tables, the second cut to the width")
	fmt.Fprintln(r, "a log line")
	fmt.Fprint(r, "another without an end")
	snapshot("logs above")
	show(other)
	snapshot("one is done")
	if err := r.Finish([]Report{report(300), other}); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(r, "afterwards")
	snapshot("finished")
	many := make([]Report, 30)
	for i := range many {
		many[i] = report(int64(i))
	}
	show(many...)
	snapshot("more tables than lines")
	golden(t, "testdata/terminal.txt", b.String())
}

// screen is a terminal that knows the sequences in use and rejects others.
type screen struct {
	lines    []string
	row, col int
}

func (s *screen) Write(p []byte) (int, error) {
	for text := string(p); text != ""; {
		for len(s.lines) <= s.row {
			s.lines = append(s.lines, "")
		}
		var up int
		switch {
		case strings.HasPrefix(text, "\x1b[J"):
			s.lines = s.lines[:s.row+1]
			s.lines[s.row] = string([]rune(s.lines[s.row])[:s.col])
			text = text[3:]
		case strings.HasPrefix(text, "\x1b["):
			if _, err := fmt.Sscanf(text, "\x1b[%dF", &up); err != nil {
				return 0, fmt.Errorf("unknown sequence %q", text)
			}
			s.row, s.col = s.row-up, 0
			text = text[strings.Index(text, "F")+1:]
		case text[0] == '\r':
			s.col, text = 0, text[1:]
		case text[0] == '\n':
			s.row, s.col, text = s.row+1, 0, text[1:]
		default:
			r := []rune(text)[0]
			line := append([]rune(s.lines[s.row])[:s.col], r)
			s.lines[s.row], s.col = string(line), s.col+1
			text = text[len(string(r)):]
		}
	}
	return len(p), nil
}

// The noun agrees with the number as displayed.
func TestCounted(t *testing.T) {
	for n, want := range map[float64]string{0: "0 items", 1: "1 item", 0.6: "1 item", 1.4: "1 item", 2: "2 items", 1e6: "1M items"} {
		if got := Counted(n, "item"); got != want {
			t.Errorf("%v: %s, want %s", n, got, want)
		}
	}
}
