package main

import (
	"cmp"
	"io"
	"log/slog"
	"strings"

	"github.com/dynamodb-bigtable/replicator/internal/admin"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/report"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// foresee sets from the command line and the environment what errors look like that are met before flags and configuration are read.
func (p *program) foresee(args []string) {
	if given(args, "--output", "-o") == "json" {
		p.Output = "json"
	}
	format, _ := p.Env("REPLICATOR_LOG_FORMAT")
	if flag := given(args, "--log-format", ""); flag != "" {
		format = flag
	}
	if format == "json" {
		_ = p.inRecords("info") // which is a level
	}
}

// given is the value of a flag among arguments that were not parsed yet; "" if it is not there.
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
	log, err := admin.Log{Format: "json", Level: level}.New(p.plain)
	if err != nil {
		return err
	}
	all, err := admin.Log{Format: "json", Level: "info"}.New(p.plain)
	if err != nil {
		return err
	}
	p.records, p.said, p.Stderr = log, all, report.Lines(all)
	report.Clients(log)
	return nil
}

// forPrograms makes stderr lines of JSON where -o json asks for documents. On a terminal it stays for people, who may be asked there, and
// where the log shall be text it is.
func (p *program) forPrograms() error {
	format, _ := p.Env("REPLICATOR_LOG_FORMAT")
	if p.logFormat != "" {
		format = p.logFormat
	}
	if !p.AsJSON() || format == "text" || p.records != nil || p.onTerminal() {
		return nil
	}
	return p.inRecords("info")
}

// onTerminal tells whether stderr is a terminal, whatever is made of it.
func (p *program) onTerminal() bool {
	shown := terminal.Console{Stderr: cmp.Or(p.plain, p.Stderr)}
	return shown.Width() != nil
}

// settle makes of stderr what the configuration says, which is known only now.
func (p *program) settle(log config.Log) error {
	switch {
	case log.Format == "text" && p.plain != nil:
		p.Stderr, p.plain, p.records, p.said = p.plain, nil, nil, nil
	case log.Format == "json" || p.records != nil:
		return p.inRecords(log.Level)
	}
	return nil
}

// logger is the log of a command; in text it goes to out.
func (p *program) logger(cfg *config.Config, out io.Writer) (*slog.Logger, error) {
	if p.records != nil {
		return p.records, nil
	}
	return admin.Log{Format: cfg.Log.Format, Level: cfg.Log.Level, Terminal: p.Width() != nil}.New(out)
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
