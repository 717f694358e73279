package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/demo"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

func newDemo(p *program) *cobra.Command {
	o := demo.Options{}
	c := &cobra.Command{
		Use:     "demo [flags]",
		Short:   "Run a whole migration on this machine; no cloud account needed",
		GroupID: groupTry,
		Long: `Run a whole migration on this machine: an embedded DynamoDB and Bigtable, a table of items of every type, and two workers
that copy it and follow its stream, while an application writes, shards split and roll, the stream throttles, and one of
the workers is killed and replaced. Then both stores are compared cell by cell.

With --outage all workers stop for a while, in which the application goes on and the stream drops changes that nobody has read, as
DynamoDB does after 24 hours. Workers are started again, declare the gap, and mend it by themselves with a load and a sweep. It takes
little more than a minute; half of --duration is before the outage.

With --relay the workers are relay --apply: they publish every change to an embedded Pub/Sub, too, and at the end what a consumer of the topic
has is compared with the source.

With --dual-writes an application in a process of its own writes both stores, DynamoDB first and Bigtable second: its servers race, with clocks
that differ, and their second writes come late or never. The workers settle every change a few seconds later.

With --cutover that application is cut over at the end: a comparison, gates, hooks that stop and switch its process, the drain, the end of the
workers, evidence, and finalize. It takes a minute and a half.

The last line on stdout is the verdict; with -o json it is one document. Exit status 3 means that the stores differ.

With --serve both services keep listening on loopback afterwards, until interrupted, and a quick start is printed: the environment
variables for the AWS and Google clients, a configuration, and commands to try. Their data is in memory and gone when they end.`,
		Example: `  replicator demo
  replicator demo --items 50000 --duration 1m --rate 1000 --seed 7
  replicator demo --outage
  replicator demo --relay
  replicator demo --dual-writes
  replicator demo --cutover
  replicator demo --serve`,
		Args: none,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, cancel := p.within(c.Context())
			defer cancel()
			return p.demo(ctx, o)
		},
	}
	flags := c.Flags()
	flags.IntVar(&o.Items, "items", 10_000, "`NUMBER` of items in the table before the copy")
	flags.DurationVar(&o.Duration, "duration", 20*time.Second, "`DURATION` of the live workload")
	flags.Float64Var(&o.Rate, "rate", 400, "`CHANGES` a second of the live workload")
	flags.Uint64Var(&o.Seed, "seed", 1, "`SEED` of items and workload")
	flags.StringVar(&o.Listen, "listen", "", "`ADDRESS` of health, metrics and status of one of the workers, for a Prometheus to look at; any free port of the loopback if it is not given")
	flags.BoolVar(&o.Outage, "outage", false, "stop all workers until the stream has lost changes, and watch them mend that")
	flags.BoolVar(&o.Relay, "relay", false, "publish every change to an embedded Pub/Sub as well, and compare what a consumer has")
	flags.BoolVar(&o.DualWrites, "dual-writes", false, "let an application in a process of its own write both stores, racing and late")
	flags.BoolVar(&o.Cutover, "cutover", false, "cut such an application over at the end, with hooks and evidence")
	flags.BoolVar(&o.Serve, "serve", false, "leave the embedded services listening afterwards, until interrupted")
	c.AddCommand(newDemoApplication(p))
	return c
}

// newDemoApplication is the process of demo --dual-writes that writes both stores; it speaks to emulators alone.
func newDemoApplication(p *program) *cobra.Command {
	a, instance := &demo.Application{}, ""
	c := &cobra.Command{
		Use: demo.ApplicationCommand + " [flags]", Short: "Write both stores of a demo, as an application does", Hidden: true, Args: none,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, cancel := p.within(c.Context())
			defer cancel()
			a.Project, a.Instance, _ = strings.Cut(instance, "/")
			if err := a.Run(ctx); err != nil {
				return err
			}
			_, err := fmt.Fprintln(p.Stdout, a)
			return err
		},
	}
	flags := c.Flags()
	flags.StringVar(&a.DynamoDB, "dynamodb", "", "`URL` of the embedded DynamoDB")
	flags.StringVar(&a.Bigtable, "bigtable", "", "`ADDRESS` of the embedded Bigtable")
	flags.StringVar(&instance, "instance", "", "`PROJECT/INSTANCE` of the target")
	flags.IntVar(&a.Items, "items", 500, "`NUMBER` of items that the servers race for")
	flags.Float64Var(&a.Rate, "rate", 100, "`CHANGES` a second")
	flags.DurationVar(&a.Duration, "duration", time.Minute, "`DURATION` of the writes")
	flags.DurationVar(&a.Deadline, "deadline", 4*time.Second, "`DURATION` after which a write to Bigtable is given up")
	flags.DurationVar(&a.Skew, "skew", 0, "`DURATION` by which clocks are ahead or behind at the most")
	flags.Uint64Var(&a.Seed, "seed", 1, "`SEED` of the writes")
	return c
}

// longestDemo bounds the live workload: everything it writes stays in memory.
const longestDemo = 24 * time.Hour

func (p *program) demo(ctx context.Context, o demo.Options) error {
	switch {
	case o.Items < 1:
		return diag.BadUsage("--items is less than 1", "give a number of items, such as 10000")
	case o.Duration < time.Second:
		return diag.BadUsage("--duration is less than a second", "give a duration such as 20s")
	case o.Duration > longestDemo:
		return diag.BadUsage("--duration is more than a day", "give a duration up to "+config.FormatDuration(longestDemo))
	case o.Cutover && (o.Outage || o.Relay || o.Serve):
		return diag.BadUsage("--cutover does not go with --outage, --relay or --serve", "run one demo after the other")
	case o.DualWrites && o.Outage:
		return diag.BadUsage("--dual-writes does not go with --outage", "run one demo after the other")
	case o.Rate <= 0:
		return diag.BadUsage("--rate is not positive", "give a number of changes a second, such as 400")
	}
	o.DualWrites = o.DualWrites || o.Cutover
	executable, err := os.Executable()
	if err != nil {
		return err
	}
	o.Executable, o.Environment, o.Log = executable, os.Environ(), p.Stderr
	var written error
	o.Verdict = func(c demo.Comparison) {
		if p.AsJSON() {
			written = p.WriteJSON(c.Verdict())
			return
		}
		for _, difference := range c.Differences {
			if _, err := fmt.Fprintf(p.Stdout, "row %s: %s\n", difference.Key, difference.What); err != nil {
				written = err
				return
			}
		}
		written = p.Show(p.Stdout, func(w io.Writer) error {
			_, err := fmt.Fprintln(w, c.String())
			return err
		})
	}
	c, err := demo.Run(ctx, o)
	switch {
	case err != nil && ctx.Err() != nil:
		return terminal.Ended(ctx)
	case err != nil:
		return err
	case written != nil:
		return written
	case !c.Identical():
		return &diag.Error{Code: diag.DifferencesFound, What: c.String()}
	}
	return nil
}
