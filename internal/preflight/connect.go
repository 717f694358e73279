package preflight

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/dynamodb-bigtable/replicator/checkpoint"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/endpointcreds"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/awshost"
	"github.com/dynamodb-bigtable/replicator/internal/clock"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/report"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// Source is the way to DynamoDB and its streams.
type Source struct {
	Region string
	config aws.Config
	client *dynamodb.Client
	*backfill.Tables
	// Exporter asks for exports, and about them.
	*backfill.Exporter
	Expiry  *backfill.Expiry
	Canary  *backfill.CanaryWriter
	streams *dynamodbstreams.Client
	clock   *clock.Watch
}

// localRegion leads the SDK's client of tables, and that alone, to an emulator at this machine.
const localRegion = "local"

// ConnectSource reads the AWS configuration and builds the clients; nothing is asked of the service yet. The SDK itself
// honours AWS_ENDPOINT_URL and its two more specific forms, AWS_PROFILE, the web identity variables and so on.
func ConnectSource(ctx context.Context, cfg *config.Config) (*Source, error) {
	ac, err := LoadAWS(ctx, cfg, FetchTime)
	if err != nil {
		return nil, notLoaded(os.LookupEnv, err)
	}
	if ac.Region == "" {
		return nil, &diag.Error{Code: diag.NoRegion, What: "no AWS region is configured",
			Cause: "neither source.region, AWS_REGION nor the AWS profile names one"}
	}
	if strings.ContainsFunc(ac.Region, unicode.IsSpace) {
		return nil, &diag.Error{Code: diag.NoRegion, What: fmt.Sprintf("the AWS region %q contains a blank or a newline", ac.Region),
			Cause: "it comes from source.region, AWS_REGION or the AWS profile", Fix: "write the region alone, such as eu-west-1"}
	}
	watch := &clock.Watch{}
	client := dynamodb.NewFromConfig(ac, backfill.ClientOptions, func(o *dynamodb.Options) { o.HTTPClient = watch.Around(o.HTTPClient) })
	if ac.Region == localRegion && client.Options().BaseEndpoint == nil {
		return nil, &diag.Error{Code: diag.OneEndpoint, What: "the AWS region is " + localRegion, Cause: "for it, the AWS SDK uses http://localhost:8000 for tables, and no endpoint for streams",
			Fix: "set AWS_ENDPOINT_URL to the emulator's address, or set an AWS region"}
	}
	streams := dynamodbstreams.NewFromConfig(ac, cdc.ClientOptions, func(o *dynamodbstreams.Options) { o.HTTPClient = watch.Around(o.HTTPClient) })
	for _, endpoint := range []*string{client.Options().BaseEndpoint, streams.Options().BaseEndpoint} {
		if err := config.CheckEndpointRegion(aws.ToString(endpoint), ac.Region); err != nil {
			return nil, err
		}
	}
	return &Source{
		Region: ac.Region, config: ac, client: client,
		Tables: backfill.NewTables(client), Expiry: backfill.NewExpiry(client), Canary: backfill.NewCanaryWriter(client), Exporter: backfill.NewExporter(client),
		streams: streams,
		clock:   watch,
	}, nil
}

// Client is the client of DynamoDB itself.
func (s *Source) Client() *dynamodb.Client { return s.client }

// ClockOffset is how far this host's clock is ahead of the source's; false if that is not known.
func (s *Source) ClockOffset() (time.Duration, bool) {
	if s == nil {
		return 0, false
	}
	return s.clock.Offset()
}

// fetchTime bounds one request for credentials. The SDK fetches them once for all who wait, under no deadline of theirs, and its clients have
// none of their own: one connection to STS that dies silently would hold every call to the source from then on.
const FetchTime = 20 * time.Second

// renewBefore is how long before their end credentials are fetched anew: DynamoDB takes requests from clocks that are five minutes behind, which
// would go on sending credentials that are over.
const renewBefore = 5 * time.Minute

// LoadAWS reads the AWS configuration, and says how credentials are fetched: each request within the
// given time. It fails with a *diag.Error if a variable cannot be given to the SDK.
func LoadAWS(ctx context.Context, cfg *config.Config, within time.Duration) (aws.Config, error) {
	if err := config.CheckAWSVariables(os.LookupEnv); err != nil {
		return aws.Config{}, err
	}
	bounded := awshttp.NewBuildableClient().WithTimeout(within)
	early := func(o *aws.CredentialsCacheOptions) { o.ExpiryWindow = renewBefore }
	options := []func(*awsconfig.LoadOptions) error{
		awsconfig.WithRetryMaxAttempts(1),
		awsconfig.WithHTTPClient(bounded),
		awsconfig.WithLogger(report.AWS),
		// The endpoints of containers (ECS, EKS Pod Identity) are asked by a client that knows nothing of the configuration's.
		awsconfig.WithEndpointCredentialOptions(func(o *endpointcreds.Options) { o.HTTPClient = bounded }),
		awsconfig.WithCredentialsCacheOptions(early),
	}
	if cfg.Source.Region != "" {
		options = append(options, awsconfig.WithRegion(cfg.Source.Region))
	}
	ac, err := awsconfig.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return ac, err
	}
	if ac.Credentials != nil {
		ac.Credentials = checkedCredentials{ac.Credentials}
	}
	if cfg.Source.RoleARN != "" {
		role := stscreds.NewAssumeRoleProvider(sts.NewFromConfig(ac), cfg.Source.RoleARN)
		ac.Credentials = checkedCredentials{aws.NewCredentialsCache(role, early)}
	}
	return ac, nil
}

// Stream is the source of one stream.
func (s *Source) Stream(arn string) *cdc.DynamoDBStream { return cdc.NewSource(s.streams, arn) }

// Target is the way to Bigtable.
type Target struct {
	sink.Table // of Data

	Data  *sink.Bigtable
	Admin *sink.Admin
}

// ConnectTarget builds the clients; nothing is asked of the service yet.
func ConnectTarget(ctx context.Context, cfg *config.Config) (*Target, error) {
	if err := checkGoogle("BIGTABLE_EMULATOR_HOST"); err != nil {
		return nil, err
	}
	in := sink.Instance{Project: cfg.Target.Project, Instance: cfg.Target.Instance, AppProfile: cfg.Target.AppProfile}
	data, err := sink.Connect(ctx, in)
	if err != nil {
		return nil, notConnected(cfg, err)
	}
	admin, err := sink.ConnectAdmin(ctx, in)
	if err != nil {
		return nil, errors.Join(notConnected(cfg, err), data.Close())
	}
	return &Target{data, data, admin}, nil
}

// notConnected explains why Bigtable's clients could not be opened. They send a first request with
// the credentials that they find.
func notConnected(cfg *config.Config, err error) error {
	what := "cannot connect to " + TargetName(cfg)
	if answer := (*sink.Error)(nil); errors.As(err, &answer) {
		return ExplainTarget(what, err)
	}
	return bigtableService.notOpened(&diag.Error{Code: diag.TargetUnreachable, What: what, Err: err})
}

// Reach connects and asks whether the instance answers, again while that may help, until ctx ends.
// The connections outlive ctx. With an error the target may be there, and is to be closed.
func Reach(ctx context.Context, cfg *config.Config) (t *Target, err error) {
	err = repeat(ctx, mayPass, func(ctx context.Context) (err error) {
		if t == nil {
			if t, err = connectWithin(ctx, cfg); err != nil {
				return err
			}
		}
		return t.ping(ctx, cfg)
	})
	return t, err
}

// connectWithin connects before ctx ends. Bigtable's client waits for its first answer under the
// context that its connections live under, which is another one.
func connectWithin(ctx context.Context, cfg *config.Config) (*Target, error) {
	outlives := context.WithoutCancel(ctx)
	life, end := context.WithCancel(outlives)
	stop := context.AfterFunc(ctx, end)
	t, err := ConnectTarget(life, cfg)
	if stop() {
		return t, err
	}
	if t != nil {
		_ = t.Close() // its connections have ended
	}
	if err = noToken(outlives); err == nil {
		err = fmt.Errorf("no answer in time: %w", context.Cause(ctx))
	}
	return nil, ExplainTarget("cannot connect to "+TargetName(cfg), err)
}

// SameCluster refuses another cluster than the one that the ledger was kept in: what is written
// there would be missing here. The profile is asked for anew: it may have been led elsewhere.
func SameCluster(ctx context.Context, ledger *checkpoint.Ledger, ask func(context.Context) (string, error)) error {
	known, err := ledger.Cluster(ctx)
	if err != nil || known == "" {
		return err
	}
	cluster, err := ask(ctx)
	if err == nil && cluster != "" && cluster != known {
		err = checkpoint.ErrClusterChanged
	}
	return err
}

// ping returns nil if the instance answers. Bigtable's client repeats reads of an unreachable instance until the context ends,
// and says only that it did; a ping says why at once.
func (t *Target) ping(ctx context.Context, cfg *config.Config) error {
	if err := t.Data.Ping(ctx); err != nil {
		return ExplainTarget("cannot reach "+TargetName(cfg), err)
	}
	return nil
}

// OpenTarget connects for a command that only reads, and asks whether the instance answers.
func OpenTarget(ctx context.Context, cfg *config.Config) (*Target, error) {
	limited, cancel := context.WithTimeout(ctx, ProbeTime)
	defer cancel()
	t, err := Reach(limited, cfg)
	if err != nil && t != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, err
}

// Profile looks at the app profile, again while that may help.
func (t *Target) Profile(ctx context.Context) (sink.Profile, error) {
	return askAgain(ctx, t.Admin.Profile)
}

// Lacks looks what a table lacks, again while that may help.
func (t *Target) Lacks(ctx context.Context, spec sink.TableSpec) (sink.Lacks, error) {
	return askAgain(ctx, func(ctx context.Context) (sink.Lacks, error) { return t.Admin.Lacks(ctx, spec) })
}

// Permissions are those of the wanted ones that the identity has, or a note why that is unknown. It
// asks again while that may help.
func (t *Target) Permissions(ctx context.Context, wanted []string) (has []string, note string, err error) {
	has, err = askAgain(ctx, func(ctx context.Context) (has []string, err error) {
		has, note, err = t.Admin.Permissions(ctx, wanted)
		return has, err
	})
	return has, note, err
}

// Close closes the connections.
func (t *Target) Close() error { return errors.Join(t.Data.Close(), t.Admin.Close()) }

func TargetName(cfg *config.Config) string {
	return fmt.Sprintf("Bigtable %s/%s", cfg.Target.Project, cfg.Target.Instance)
}

// BothEnds names what is read and what is written in one line, so that nobody finds out later that it was something else.
func BothEnds(cfg *config.Config, region string, env config.Lookup) string {
	from := "DynamoDB " + region
	tables, streams := config.SourceEndpoints(env)
	if tables != "" {
		from += " at " + endpointName(tables)
	}
	if streams != tables && streams != "" {
		from += ", streams at " + endpointName(streams)
	}
	to, _ := TargetEnd(cfg, env)
	return from + " → " + to
}

// TargetEnd names what is written, and reports whether it is an emulator.
func TargetEnd(cfg *config.Config, env config.Lookup) (name string, emulator bool) {
	host, _ := env("BIGTABLE_EMULATOR_HOST")
	if host == "" {
		return TargetName(cfg), false
	}
	return TargetName(cfg) + emulatorAt(host), true
}

// emulatorAt names the emulator of one of Google's services.
func emulatorAt(host string) string { return " EMULATOR at " + config.WithoutPassword(host) }

// endpointName describes an endpoint that a client is redirected to. Anything that is no service of
// Amazon's is called an emulator; the endpoint of a VPC is Amazon's.
func endpointName(endpoint string) string {
	u, err := url.Parse(endpoint)
	if err != nil {
		return "an endpoint that is not a URL"
	}
	if awshost.Is(u.Hostname()) {
		return u.Host
	}
	return "EMULATOR " + u.Host
}

// Ledger is where the ledger is in the state table.
func (t *Target) Ledger(stateTable string) checkpoint.Store {
	return checkpoint.Bigtable(t.Data.Open(stateTable), ledgerFamily)
}

// Records are what is parked in the state table.
func (t *Target) Records(stateTable string) sink.Records { return t.Data.Records(stateTable) }

// ReadRows reads rows of a target table.
func (t *Target) ReadRows(ctx context.Context, table string, r sink.Range, f func(sink.Row) error) error {
	return t.Data.ReadRows(ctx, table, r, f)
}

// Cluster is the cluster to which the app profile routes now; "" if it does not say.
func (t *Target) Cluster(ctx context.Context) (string, error) {
	profile, err := t.Admin.Profile(ctx)
	return profile.Cluster, err
}

// Exists reports whether the instance has a cluster. Where clusters cannot be listed, it has.
func (t *Target) Exists(ctx context.Context, cluster string) (bool, error) {
	clusters, note, err := t.Admin.Clusters(ctx)
	if err != nil || note != "" {
		return true, err
	}
	return slices.ContainsFunc(clusters, func(c sink.Cluster) bool { return c.Name == cluster }), nil
}

// Replicate returns when everything that was written to a table before the call is in every cluster.
func (t *Target) Replicate(ctx context.Context, table string) error {
	return t.Admin.Replicate(ctx, table)
}

// WitnessStore is where the witness of a target table is.
func (t *Target) WitnessStore(table string) checkpoint.Store {
	return checkpoint.Bigtable(t.Data.Open(table), sink.LiveFamily)
}
