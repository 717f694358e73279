package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// The groups of commands, in the order in which a migration meets them.
const (
	groupTry     = "try"
	groupPrepare = "prepare"
	groupMigrate = "migrate"
	groupOperate = "operate"
	groupOther   = "other"
)

// newRoot builds the tree of commands.
func newRoot(p *program) *cobra.Command {
	root := group(&cobra.Command{
		Use:   "replicator",
		Short: "replicator moves live DynamoDB tables to Cloud Bigtable and keeps both in step until you cut over.",
		PersistentPreRunE: func(*cobra.Command, []string) error {
			return p.checkGlobals()
		},
		SilenceErrors: true,
		SilenceUsage:  true,
	})
	root.SetOut(p.Stdout)
	root.SetErr(p.Stderr)
	root.SetHelpFunc(func(c *cobra.Command, _ []string) { writeHelp(c.OutOrStdout(), c) })
	root.SetFlagErrorFunc(flagError)
	root.AddGroup(
		&cobra.Group{ID: groupTry, Title: "Try it"},
		&cobra.Group{ID: groupPrepare, Title: "Prepare"},
		&cobra.Group{ID: groupMigrate, Title: "Migrate"},
		&cobra.Group{ID: groupOperate, Title: "Operate"},
		&cobra.Group{ID: groupOther, Title: "Other"},
	)
	flags := root.PersistentFlags()
	flags.SortFlags = false
	flags.StringVarP(&p.configPath, "config", "c", "", "configuration `FILE`; default $REPLICATOR_CONFIG, ./replicator.yaml, /etc/replicator/replicator.yaml")
	flags.StringVarP(&p.Output, "output", "o", "text", "output `FORMAT`: text or json")
	flags.StringVar(&p.logLevel, "log-level", "", "`LEVEL` of the log: debug, info, warn or error")
	flags.StringVar(&p.logFormat, "log-format", "", "`FORMAT` of the log: auto, text or json")
	flags.BoolVar(&p.NoColor, "no-color", false, "no colours on a terminal")
	flags.DurationVar(&p.timeout, "timeout", 0, "give up after this `DURATION`, with exit status 4; 0 is never")

	root.AddCommand(
		newDemo(p),
		newInit(p),
		newLint(p),
		newPlan(p),
		newPreview(p),
		newTest(p),
		newRun(p),
		newBackfill(p), newVerify(p),
		newStatus(p),
		newExplain(p),
		newThrottle(p),
		newParked(p),
		newConfig(p),
		newVersion(p),
	)
	root.AddCommand(newNotAvailable()...)
	helpOfCommands(root)
	root.SetCompletionCommandGroupID(groupOther)
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			group(c)
			c.Short = "bash | zsh | fish | powershell"
		}
	}
	return root
}

// helpOfCommands lets help refuse what is no command, as the command line does.
func helpOfCommands(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() {
		if c.Name() == "help" {
			c.Long = "Show what a command does and how it is called, as its --help does."
			c.Args = func(_ *cobra.Command, args []string) error {
				found, rest, err := root.Find(args)
				if err != nil || found.Args == nil {
					return err
				}
				return found.Args(found, rest)
			}
		}
	}
}

// writeHelp writes the help of a command: what it is, how it is called, what is below it, and every flag it takes.
func writeHelp(w io.Writer, c *cobra.Command) {
	text := c.Long
	if text == "" {
		text = c.Short
	}
	fmt.Fprintf(w, "%s\n\n", strings.TrimSpace(text))
	root := !c.HasParent()
	switch {
	case c.HasAvailableSubCommands():
		fmt.Fprintf(w, "Usage: %s <command> [flags]\n", c.CommandPath())
	default:
		fmt.Fprintf(w, "Usage: %s\n", c.UseLine())
	}
	if root {
		for _, g := range c.Groups() {
			writeCommands(w, g.Title, c, g.ID)
		}
	} else if c.HasAvailableSubCommands() {
		writeCommands(w, "Commands", c, "")
	}
	if c.HasExample() {
		fmt.Fprintf(w, "\nExamples\n%s\n", c.Example)
	}
	if flags := c.LocalNonPersistentFlags(); flags.HasAvailableFlags() && !root {
		fmt.Fprintf(w, "\nFlags\n%s", flags.FlagUsages())
	}
	fmt.Fprintf(w, "\nGlobal flags\n%s", c.Root().PersistentFlags().FlagUsages())
	if root {
		fmt.Fprintln(w, "Exit status: 0 done  1 failed  2 usage or config  3 the answer is no  4 timed out  130 interrupted")
	}
}

// writeCommands lists the commands of a group below c; nothing if the group is empty.
func writeCommands(w io.Writer, title string, c *cobra.Command, id string) {
	heading := "\n" + title + "\n"
	for _, sub := range c.Commands() {
		if sub.GroupID != id || !sub.IsAvailableCommand() {
			continue
		}
		fmt.Fprintf(w, "%s  %-12s %s\n", heading, sub.Name(), sub.Short)
		heading = ""
	}
}
