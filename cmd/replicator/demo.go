package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dynamodb-bigtable/replicator/internal/demo"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/internal/timespan"
	"github.com/dynamodb-bigtable/replicator/internal/worker"
)

func newDemo(p *program) *cobra.Command {
	o := demo.Options{}
	c := &cobra.Command{
		Use:     "demo [flags]",
		Short:   "Run a whole migration on this machine; no cloud account needed",
		GroupID: groupTry,
		Long: `Run a whole migration on this machine, and compare both stores cell by cell at the end.

Two workers copy a table from an embedded DynamoDB to an embedded Bigtable. Meanwhile an application
writes, shards split, reads are throttled, and one worker is killed and replaced.

The first line is the address of the status page. The last line on stdout is the verdict, or with
-o json a document. Exit status 3 means that the stores differ.

--outage stops all workers until the stream has dropped changes, as DynamoDB does after 24 hours.
New workers declare the gap, load the table again and remove orphan rows. This takes about a minute.

--relay also publishes every change to an embedded Pub/Sub, and compares a consumer's copy with the
source.

--dual-writes runs an application that writes both stores, DynamoDB first. Its servers race, their
clocks differ, and some writes to Bigtable come late or never. The workers settle every change
seconds later.

--cutover also runs a cutover at the end: verify, gates, hooks, drain, evidence and finalize. This
takes 90 seconds.

--serve leaves the page, both services and a worker running until you press Ctrl-C. It prints a
quick start: a change to make, environment variables, a config and commands. Data is in memory and
lost on exit.`,
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
	flags.StringVar(&o.Listen, "listen", "", "`ADDRESS` of one worker's health and metrics (default a free port of the loopback)")
	flags.BoolVar(&o.Outage, "outage", false, "stop all workers until the stream has dropped changes, and watch the repair")
	flags.BoolVar(&o.Relay, "relay", false, "also publish every change to an embedded Pub/Sub, and compare a consumer's copy")
	flags.BoolVar(&o.DualWrites, "dual-writes", false, "let an application write both stores, with races and late writes")
	flags.BoolVar(&o.Cutover, "cutover", false, "run an application that writes both stores, and a cutover at the end")
	flags.BoolVar(&o.Serve, "serve", false, "leave the page, both services and a worker running, until Ctrl-C")
	c.AddCommand(newDemoApplication(p))
	return c
}

// newDemoApplication returns the hidden command that demo --dual-writes starts to write both
// stores. It talks only to emulators.
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
	flags.DurationVar(&a.Deadline, "deadline", 4*time.Second, "`DURATION` after which a write to Bigtable is abandoned")
	flags.DurationVar(&a.Skew, "skew", 0, "largest `DURATION` by which a clock may be wrong")
	flags.Uint64Var(&a.Seed, "seed", 1, "`SEED` of the writes")
	return c
}

// longestDemo bounds the live workload, because everything that it writes stays in memory.
const longestDemo = 24 * time.Hour

func (p *program) demo(ctx context.Context, o demo.Options) error {
	switch {
	case o.Items < 1:
		return diag.BadUsage("--items is less than 1", "give a number of items, such as 10000")
	case o.Duration < time.Second:
		return diag.BadUsage("--duration is less than a second", "give a duration such as 20s")
	case o.Duration > longestDemo:
		return diag.BadUsage("--duration is more than a day", "give a duration up to "+timespan.Format(longestDemo))
	case o.Cutover && (o.Outage || o.Relay || o.Serve):
		return diag.BadUsage("--cutover excludes --outage, --relay and --serve", "run one demo after the other")
	case o.DualWrites && o.Outage:
		return diag.BadUsage("--dual-writes and --outage exclude each other", "run one demo after the other")
	case o.Rate <= 0:
		return diag.BadUsage("--rate is not positive", "give a number of changes a second, such as 400")
	}
	if o.Listen != "" {
		if err := worker.CheckListen(o.Listen); err != nil {
			return err
		}
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
