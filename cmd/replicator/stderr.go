package main

import (
	"cmp"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dynamodb-bigtable/replicator/internal/admin"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/report"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// service is the annotation of commands that run until an operator stops them. Their stderr is a
// log that other programs collect.
const service = "service"

// foresee reads the command line and the environment before flags and configuration are parsed. It
// chooses the form in which errors of that parsing are written.
func (p *program) foresee(root *cobra.Command, args []string) {
	if given(args, "--output", "-o") == "json" {
		p.Output = "json"
	}
	if c, _, err := root.Find(args); err == nil {
		p.service = c.Annotations[service] != ""
	}
	_ = p.write(p.format(given(args, "--log-format", "")), "info") // cannot fail: info is a level
}

// format returns the requested format of the log, if known without the configuration.
func (p *program) format(flag string) string {
	variable, _ := p.Env("REPLICATOR_LOG_FORMAT")
	return cmp.Or(flag, variable)
}

// write sets stderr to a format of the log: text, or only lines of JSON. By default, stderr is text
// on a terminal, because the user may be asked for confirmation there. Otherwise it is JSON for a
// service, and for a command that writes a JSON document to stdout. For all other commands it is
// text.
func (p *program) write(format, level string) error {
	if admin.LogFormat(format, p.onTerminal() || !p.service && !p.AsJSON()) == "json" {
		return p.inRecords(level)
	}
	if p.plain != nil {
		p.Stderr, p.plain, p.records, p.said = p.plain, nil, nil, nil
	}
	return nil
}

// given returns the value of a flag in arguments that are not parsed yet; "" if the flag is
// missing.
func given(args []string, long, short string) string {
	for i, arg := range args {
		if value, ok := strings.CutPrefix(arg, long+"="); ok {
			return value
		}
		if (arg == long || arg == short && short != "") && i+1 < len(args) {
			return args[i+1]
		}
		if value, ok := strings.CutPrefix(arg, short); ok && short != "" && value != "" {
			return strings.TrimPrefix(value, "=")
		}
	}
	return ""
}

// inRecords makes stderr a JSON log in which every line is a record. Text for the user becomes
// records too. Log records below the level are left out.
func (p *program) inRecords(level string) error {
	if p.plain == nil {
		p.plain = p.Stderr
	}
	log, err := newLog(admin.Log{Format: "json", Level: level}, p.plain)
	if err != nil {
		return err
	}
	all, err := newLog(admin.Log{Format: "json", Level: "info"}, p.plain)
	if err != nil {
		return err
	}
	p.records, p.said, p.Stderr = log, all, report.Lines(all)
	report.Clients(log)
	return nil
}

// onTerminal reports whether the real stderr is a terminal, regardless of its format.
func (p *program) onTerminal() bool {
	shown := terminal.Console{Stderr: cmp.Or(p.plain, p.Stderr)}
	return shown.Width() != nil
}

// logger returns the log of a command. A log in text goes to out.
func (p *program) logger(cfg *config.Config, out io.Writer) (*slog.Logger, error) {
	if p.records != nil {
		return p.records, nil
	}
	return newLog(admin.Log{Format: "text", Level: cfg.Log.Level, Terminal: p.onTerminal()}, out)
}

// newLog returns a log that is safe to show on a terminal in either format.
func newLog(l admin.Log, out io.Writer) (*slog.Logger, error) {
	return l.New(diag.PrintableJSON(out))
}

// tell writes an error to stderr in the requested form.
func (p *program) tell(err error) error {
	found := diag.Findings(err)
	if !p.AsJSON() {
		return p.findings(found)
	}
	to := p.Stderr
	if p.plain != nil {
		to = p.plain
	}
	return report.Documents(to, found.WithFlags(p.withConfig()))
}

// findings writes findings as text or, if stderr is a log in JSON, as records.
func (p *program) findings(found diag.List) error {
	found = found.WithFlags(p.withConfig())
	if p.records == nil {
		return p.Show(p.Stderr, found.Render)
	}
	report.Records(p.records, found)
	return nil
}
