package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/switchover"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/internal/timespan"
)

// program is one invocation: its streams, its environment, and the flags of every command.
type program struct {
	terminal.Console

	configPath string
	logLevel   string
	logFormat  string
	timeout    time.Duration
	service    bool // the command's stderr is a log
	groups     switchover.Selection

	bounded context.Context               // the command's context with --timeout, set by within
	plain   io.Writer                     // the real stderr, if Stderr writes log records; see inRecords
	records *slog.Logger                  // the log, once its format is known to be JSON
	said    *slog.Logger                  // the same log at level info, for text that must appear even if the configured level is higher
	rereads atomic.Pointer[chan struct{}] // requests a reload of the configuration; nil: SIGHUP ends the command
	quiet   bool                          // the user already knows that the command was stopped
}

// process returns the program with the streams and the environment of this process.
func process() *program {
	return &program{Console: terminal.Console{Stdout: os.Stdout, Stderr: os.Stderr, Env: os.LookupEnv}}
}

// execute runs one command line to its end and returns the exit status. It writes the error, if
// any, to stderr.
func execute(args []string, p *program) int {
	ctx, stop := interruptible(context.Background(), p.hangup)
	defer stop()
	root := newRoot(p)
	root.SetArgs(args)
	p.foresee(root, args)
	p.bounded = ctx
	err := p.concluded(root.ExecuteContext(ctx))
	var told *reported
	code := diag.ExitCode(err)
	if err != nil && !errors.As(err, &told) && !(p.quiet && code == diag.ExitInterrupted) {
		_ = p.tell(err)
	}
	return code
}

// reported keeps the exit status of an error that was already reported to the user.
type reported struct{ error }

func (r *reported) Unwrap() error { return r.error }

// oneRequest is the time within which several signals count as one request. timeout(1) signals the
// process and the process's group, so the signal arrives twice.
const oneRequest = 500 * time.Millisecond

// hangup handles SIGHUP. It returns true if the command continues.
func (p *program) hangup() bool {
	rereads := p.rereads.Load()
	if rereads == nil {
		return false
	}
	select {
	case *rereads <- struct{}{}:
	default: // a reload is already requested
	}
	return true
}

// interruptible returns a context that ends with the first SIGINT, SIGTERM or SIGHUP. The context's
// cause is of type signalled. The second signal ends the process immediately. A clean stop waits
// for the network, and an operator who sends two signals does not want to wait. If hangup returns
// true, SIGHUP does not end the context.
func interruptible(parent context.Context, hangup func() bool) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // nohup(1) ignores it, so that the command outlives its terminal
		signal.Notify(signals, syscall.SIGHUP)
	}
	done := make(chan struct{})
	go func() {
		var first time.Time
		for {
			select {
			case s := <-signals:
				switch {
				case s == syscall.SIGHUP && first.IsZero() && hangup():
				case first.IsZero():
					first = time.Now()
					cancel(terminal.Signalled{Signal: s})
				case time.Since(first) > oneRequest:
					os.Exit(diag.ExitInterrupted)
				}
			case <-done:
				return
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		cancel(context.Canceled)
	}
}

// within bounds a command's context by --timeout.
func (p *program) within(ctx context.Context) (context.Context, context.CancelFunc) {
	cancel := func() {}
	if p.timeout > 0 {
		ctx, cancel = context.WithTimeoutCause(ctx, p.timeout, &diag.Error{Code: diag.TimedOut,
			What: "not finished within " + timespan.Format(p.timeout)})
	}
	p.bounded = ctx
	return ctx, cancel
}

// concluded returns the error of a command whose context may have ended by a signal or --timeout.
// In that case the command's own error is only the text of an interrupted client. So `concluded`
// reports the signal or the timeout instead, unless the error is a result of the command.
func (p *program) concluded(err error) error {
	if cause := context.Cause(p.bounded); err == nil || cause == nil || errors.Is(cause, context.Canceled) {
		return err // the context has not ended, or has ended with its command
	}
	if !diag.Unanswered(err) {
		return err
	}
	return terminal.Ended(p.bounded)
}

// load finds, reads and checks the configuration. Flags override parts of it.
func (p *program) load(flags ...config.Flag) (*config.Config, error) {
	cfg, err := p.read(flags...)
	if err == nil {
		err = p.write(cfg.Log.Format, cfg.Log.Level)
	}
	return cfg, err
}

// read finds, reads and checks the configuration, and has no other effect.
func (p *program) read(flags ...config.Flag) (*config.Config, error) {
	path, err := config.Find(p.configPath, p.Env)
	if err != nil {
		return nil, err
	}
	return config.Load(path, p.Env, append(flags, p.logFlags()...)...)
}

// logFlags returns the global flags that override the configuration.
func (p *program) logFlags() []config.Flag {
	var flags []config.Flag
	if p.logLevel != "" {
		flags = append(flags, config.Flag{Name: "--log-level", Key: "log.level", Value: p.logLevel})
	}
	if p.logFormat != "" {
		flags = append(flags, config.Flag{Name: "--log-format", Key: "log.format", Value: p.logFormat})
	}
	return flags
}

// checkGlobals rejects invalid global flags, whether or not the command uses them.
func (p *program) checkGlobals() error {
	for _, f := range []struct {
		name, value string
		allowed     []string
	}{
		{"--output", p.Output, []string{"text", "json"}},
		{"--log-level", p.logLevel, []string{"", "debug", "info", "warn", "error"}},
		{"--log-format", p.logFormat, []string{"", "auto", "text", "json"}},
	} {
		if err := oneOf(f.name, f.value, f.allowed); err != nil {
			return err
		}
	}
	if p.timeout < 0 {
		return diag.BadUsage("--timeout is negative", "give a duration such as 90s, or 0 for none")
	}
	return p.write(p.format(p.logFormat), "info")
}

// checkValues rejects flags with an empty value. A shell passes one for a variable that is not set.
// Without this check, such a flag would count as not given: --table "$TABLE" would mean all tables,
// and --at-most "$LIMIT" no limit.
func checkValues(c *cobra.Command) error {
	var found error
	c.Flags().Visit(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		if found == nil && slices.Contains(values, "") {
			found = diag.BadUsage("the value of --"+f.Name+" is empty", "give a value, or leave out the flag; a shell variable may be unset")
		}
	})
	return found
}

func oneOf(flag, value string, allowed []string) error {
	var shown []string
	for _, a := range allowed {
		if a == value {
			return nil
		}
		if a != "" {
			shown = append(shown, a)
		}
	}
	fix := "use one of " + strings.Join(shown, ", ")
	if near := diag.Suggest(value, shown); near != "" {
		fix = fmt.Sprintf("did you mean %s? %s", near, fix)
	}
	return diag.BadUsage(fmt.Sprintf("%s cannot be %q", flag, value), fix)
}

// flagError turns an error of the flag parser into an error with a suggestion.
func flagError(c *cobra.Command, err error) error {
	fix := "see `" + c.CommandPath() + " --help`"
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		var names []string
		collect := func(f *pflag.Flag) {
			if !f.Hidden {
				names = append(names, f.Name)
			}
		}
		c.Flags().VisitAll(collect)
		c.InheritedFlags().VisitAll(collect)
		name := unknown.GetSpecifiedName()
		if near := diag.Suggest(name, names); isVersion(name, unknown) {
			fix = "did you mean `" + c.Root().Name() + " version`? " + fix
		} else if near != "" {
			fix = "did you mean --" + near + "? " + fix
		}
	}
	return &diag.Error{Code: diag.Usage, What: c.CommandPath() + ": " + err.Error(), Fix: fix, Cause: "the command line cannot be parsed"}
}

// isVersion reports whether an unknown flag is the flag with which most programs print their
// version.
func isVersion(name string, unknown *pflag.NotExistError) bool {
	short := unknown.GetSpecifiedShortnames() != ""
	return !short && name == "version" || short && strings.EqualFold(name, "v")
}

// none rejects all arguments.
func none(c *cobra.Command, args []string) error { return atMost(0)(c, args) }

// atMost rejects more than n arguments.
func atMost(n int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) <= n {
			return nil
		}
		return diag.BadUsage(fmt.Sprintf("%s does not take the argument %q", c.CommandPath(), args[n]), "see `"+c.CommandPath()+" --help`")
	}
}

// group makes a command that has only subcommands. The command prints its help, and rejects unknown
// subcommands.
func group(c *cobra.Command) *cobra.Command {
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		var names []string
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() {
				names = append(names, sub.Name())
			}
		}
		fix := "see `" + c.CommandPath() + " --help`"
		if near := diag.Suggest(args[0], names); near != "" {
			fix = "did you mean `" + c.CommandPath() + " " + near + "`? " + fix
		}
		return &diag.Error{Code: diag.Usage, What: fmt.Sprintf("%s has no command %q", c.CommandPath(), args[0]), Fix: fix,
			Cause: "the command line cannot be parsed"}
	}
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	return c
}
