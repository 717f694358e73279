package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/loads"
)

func newThrottle(p *program) *cobra.Command {
	var s steering
	var asked loads.Asked
	var reset bool
	c := &cobra.Command{
		Use:     "throttle [flags]",
		Short:   "Change rate limits of a running migration",
		GroupID: groupOperate,
		Long: `Change the limits of loads while they run. Changes of the stream are never slowed.

Workers follow within seconds. The limits override the config until the next throttle or --reset.

--max-rows-per-second limits each process. --max-read-capacity limits the reads of a table by all
workers: a share of its provisioned capacity, or read units a second.

Loads wait while the target's CPU is above --pause-above-target-cpu. An unknown CPU, as on
emulators, never stops them. The value none removes a limit.`,
		Example: `  replicator throttle --table Orders --max-read-capacity 10%
  replicator throttle --max-rows-per-second 500 --pause-above-target-cpu 60%
  replicator throttle --max-read-capacity none
  replicator throttle --reset`,
		Args: none,
		RunE: func(c *cobra.Command, _ []string) error {
			limits, err := asked.Limits()
			switch {
			case err != nil:
				return err
			case reset == (asked != loads.Asked{}):
				return diag.BadUsage("replicator throttle needs limits, or --reset", "give one of --max-rows-per-second, --max-read-capacity and --pause-above-target-cpu, or only --reset")
			}
			return p.steer(c.Context(), &s, func(ctx context.Context, o *loads.Operator) error {
				return o.Steer(ctx, loads.Request{Action: loads.ActionThrottle, Limits: limits, Reset: reset})
			})
		},
	}
	s.flags(c, false)
	f := c.Flags()
	f.StringVar(&asked.MaxRowsPerSecond, "max-rows-per-second", "", "maximum `NUMBER` of rows that each process copies per second")
	f.StringVar(&asked.MaxReadCapacity, "max-read-capacity", "", "`LIMIT` of reads: a share of provisioned capacity, such as 25%, or read units a second")
	f.StringVar(&asked.PauseAboveTargetCPU, "pause-above-target-cpu", "", "`PERCENTAGE` of the target's CPU above which loads wait")
	f.BoolVar(&reset, "reset", false, "return to the limits of the config")
	return c
}
