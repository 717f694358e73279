package main

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// errorCode matches the code of an error as an argument of help.
var errorCode = regexp.MustCompile(`^[Rr]\d{4}$`)

// helpOfCommands extends the help command. It explains codes of errors, and rejects unknown
// commands as the command line does.
func helpOfCommands(p *program, root *cobra.Command) {
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() {
		if c.Name() == "help" {
			c.Use = "help [command | code]"
			c.Example = "  replicator help run\n  replicator help R1101"
			c.Long = "Show what a command does and how to call it, or explain the code of an error such as R1101."
			ofCommand := c.Run
			c.Run = nil
			c.RunE = func(c *cobra.Command, args []string) error {
				if len(args) == 1 && errorCode.MatchString(args[0]) {
					return helpOfCode(p, strings.ToUpper(args[0]))
				}
				ofCommand(c, args)
				return nil
			}
			c.Args = func(_ *cobra.Command, args []string) error {
				if len(args) == 1 && errorCode.MatchString(args[0]) {
					return nil
				}
				found, rest, err := root.Find(args)
				if err != nil || found.Args == nil {
					return err
				}
				return found.Args(found, rest)
			}
		}
	}
}

// helpOfCode explains the code of an error.
func helpOfCode(p *program, code string) error {
	e, ok := diag.Lookup(code)
	if !ok {
		return diag.BadUsage(fmt.Sprintf("there is no error %s", code), "see "+strings.TrimSuffix(diag.More(""), "#")+" for all codes")
	}
	if p.AsJSON() {
		return p.WriteJSON(struct {
			Code    string `json:"code"`
			Title   string `json:"title"`
			Explain string `json:"explain"`
			Fix     string `json:"fix"`
			Exit    int    `json:"exit_status"`
			More    string `json:"more"`
		}{e.Code, e.Title, e.Explain, e.Fix, e.Exit, diag.More(code)})
	}
	width := cmp.Or(p.Columns(), helpWidth)
	explain, fix := terminal.Wrap(e.Explain, width), terminal.Wrap(e.Fix, width)
	_, err := fmt.Fprintf(p.Stdout, "%s  %s\n\n%s\n\nfix   %s\nexit  %d\nmore  %s\n", e.Code, e.Title, explain, fix, e.Exit, diag.More(code))
	return err
}

// helpWidth is the width of the help if stdout is not a terminal.
const helpWidth = 80

// writeHelp writes the help of a command: summary, usage, subcommands, examples, flags and further
// text. Lines of text have at most width columns; 0 means helpWidth.
func writeHelp(w io.Writer, c *cobra.Command, width int) {
	if width <= 0 {
		width = helpWidth
	}
	summary, details, _ := strings.Cut(strings.TrimSpace(cmp.Or(c.Long, c.Short)), "\n\n")
	fmt.Fprintf(w, "%s\n\n", terminal.Wrap(summary, width))
	root := !c.HasParent()
	switch {
	case c.HasAvailableSubCommands():
		fmt.Fprintln(w, terminal.Wrap("Usage: "+c.CommandPath()+" <command> [flags]", width))
	default:
		fmt.Fprintln(w, terminal.Wrap("Usage: "+c.UseLine(), width))
	}
	if root {
		for _, g := range c.Groups() {
			writeCommands(w, g.Title, c, g.ID, width)
		}
	} else if c.HasAvailableSubCommands() {
		writeCommands(w, "Commands", c, "", width)
	}
	if c.HasExample() {
		fmt.Fprintf(w, "\nExamples\n%s\n", c.Example)
	}
	if flags := c.LocalNonPersistentFlags(); flags.HasAvailableFlags() && !root {
		fmt.Fprintf(w, "\nFlags\n%s", flags.FlagUsagesWrapped(width))
	}
	if details != "" {
		fmt.Fprintf(w, "\nDetails\n%s\n", terminal.Wrap(details, width))
	}
	fmt.Fprintf(w, "\nGlobal flags\n%s", c.Root().PersistentFlags().FlagUsagesWrapped(width))
	if root {
		const statuses = "Exit status: 0 done, 1 failed, 2 usage or config, 3 the answer is no, 4 timed out, 130 interrupted"
		fmt.Fprintf(w, "\n%s\n", terminal.Wrap(statuses, width))
	}
}

// writeCommands lists the commands of a group below c. It writes nothing if the group is empty.
func writeCommands(w io.Writer, title string, c *cobra.Command, id string, width int) {
	const name = "  %-12s "
	indent := strings.Repeat(" ", len(fmt.Sprintf(name, "")))
	heading := "\n" + title + "\n"
	for _, sub := range c.Commands() {
		if sub.GroupID != id || !sub.IsAvailableCommand() {
			continue
		}
		short := strings.ReplaceAll(terminal.Wrap(sub.Short, max(1, width-len(indent))), "\n", "\n"+indent)
		fmt.Fprintf(w, "%s"+name+"%s\n", heading, sub.Name(), short)
		heading = ""
	}
}
