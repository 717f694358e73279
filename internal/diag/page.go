package diag

import (
	"fmt"
	"strings"
)

//go:generate go test -run ^TestErrorsPage$ . -update

// areas maps the first two digits of a code to the heading of its part of the page.
var areas = []struct{ prefix, title string }{
	{"R10", "Configuration"},
	{"R11", "Environment"},
	{"R12", "Source (DynamoDB)"},
	{"R13", "Target (Bigtable)"},
	{"R14", "Ledger"},
	{"R15", "Data"},
	{"R16", "The program itself"},
}

// document returns the Markdown text of docs/errors.md.
func document() string {
	var b strings.Builder
	b.WriteString(`# Errors

<!-- Generated from internal/diag/codes.go by "go generate ./internal/diag". Do not edit. -->

Every error has a code. It is printed in four lines: what failed, the original cause, what to do, and
where to read more. Codes never change their meaning. The meaning of an exit status is in
[exit statuses](reference/exit-codes.md).
`)
	for _, area := range areas {
		fmt.Fprintf(&b, "\n## %s\n", area.title)
		for _, entry := range registry {
			if !strings.HasPrefix(entry.Code, area.prefix) {
				continue
			}
			// The explicit anchor is needed for the capital R. Websites derive lower-case anchors
			// from headings.
			fmt.Fprintf(&b, "\n<a id=\"%s\"></a>\n### %s: %s\n\n%s\n\n**Fix:** %s.\n\nExit status %d.\n",
				entry.Code, entry.Code, entry.Title, escapeMarkdown(entry.Explain), escapeMarkdown(entry.Fix), entry.Exit)
		}
	}
	return b.String()
}

// escapeMarkdown escapes underscores, stars, dollar signs and "<" outside of code spans, so that
// they are not taken for markup.
func escapeMarkdown(s string) string {
	parts := strings.Split(s, "`")
	for i := 0; i < len(parts); i += 2 {
		parts[i] = strings.NewReplacer("_", `\_`, "*", `\*`, "<", "&lt;", "$", `\$`).Replace(parts[i])
	}
	return strings.Join(parts, "`")
}
