package replicate

import (
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"google.golang.org/api/option"
)

// Option is an option of New.
type Option func(*Replicator)

// WithLogger logs to a logger. Without it, nothing is logged. Records contain no item data.
func WithLogger(log *slog.Logger) Option { return func(r *Replicator) { r.log = log } }

// WithEnvironment finds the variables that a configuration's text refers to, as ${NAME}, with
// another function than os.LookupEnv. The clients of AWS and Google always read the environment of
// the process.
func WithEnvironment(lookup func(name string) (value string, ok bool)) Option {
	return func(r *Replicator) { r.env = lookup }
}

// WithAWSConfig uses an AWS configuration in place of the environment, the profile and the identity
// of the process. Source.Region and Source.Roles of Config still apply. Its settings of retries
// have no effect, because the replicator retries by itself.
func WithAWSConfig(cfg aws.Config) Option {
	return func(r *Replicator) { r.clients.AWS = &cfg }
}

// WithBigtableOptions passes options to the clients of Bigtable, for example
// option.WithTokenSource. The options must not contain a connection, because several clients share
// them.
func WithBigtableOptions(opts ...option.ClientOption) Option {
	return func(r *Replicator) { r.clients.Google = append(r.clients.Google, opts...) }
}

// AllowEmulators accepts a variable such as BIGTABLE_EMULATOR_HOST, AWS endpoints that are not
// Amazon's, and endpoints without https. It is for tests. Source.Endpoint and Target.Emulator need
// no permission.
func AllowEmulators() Option {
	return func(r *Replicator) { r.allowed.Emulator, r.allowed.Insecure = true, true }
}

// Once ends Run when the existing items are copied and every open shard of the streams is drained.
// A shard is drained after it has returned only empty pages for the duration `idle`, which must be
// positive; 10 s are usual. Run then fails if the target does not equal the source, for example if
// items are parked.
func Once(idle time.Duration) Option {
	return func(r *Replicator) { r.once, r.idle = true, idle }
}

// NoBackfill only follows the streams, and does not copy existing items.
func NoBackfill() Option { return func(r *Replicator) { r.noBackfill = true } }

// AcceptMappingChange begins a new generation if a table's mapping differs from that in the ledger.
// The table then needs a load, which begins as Backfill.OnGap says. Without this option, Run
// refuses the changed mapping.
func AcceptMappingChange() Option { return func(r *Replicator) { r.acceptMapping = true } }

// AdoptRows overwrites the rows of a target table that is not empty. It is needed only for the
// first Run.
func AdoptRows() Option { return func(r *Replicator) { r.adoptRows = true } }
