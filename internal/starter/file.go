package starter

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// Document is a proposal in the form of JSON.
type Document struct {
	Schema string `json:"schema"` // replicator.init/v1
	Config string `json:"config"` // text of the configuration file
	// Tables are the facts found about each table: sampled items, their types, hot keys, the
	// time-to-live attribute, and a pattern for tables that are split by time.
	Tables []Recognised `json:"tables"`
}

// Absent returns an error if a file already exists.
func Absent(file string) error {
	if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
		return fileExists(file)
	}
	return nil
}

func fileExists(file string) error {
	return diag.BadUsage(file+" already exists", "name another file with -c, or replace it with --force")
}

// Save writes the configuration to a file. The file must not exist, unless replace is set.
func (p *Proposal) Save(file string, replace bool) error {
	mode := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if replace {
		mode = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	out, err := os.OpenFile(file, mode, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return fileExists(file)
	}
	if err == nil {
		_, err = out.WriteString(p.Config)
		err = errors.Join(err, out.Close())
	}
	if err != nil {
		return &diag.Error{Code: diag.Usage, What: "cannot write " + file, Err: err, Fix: "name another file with -c"}
	}
	return nil
}

// Render writes the configuration or, if it was saved to a file, a summary.
func (p *Proposal) Render(c *terminal.Console, file string) error {
	switch {
	case c.AsJSON():
		return c.WriteJSON(Document{"replicator.init/v1", p.Config, p.Tables})
	case file != "":
		_, err := fmt.Fprintf(c.Stdout, "%s: %s; read it, then run `replicator lint -c %[1]s`\n", diag.Printable(file), terminal.Plural(len(p.Tables), "table"))
		return err
	}
	_, err := fmt.Fprint(c.Stdout, p.Config)
	return err
}
