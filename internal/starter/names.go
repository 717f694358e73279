package starter

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Bounds of numbers that count as times: from 2001 to 2096.
const (
	firstSecond, lastSecond = 1_000_000_000, 4_000_000_000
	// gaps is the maximum ratio of the range of numbers to their count, at which they still count
	// as a sequence.
	gaps = 100
)

// hotNumbers returns why partition keys that are whole numbers of at most 18 digits would create a
// hot tablet; "" if they would not.
func hotNumbers(texts []string, items int64) string {
	least, most := int64(1<<62), int64(0)
	for _, text := range texts {
		n, _ := strconv.ParseInt(text, 10, 64) // at most 18 digits
		least, most = min(least, n), max(most, n)
	}
	switch {
	case least >= firstSecond && most <= lastSecond, least >= firstSecond*1000 && most <= lastSecond*1000:
		return "looks like a time"
	case (most-least)/gaps <= items:
		return "looks like a sequence of numbers"
	}
	return ""
}

// cutByTime matches the end of a table's name that contains a time: _2015_01, -201501, .2015-01-31.
var cutByTime = regexp.MustCompile(`^(.+?)([_.-]?)((?:19|20)[0-9]{2})([_.-]?)(0[1-9]|1[0-2])(?:([_.-]?)([0-3][0-9]))?$`)

// series is a group of tables that look like one table split by time.
type series struct {
	pattern string // pattern of the tables' names, as in the configuration
	names   []string
}

// seriesOf finds groups of tables with names that look like one table split by time.
func seriesOf(names []string) []series {
	var found []series
	for _, name := range names {
		m := cutByTime.FindStringSubmatch(name)
		if m == nil {
			continue
		}
		pattern := m[1] + m[2] + "{year:4}" + m[4] + "{month:2}"
		if m[7] != "" {
			pattern += m[6] + "{day:2}"
		}
		i := slices.IndexFunc(found, func(s series) bool { return s.pattern == pattern })
		if i < 0 {
			i = len(found)
			found = append(found, series{pattern: pattern})
		}
		found[i].names = append(found[i].names, name)
	}
	return slices.DeleteFunc(found, func(s series) bool { return len(s.names) < 2 })
}

// targetName returns a name for the target table in Bigtable; "" if the name of the source table
// can be used.
func targetName(source string, taken map[string]bool) string {
	const longest = 50
	name := strings.TrimLeft(source, "-.")
	if len(name) > longest {
		name = name[:longest]
	}
	if name == "" {
		name = "table"
	}
	base := name
	for i := 2; taken[name]; i++ {
		suffix := fmt.Sprintf("_%d", i)
		name = base[:min(len(base), longest-len(suffix))] + suffix
	}
	taken[name] = true
	if name == source {
		return ""
	}
	return name
}

// plainName matches names that need no quotes in YAML.
var plainName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]*$`)

// quoted returns text as a YAML value, in which no variables are expanded.
func quoted(text string) string {
	switch strings.ToLower(text) {
	case "null", "true", "false", "yes", "no", "on", "off":
	default:
		if plainName.MatchString(text) {
			return text
		}
	}
	return "'" + strings.ReplaceAll(strings.ReplaceAll(text, "$", "$$"), "'", "''") + "'"
}
