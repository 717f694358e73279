package admin

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestLogForms(t *testing.T) {
	var b strings.Builder
	clock := func() time.Time {
		return start.Add(10*time.Hour + 42*time.Minute + 7*time.Second + 250*time.Millisecond)
	}
	for _, l := range []Log{
		{Format: "json", Level: "debug"},
		{Format: "json", Level: "info"},
		{Format: "text", Level: "warn", Terminal: true},
		{Format: "text", Level: "info"},
		{Format: "json", Level: "error", Terminal: true},
	} {
		l.Clock = clock
		b.WriteString("--- " + l.Format + " " + l.Level)
		if l.Terminal {
			b.WriteString(" on a terminal")
		}
		b.WriteString("\n")
		log, err := l.New(&b)
		if err != nil {
			t.Fatal(err)
		}
		log.Debug("listed", KeyTable, "Orders", KeyItems, 3)
		log = log.With(KeyTable, "Orders")
		log.Info("shard taken", KeyShard, "shardId-1", KeyEpoch, uint64(7))
		log.Warn("retrying", KeyStep, "read", KeyWait, 1500*time.Millisecond, KeyError, errors.New(`throttled: "slow down"`))
		log.Error("gap", KeyReason, "trimmed", slog.Group("more", slog.String("time", "kept"), slog.Duration("wait", time.Second)))
	}
	golden(t, "testdata/log.txt", b.String())
}

func TestLogRefusesUnknownForms(t *testing.T) {
	for _, l := range []Log{{Format: "xml", Level: "info"}, {Format: "auto", Level: "info"}, {Format: "text", Level: "loud"}, {Format: "text", Level: "INFO+1"}, {}} {
		if _, err := l.New(&strings.Builder{}); err == nil {
			t.Errorf("%+v was accepted", l)
		}
	}
}

// An explicit format wins. Otherwise people get text, and programs JSON.
func TestLogFormat(t *testing.T) {
	for _, c := range []struct {
		asked  string
		people bool
		want   string
	}{{"text", false, "text"}, {"text", true, "text"}, {"json", false, "json"}, {"json", true, "json"}, {"auto", true, "text"}, {"auto", false, "json"}, {"", false, "json"}, {"", true, "text"}} {
		if got := LogFormat(c.asked, c.people); got != c.want {
			t.Errorf("%q, read by people: %t: %s, want %s", c.asked, c.people, got, c.want)
		}
	}
}
