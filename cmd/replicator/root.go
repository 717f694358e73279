package main

import (
	"github.com/spf13/cobra"
)

// The groups of commands, in the order in which a migration uses them.
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
		Short: "replicator moves live DynamoDB tables to Cloud Bigtable and keeps both in sync until you cut over.",
		PersistentPreRunE: func(c *cobra.Command, _ []string) error {
			if err := checkValues(c); err != nil {
				return err
			}
			return p.checkGlobals()
		},
		SilenceErrors: true,
		SilenceUsage:  true,
	})
	root.SetOut(p.Stdout)
	root.SetErr(p.Stderr)
	root.SetHelpFunc(func(c *cobra.Command, _ []string) { writeHelp(c.OutOrStdout(), c, p.Columns()) })
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
	flags.StringVarP(&p.configPath, "config", "c", "", "configuration `FILE` (default $REPLICATOR_CONFIG, ./replicator.yaml, /etc/replicator/replicator.yaml)")
	flags.StringVarP(&p.Output, "output", "o", "text", "output `FORMAT`: text or json")
	flags.StringVar(&p.logLevel, "log-level", "", "`LEVEL` of the log: debug, info, warn or error")
	flags.StringVar(&p.logFormat, "log-format", "", "`FORMAT` of the log: auto, text or json")
	flags.BoolVar(&p.NoColor, "no-color", false, "no colours on a terminal")
	flags.DurationVar(&p.timeout, "timeout", 0, "stop after `DURATION` with exit status 4 (default never)")

	root.AddCommand(
		newDemo(p),
		newInit(p),
		newLint(p),
		newPlan(p),
		newPreview(p),
		newTest(p),
		newRun(p),
		newRelay(p),
		newBackfill(p), newVerify(p), newCutover(p), newFinalize(p),
		newStatus(p),
		newExplain(p),
		newThrottle(p),
		newPause(p),
		newResume(p),
		newFailover(p),
		newParked(p),
		newNotify(p),
		newConfig(p),
		newHealthcheck(p),
		newVersion(p),
	)
	helpOfCommands(p, root)
	root.SetCompletionCommandGroupID(groupOther)
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			group(c)
			c.Short = "Print completions for bash, zsh, fish or powershell"
			c.Example = "  replicator completion bash > /etc/bash_completion.d/replicator"
		}
	}
	return root
}
