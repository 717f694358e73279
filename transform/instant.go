package transform

import (
	"strconv"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// dateFields are the fields of a date pattern, longest first, with Go's layouts. Characters between
// fields are literal and must not be letters or digits.
var dateFields = []struct{ pattern, layout string }{
	{"yyyy", "2006"}, {"SSS", "000"}, {"MM", "01"}, {"dd", "02"}, {"HH", "15"}, {"mm", "04"}, {"ss", "05"},
}

func checkDate(c Call) string {
	for rest := c.Text; rest != ""; {
		matched := false
		for _, f := range dateFields {
			if after, ok := strings.CutPrefix(rest, f.pattern); ok {
				rest, matched = after, true
				break
			}
		}
		if matched {
			continue
		}
		if ch := rest[0]; ch >= 'a' && ch <= 'z' || ch >= 'A' && ch <= 'Z' || ch >= '0' && ch <= '9' {
			return "a date pattern may have only yyyy MM dd HH mm ss SSS, and characters that are neither letters nor digits"
		}
		rest = rest[1:]
	}
	return ""
}

func date(v scalar, c *Call) (scalar, error) {
	at, err := instant(v)
	if err != nil {
		return scalar{}, err
	}
	var b strings.Builder
	for rest := c.Text; rest != ""; {
		matched := false
		for _, f := range dateFields {
			after, ok := strings.CutPrefix(rest, f.pattern)
			if !ok {
				continue
			}
			if f.pattern == "SSS" {
				millis := strconv.Itoa(at.Nanosecond() / 1e6)
				b.WriteString(zeros[:3-len(millis)] + millis)
			} else {
				b.WriteString(at.Format(f.layout))
			}
			rest, matched = after, true
			break
		}
		if !matched {
			b.WriteByte(rest[0])
			rest = rest[1:]
		}
	}
	return scalar{attribute.KindS, b.String()}, nil
}

func epochMillis(v scalar, _ *Call) (scalar, error) {
	at, err := instant(v)
	if err != nil {
		return scalar{}, err
	}
	return scalar{attribute.KindN, strconv.FormatInt(at.UnixMilli(), 10)}, nil
}

// secondsBelow separates epoch seconds from milliseconds: smaller numbers are seconds. Read as
// seconds, this number is in the year 5138. Read as milliseconds, it is in March 1973.
const secondsBelow = 100_000_000_000

// isoLayouts are the accepted forms of ISO 8601; fractions of a second may follow the seconds.
var isoLayouts = []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04Z07:00", "2006-01-02", "20060102T150405Z", "20060102"}

// instant parses a point in time: an ISO 8601 text, in UTC if it names no zone, or a number of
// seconds or milliseconds since 1970. Years have four digits.
func instant(v scalar) (time.Time, error) {
	if v.kind == attribute.KindB {
		return time.Time{}, errFunction("needs a date or a number, not B")
	}
	at, found := time.Time{}, false
	if v.kind == attribute.KindS {
		for _, layout := range isoLayouts {
			if t, err := time.Parse(layout, v.text); err == nil {
				at, found = t.UTC(), true
				break
			}
		}
	}
	if !found {
		seconds, fraction, _ := strings.Cut(v.text, ".")
		n, err := strconv.ParseInt(seconds, 10, 64)
		if err != nil || n > 253402300799999 || n < -62135596800 || strings.Trim(fraction, "0123456789") != "" {
			return time.Time{}, errFunction("needs an ISO 8601 date, or epoch seconds or milliseconds")
		}
		if n >= secondsBelow {
			at = time.UnixMilli(n).UTC()
		} else {
			millis, _ := strconv.Atoi((fraction + "000")[:3])
			if strings.HasPrefix(v.text, "-") {
				millis = -millis
			}
			at = time.Unix(n, int64(millis)*1e6).UTC()
		}
	}
	if at.Year() < 1 || at.Year() > 9999 {
		return time.Time{}, errFunction("needs a date of the years 1 to 9999")
	}
	return at, nil
}
