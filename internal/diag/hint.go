package diag

import (
	"regexp"
	"strings"
)

// command matches commands of this program that read a configuration. In a text, a command is
// between backquotes or is the whole text.
var command = regexp.MustCompile("`replicator (?:lint|plan|preview|test|run|status|explain|parked)[^`\n]*`|^replicator (?:lint|plan|preview|test|run|status|explain|parked)(?: [^,;\n]*)?$")

// withFlags adds flags to each command in a text. It skips commands that already name a
// configuration or ask for help.
func withFlags(text, flags string) string {
	if flags == "" {
		return text
	}
	return command.ReplaceAllStringFunc(text, func(found string) string {
		if strings.Contains(found, " -c ") || strings.Contains(found, " --help") {
			return found
		}
		if line, quoted := strings.CutSuffix(found, "`"); quoted {
			return line + flags + "`"
		}
		return found + flags
	})
}

// WithFlags returns the findings with the flags added to the commands in their fixes.
func (l List) WithFlags(flags string) List {
	if flags == "" {
		return l
	}
	out := make(List, len(l))
	for i, e := range l {
		with := *e
		with.Fix = withFlags(e.remedy(), flags)
		out[i] = &with
	}
	return out
}
