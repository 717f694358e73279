package demo

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// settleTime is the dual_writes.settle of a demo with DualWrites. The application abandons its
// writes before that time.
const (
	settleTime = 5 * time.Second
	giveUp     = 4 * time.Second
	// clockSkew is the maximum error of a server's clock. Some clocks are ahead, others behind.
	clockSkew = 10 * time.Minute
)

// settles is the configuration section for dual writes.
var settles = fmt.Sprintf("dual_writes:\n  settle: %s\n", settleTime)

// ApplicationCommand is the hidden command that runs an Application.
const ApplicationCommand = "application"

// application returns the command that runs the application. The application writes for the given
// time.
func (d *demo) application(ctx context.Context, lasts time.Duration) *exec.Cmd {
	c := exec.CommandContext(ctx, d.Executable, "demo", ApplicationCommand, "--dynamodb", d.services.endpoint, "--bigtable", d.services.bigtable.Addr(),
		"--instance", project+"/"+instance, "--items", strconv.Itoa(max(1, d.Items/20)), "--rate", strconv.FormatFloat(d.Rate, 'f', -1, 64),
		"--duration", lasts.String(), "--deadline", giveUp.String(), "--skew", clockSkew.String(), "--seed", strconv.FormatUint(d.Seed, 10))
	c.Env, c.Dir = childEnvironment(d.Environment, d.dir, d.services), d.dir
	return c
}

// describeApplication describes the application in the narration.
func (d *demo) describeApplication(c *exec.Cmd) {
	d.say("application: process %d; %d servers write the same items, with clocks up to %s ahead or behind, and write to Bigtable up to %s after DynamoDB",
		c.Process.Pid, servers, clockSkew, giveUp)
}

// apply runs the application in its own process. With Cutover, the application keeps writing
// afterwards.
func (d *demo) apply(ctx context.Context) error {
	if d.Cutover {
		if err := d.site.open(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil // the caller that ended the context reports the reason
		case <-time.After(d.liveTime()):
			return nil
		}
	}
	c := d.application(ctx, d.liveTime())
	var complaint, told strings.Builder
	c.Stdout, c.Stderr = &told, &complaint
	if err := c.Start(); err != nil {
		return err
	}
	d.describeApplication(c)
	if err := c.Wait(); err != nil {
		return fmt.Errorf("the application's process: %w\n%s", err, complaint.String())
	}
	d.say("the application has stopped writing: %s", strings.TrimSpace(told.String()))
	return nil
}
