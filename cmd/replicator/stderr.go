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

// service is the annotation of commands whose stderr is a log that others collect: they run until they are stopped.
const service = "service"

// foresee sets from the command line and the environment what errors look like that are met before flags and configuration are read.
func (p *program) foresee(root *cobra.Command, args []string) {
	if given(args, "--output", "-o") == "json" {
		p.Output = "json"
	}
	if c, _, err := root.Find(args); err == nil {
		p.service = c.Annotations[service] != ""
	}
	_ = p.write(p.format(given(args, "--log-format", "")), "info") // which is a level
}

// format returns the format of the log that was asked for, as far as that is known without a
// configuration.
func (p *program) format(flag string) string {
	variable, _ := p.Env("REPLICATOR_LOG_FORMAT")
	return cmp.Or(flag, variable)
}

// write makes stderr what a format of the log asks for: text, or lines of JSON alone. For people is, where nothing is asked for, a terminal,
// where they may be asked themselves, and elsewhere what is neither the log of a service nor beside a document on stdout.
func (p *program) write(format, level string) error {
	if admin.LogFormat(format, p.onTerminal() || !p.service && !p.AsJSON()) == "json" {
		return p.inRecords(level)
	}
	if p.plain != nil {
		p.Stderr, p.plain, p.records, p.said = p.plain, nil, nil, nil
	}
	return nil
}

// given returns the value of a flag among arguments that were not parsed yet; "" if it is not
// there.
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

// inRecords makes stderr a log in JSON, of which every line is a record: those of the level or above, and what else is written for people.
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

// onTerminal reports whether stderr is a terminal, whatever is made of it.
func (p *program) onTerminal() bool {
	shown := terminal.Console{Stderr: cmp.Or(p.plain, p.Stderr)}
	return shown.Width() != nil
}

// logger returns the log of a command; in text it goes to out.
func (p *program) logger(cfg *config.Config, out io.Writer) (*slog.Logger, error) {
	if p.records != nil {
		return p.records, nil
	}
	return newLog(admin.Log{Format: "text", Level: cfg.Log.Level, Terminal: p.onTerminal()}, out)
}

// newLog returns a log that may be read on a terminal in either form.
func newLog(l admin.Log, out io.Writer) (*slog.Logger, error) {
	return l.New(diag.PrintableJSON(out))
}

// tell says what is wrong on stderr, in the form that was asked for.
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

// findings writes them as text or, where stderr is a log in JSON, as its records.
func (p *program) findings(found diag.List) error {
	found = found.WithFlags(p.withConfig())
	if p.records == nil {
		return p.Show(p.Stderr, found.Render)
	}
	report.Records(p.records, found)
	return nil
}
