package preflight

import (
	"context"
	"log/slog"
	"os"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"google.golang.org/api/option"

	"github.com/dynamodb-bigtable/replicator/internal/awshost"
	"github.com/dynamodb-bigtable/replicator/internal/report"
)

// Clients are settings of the vendors' clients that a program sets itself. Without them, the
// environment of the process sets the clients. Two replicators of one process can so use different
// endpoints and credentials.
type Clients struct {
	Endpoint string                // URL of DynamoDB and its streams; "" to let AWS or the environment decide
	AWS      *aws.Config           // region, credentials and HTTP client; nil to load them as the SDK does
	Emulator string                // address of the Bigtable emulator, host:port; "" to let the environment decide
	Google   []option.ClientOption // for example credentials; for Bigtable's clients
	Log      *slog.Logger          // for messages of the clients; nil means the default log
}

// The variables with which the environment sets Endpoint and Emulator.
var (
	endpointVariables = []string{awshost.OwnVariable(awshost.Tables), awshost.OwnVariable(awshost.Streams)}
	emulatorVariable  = "BIGTABLE_EMULATOR_HOST"
)

// Lookup returns an environment variable as the clients see it: Endpoint and Emulator replace the
// variables that they override.
func (c Clients) Lookup(name string) (string, bool) {
	switch {
	case c.Endpoint != "" && slices.Contains(endpointVariables, name):
		return c.Endpoint, true
	case c.Emulator != "" && name == emulatorVariable:
		return c.Emulator, true
	}
	return os.LookupEnv(name)
}

// Inherited returns an environment variable of the process, but not those that Endpoint and Emulator
// override. A check of the environment must not refuse what the program itself has set.
func (c Clients) Inherited(name string) (string, bool) {
	if c.Endpoint != "" && slices.Contains(endpointVariables, name) || c.Emulator != "" && name == emulatorVariable {
		return "", false
	}
	return os.LookupEnv(name)
}

// awsConfig returns the program's AWS configuration, with the region of the migration's
// configuration if that names one. Requests are not retried by the SDK, because the callers retry.
func (c Clients) awsConfig(region string) aws.Config {
	if c.AWS == nil {
		return aws.Config{}
	}
	ac := c.AWS.Copy()
	if region != "" {
		ac.Region = region
	}
	ac.RetryMaxAttempts, ac.Retryer = 1, nil
	ac.APIOptions = append(slices.Clip(ac.APIOptions), named)
	if ac.Logger == nil {
		ac.Logger = report.AWS(c.Log)
	}
	return ac
}

type clientsKey struct{}

// WithClients returns a context in which the clients are built with these settings.
func WithClients(ctx context.Context, c Clients) context.Context {
	return context.WithValue(ctx, clientsKey{}, c)
}

// clientsOf returns the settings of a context; the zero value if it has none.
func clientsOf(ctx context.Context) Clients {
	c, _ := ctx.Value(clientsKey{}).(Clients)
	return c
}
