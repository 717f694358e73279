package preflight

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/dynamodb-bigtable/replicator/checkpoint"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/endpointcreds"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	smithy "github.com/aws/smithy-go/middleware"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/exports/bucket"
	"github.com/dynamodb-bigtable/replicator/internal/awshost"
	"github.com/dynamodb-bigtable/replicator/internal/build"
	"github.com/dynamodb-bigtable/replicator/internal/clock"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/environment"
	"github.com/dynamodb-bigtable/replicator/internal/report"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// Source holds the clients of DynamoDB and its streams.
type Source struct {
	Region string
	config aws.Config
	client *dynamodb.Client
	byARN  func(*dynamodb.Options) // makes a client name tables by their configured ARNs
	*backfill.Tables
	// Exporter requests and describes exports.
	*backfill.Exporter
	Expiry  *backfill.Expiry
	Canary  *backfill.CanaryWriter
	s3      []func(*s3.Options) // options of the clients that read exports
	streams *dynamodbstreams.Client
	clock   *clock.Watch
}

// localRegion is a region name for which the SDK redirects requests for tables to an emulator on
// this machine, but not requests for streams.
const localRegion = "local"

// ConnectSource reads the AWS configuration and builds the clients. It sends no request. The SDK
// itself evaluates variables such as AWS_PROFILE, AWS_ENDPOINT_URL and those of web identities.
func ConnectSource(ctx context.Context, cfg *config.Config) (*Source, error) {
	given := clientsOf(ctx)
	ac, err := LoadAWS(ctx, cfg, FetchTime)
	if err != nil {
		return nil, notLoaded(given.Lookup, err)
	}
	if ac.Region == "" {
		return nil, &diag.Error{Code: diag.NoRegion, What: "no AWS region is configured",
			Cause: "neither source.region, AWS_REGION nor the AWS profile names one"}
	}
	if strings.ContainsFunc(ac.Region, unicode.IsSpace) {
		return nil, &diag.Error{Code: diag.NoRegion, What: fmt.Sprintf("the AWS region %q contains a space or a newline", ac.Region),
			Cause: "it comes from source.region, AWS_REGION or the AWS profile", Fix: "write only the region, such as eu-west-1"}
	}
	if err := cfg.CheckARNs(ac.Region); err != nil {
		return nil, err
	}
	byARN := backfill.ByARN(cfg.ARNs())
	watch := &clock.Watch{}
	client := dynamodb.NewFromConfig(ac, backfill.ClientOptions, byARN, func(o *dynamodb.Options) {
		o.HTTPClient = watch.Around(o.HTTPClient)
		if given.Endpoint != "" {
			o.BaseEndpoint = &given.Endpoint
		}
	})
	if ac.Region == localRegion && client.Options().BaseEndpoint == nil {
		return nil, &diag.Error{Code: diag.OneEndpoint, What: "the AWS region is " + localRegion, Cause: "for this region, the AWS SDK uses http://localhost:8000 for tables, and no endpoint for streams",
			Fix: "set AWS_ENDPOINT_URL to the emulator's address, or set an AWS region"}
	}
	streams := dynamodbstreams.NewFromConfig(ac, cdc.ClientOptions, func(o *dynamodbstreams.Options) {
		o.HTTPClient = watch.Around(o.HTTPClient)
		if given.Endpoint != "" {
			o.BaseEndpoint = &given.Endpoint
		}
	})
	for _, endpoint := range []*string{client.Options().BaseEndpoint, streams.Options().BaseEndpoint} {
		if err := environment.CheckEndpointRegion(aws.ToString(endpoint), ac.Region); err != nil {
			return nil, err
		}
	}
	var folders []func(*s3.Options)
	if cfg.Backfill.Export.RequesterPays {
		folders = append(folders, bucket.RequesterPays)
	}
	return &Source{
		Region: ac.Region, config: ac, client: client, byARN: byARN,
		Tables: backfill.NewTables(client), Expiry: backfill.NewExpiry(client), Canary: backfill.NewCanaryWriter(client),
		Exporter: backfill.NewExporter(client).To(backfill.ExportBucket{Owner: cfg.Backfill.Export.BucketOwner, KMSKey: cfg.Backfill.Export.KMSKey}),
		s3:       folders,
		streams:  streams,
		clock:    watch,
	}, nil
}

// Client returns the client of DynamoDB.
func (s *Source) Client() *dynamodb.Client { return s.client }

// ClockOffset returns how far this host's clock is ahead of the source's; false if it is unknown.
func (s *Source) ClockOffset() (time.Duration, bool) {
	if s == nil {
		return 0, false
	}
	return s.clock.Offset()
}

// FetchTime is the timeout of one request for credentials. The SDK sends one request for all
// waiting callers, and ignores their deadlines. Without this timeout, a single stalled connection
// to STS would block all later calls to the source.
const FetchTime = 20 * time.Second

// renewBefore is how long before their expiry credentials are renewed. DynamoDB accepts requests
// from hosts with clocks up to five minutes behind. Without this margin, such a host would keep
// sending expired credentials.
const renewBefore = 5 * time.Minute

func renewEarly(o *aws.CredentialsCacheOptions) { o.ExpiryWindow = renewBefore }

// named adds the program's version to the User-Agent of a request to AWS.
func named(stack *smithy.Stack) error {
	return awsmiddleware.AddUserAgentKeyValue(build.Product, build.This().Version)(stack)
}

// LoadAWS reads the AWS configuration. The argument `within` is the timeout of each request for
// credentials. It returns a *diag.Error if an environment variable has a value that the SDK cannot
// use.
func LoadAWS(ctx context.Context, cfg *config.Config, within time.Duration) (aws.Config, error) {
	given := clientsOf(ctx)
	if err := environment.CheckAWSVariables(given.Lookup); err != nil {
		return aws.Config{}, err
	}
	bounded := awshttp.NewBuildableClient().WithTimeout(within)
	options := []func(*awsconfig.LoadOptions) error{
		awsconfig.WithRetryMaxAttempts(1),
		awsconfig.WithHTTPClient(bounded),
		awsconfig.WithLogger(report.AWS(given.Log)),
		awsconfig.WithAPIOptions([]func(*smithy.Stack) error{named}),
		// The SDK calls the endpoints of containers (ECS, EKS Pod Identity) with a client of their
		// own, so the limit must be set here again.
		awsconfig.WithEndpointCredentialOptions(func(o *endpointcreds.Options) { o.HTTPClient = bounded }),
		awsconfig.WithCredentialsCacheOptions(renewEarly),
	}
	if cfg.Source.Region != "" {
		options = append(options, awsconfig.WithRegion(cfg.Source.Region))
	}
	ac, err := given.awsConfig(cfg.Source.Region), error(nil)
	if given.AWS == nil {
		ac, err = awsconfig.LoadDefaultConfig(ctx, options...)
	}
	if err != nil {
		return ac, err
	}
	if ac.Credentials != nil {
		ac.Credentials = checkedCredentials{ac.Credentials}
	}
	for i, role := range cfg.Source.Roles {
		ac.Credentials = assume(ac, role, cfg.Source.ExternalIDOf(i))
	}
	return ac, nil
}

// Stream returns the source of one stream.
func (s *Source) Stream(arn string) *cdc.DynamoDBStream { return cdc.NewSource(s.streams, arn) }

// Target holds the clients of Bigtable.
type Target struct {
	sink.Table // the tables that Data accesses

	Data  *sink.Bigtable
	Admin *sink.Admin
}

// ConnectTarget builds the clients. It sends no request for data.
func ConnectTarget(ctx context.Context, cfg *config.Config) (*Target, error) {
	given := clientsOf(ctx)
	if given.Emulator == "" {
		if err := checkGoogle("BIGTABLE_EMULATOR_HOST"); err != nil {
			return nil, err
		}
	}
	in := sink.Instance{Project: cfg.Target.Project, Instance: cfg.Target.Instance, AppProfile: cfg.Target.AppProfile, Emulator: given.Emulator}
	data, err := sink.Connect(ctx, in, given.Google...)
	if err != nil {
		return nil, notConnected(cfg, err)
	}
	admin, err := sink.ConnectAdmin(ctx, in, given.Google...)
	if err != nil {
		return nil, errors.Join(notConnected(cfg, err), data.Close())
	}
	return &Target{data, data, admin}, nil
}

// notConnected explains why Bigtable's clients could not be opened. Some clients request a token
// while they are opened, so wrong credentials already fail here.
func notConnected(cfg *config.Config, err error) error {
	what := "cannot connect to " + TargetName(cfg)
	if answer := (*sink.Error)(nil); errors.As(err, &answer) {
		return ExplainTarget(what, err)
	}
	return bigtableService.notOpened(&diag.Error{Code: diag.TargetUnreachable, What: what, Err: err})
}

// Reach connects and checks that the instance answers. It retries temporary failures until ctx
// ends. The connections stay open after the end of ctx. Reach may return a target even together
// with an error. Then the caller must close the target.
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

// connectWithin connects, and gives up when ctx ends. Bigtable's client closes its connections when
// the context of the connect ends. So connectWithin passes the client another context, which
// outlives ctx.
func connectWithin(ctx context.Context, cfg *config.Config) (*Target, error) {
	outlives := context.WithoutCancel(ctx)
	life, end := context.WithCancel(outlives)
	stop := context.AfterFunc(ctx, end)
	t, err := ConnectTarget(life, cfg)
	if stop() {
		return t, err
	}
	if t != nil {
		_ = t.Close() // its connections have ended already
	}
	if err = noToken(outlives); err == nil {
		err = fmt.Errorf("no answer in time: %w", context.Cause(ctx))
	}
	return nil, ExplainTarget("cannot connect to "+TargetName(cfg), err)
}

// SameCluster fails if the app profile now routes to another cluster than the ledger's. Rows that
// were written in the ledger's cluster may be missing in another cluster. It reads the app profile
// again, because the profile may have changed.
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

// ping returns nil if the instance answers. If the instance cannot be reached, Bigtable's client
// retries reads until the context ends, and then returns only the context's error. A ping returns
// the cause immediately.
func (t *Target) ping(ctx context.Context, cfg *config.Config) error {
	if err := t.Data.Ping(ctx); err != nil {
		return ExplainTarget("cannot reach "+TargetName(cfg), err)
	}
	return nil
}

// OpenTarget connects to the target for a command that only reads, and checks that the instance
// answers.
func OpenTarget(ctx context.Context, cfg *config.Config) (*Target, error) {
	limited, cancel := context.WithTimeout(ctx, ProbeTime)
	defer cancel()
	t, err := Reach(limited, cfg)
	if err != nil && t != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, err
}

// Profile reads the app profile, and retries temporary failures.
func (t *Target) Profile(ctx context.Context) (sink.Profile, error) {
	return askAgain(ctx, t.Admin.Profile)
}

// Lacks reads the missing parts of a table, and retries temporary failures.
func (t *Target) Lacks(ctx context.Context, spec sink.TableSpec) (sink.Lacks, error) {
	return askAgain(ctx, func(ctx context.Context) (sink.Lacks, error) { return t.Admin.Lacks(ctx, spec) })
}

// Permissions returns which of the wanted permissions the identity has, or a note that explains why
// they are unknown. It retries temporary failures.
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

// BothEnds names the source and the target in one line, so that an operator notices a mistake
// early.
func BothEnds(cfg *config.Config, region string, env config.Lookup) string {
	from := "DynamoDB " + region
	tables, streams := environment.SourceEndpoints(env)
	if tables != "" {
		from += " at " + endpointName(tables)
	}
	if streams != tables && streams != "" {
		from += ", streams at " + endpointName(streams)
	}
	to, _ := TargetEnd(cfg, env)
	return from + " → " + to
}

// TargetEnd names the target, and reports whether it is an emulator.
func TargetEnd(cfg *config.Config, env config.Lookup) (name string, emulator bool) {
	host, _ := env("BIGTABLE_EMULATOR_HOST")
	if host == "" {
		return TargetName(cfg), false
	}
	return TargetName(cfg) + emulatorAt(host), true
}

// emulatorAt names the emulator of a Google service.
func emulatorAt(host string) string { return " EMULATOR at " + environment.WithoutPassword(host) }

// endpointName describes an endpoint to which a client is redirected. It calls every endpoint
// outside AWS an emulator. A VPC endpoint counts as AWS.
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

// Ledger returns the store of the ledger in the state table.
func (t *Target) Ledger(stateTable string) checkpoint.Store {
	return checkpoint.Bigtable(t.Data.Open(stateTable), ledgerFamily)
}

// Records returns the store of parked items in the state table.
func (t *Target) Records(stateTable string) sink.Records { return t.Data.Records(stateTable) }

// ReadRows reads rows of a target table.
func (t *Target) ReadRows(ctx context.Context, table string, r sink.Range, f func(sink.Row) error) error {
	return t.Data.ReadRows(ctx, table, r, f)
}

// Cluster returns the cluster to which the app profile routes now; "" if it is unknown.
func (t *Target) Cluster(ctx context.Context) (string, error) {
	profile, err := t.Admin.Profile(ctx)
	return profile.Cluster, err
}

// Exists reports whether the instance has a cluster. If clusters cannot be listed, it returns true.
func (t *Target) Exists(ctx context.Context, cluster string) (bool, error) {
	clusters, note, err := t.Admin.Clusters(ctx)
	if err != nil || note != "" {
		return true, err
	}
	return slices.ContainsFunc(clusters, func(c sink.Cluster) bool { return c.Name == cluster }), nil
}

// Replicate returns when every cluster has all writes to the table from before the call.
func (t *Target) Replicate(ctx context.Context, table string) error {
	return t.Admin.Replicate(ctx, table)
}

// WitnessStore returns the store of a target table's witness row.
func (t *Target) WitnessStore(table string) checkpoint.Store {
	return checkpoint.Bigtable(t.Data.Open(table), sink.LiveFamily)
}
