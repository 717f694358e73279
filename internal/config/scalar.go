package config

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/timespan"
)

// fault is an error in a value, before the value's position is known.
type fault struct {
	code string
	// what is the text that follows the path of the key. If it is empty, the message names the
	// value itself.
	what  string
	cause string
	fix   string
}

var (
	wholeNumber = regexp.MustCompile(`^-?[0-9]{1,18}$`)
	anyDigits   = regexp.MustCompile(`^-?[0-9]+$`) // also matches whole numbers that are too large
)

// set parses the text of a scalar, which must not be empty, into v. A fault leaves v unchanged.
func (f *field) set(v reflect.Value, s string) *fault {
	if err := f.allowed(s); err != nil {
		return err
	}
	if f.check != "" {
		if err := checks[f.check](s); err != nil {
			return err
		}
	}
	switch f.kind {
	case text:
		v.SetString(s)
	case truth:
		if s != "true" && s != "false" {
			return &fault{diag.WrongType, "", f.path + " must be true or false", "write true or false"}
		}
		v.SetBool(s == "true")
	case count:
		return f.setCount(v, s)
	case duration:
		return f.setDuration(v, s)
	}
	return nil
}

// allowed checks a value against the enumeration of its key.
func (f *field) allowed(s string) *fault {
	for _, pattern := range f.later {
		prefix, any := strings.CutSuffix(pattern, "*")
		if s == pattern || any && strings.HasPrefix(s, prefix) {
			if len(f.oneOf) == 0 { // a named check lists the available values
				known := checks[f.check](s)
				return &fault{diag.NotAvailable, "value " + diag.Shortened(s) + " is not available in this version", known.cause, known.fix}
			}
			return &fault{diag.NotAvailable, "value " + diag.Shortened(s) + " is not available in this version",
				f.path + " can be " + alternatives(f.oneOf) + " for now",
				"write " + alternatives(f.oneOf) + ", or remove the key"}
		}
	}
	if len(f.oneOf) == 0 {
		return nil
	}
	for _, value := range f.oneOf {
		if s == value {
			return nil
		}
	}
	fix := "write " + alternatives(f.oneOf)
	if near := diag.Suggest(s, f.oneOf); near != "" {
		fix = fmt.Sprintf("did you mean %q?", near)
	}
	return &fault{diag.InvalidValue, "", f.path + " is " + alternatives(f.oneOf), fix}
}

func (f *field) setCount(v reflect.Value, s string) *fault {
	if !wholeNumber.MatchString(s) && anyDigits.MatchString(s) && f.min != "" {
		return outOfRange(f, f.min, f.max)
	}
	if !wholeNumber.MatchString(s) {
		return &fault{diag.WrongType, "", f.path + " must be a whole number", "write it like 1000"}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return &fault{diag.WrongType, "", err.Error(), "write it like 1000"}
	}
	if f.min != "" {
		low, high := mustInt(f.min), mustInt(f.max)
		if n < low || n > high {
			return outOfRange(f, f.min, f.max)
		}
	}
	v.SetInt(n)
	return nil
}

func (f *field) setDuration(v reflect.Value, s string) *fault {
	d, err := timespan.Parse(s)
	if errors.Is(err, timespan.ErrTooLong) {
		return outOfRange(f, f.min, f.max)
	}
	if err != nil {
		fix := "write it like 15s, 5m, 12h or 14d"
		if wholeNumber.MatchString(s) {
			fix = fmt.Sprintf("add the unit: %ss, %sm, %sh or %sd", s, s, s, s)
		}
		return &fault{diag.WrongType, "", f.path + " must be a duration: a number with one of the units ms, s, m, h, d", fix}
	}
	if d < mustDuration(f.min) || d > mustDuration(f.max) {
		return outOfRange(f, f.min, f.max)
	}
	v.SetInt(int64(d))
	return nil
}

func outOfRange(f *field, low, high string) *fault {
	return &fault{diag.InvalidValue, "", fmt.Sprintf("%s must be at least %s and at most %s", f.path, low, high),
		fmt.Sprintf("write a value from %s to %s", low, high)}
}

// format is the inverse of set: it returns the text that set would parse to v.
func (f *field) format(v reflect.Value) string {
	switch f.kind {
	case truth:
		return strconv.FormatBool(v.Bool())
	case count:
		return strconv.FormatInt(v.Int(), 10)
	case duration:
		return timespan.Format(time.Duration(v.Int()))
	default:
		return v.String()
	}
}

// mustInt and mustDuration parse bounds in struct tags. A bad bound is a bug, and causes a panic.
func mustInt(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		panic("config: bad bound " + s)
	}
	return n
}

func mustDuration(s string) time.Duration {
	d, err := timespan.Parse(s)
	if err != nil {
		panic("config: bad bound " + s)
	}
	return d
}

func alternatives(values []string) string {
	if len(values) < 2 {
		return strings.Join(values, "")
	}
	return strings.Join(values[:len(values)-1], ", ") + " or " + values[len(values)-1]
}
