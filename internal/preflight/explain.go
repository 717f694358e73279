package preflight

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/relay"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// The packages below return typed errors without codes. The functions here turn them into errors
// for the operator.

// Explain turns an error of the pipeline into an error for the operator. The argument `what`
// describes the failed action. Errors that are already explained, and unexpected errors, are
// returned unchanged.
func Explain(what string, err error) error {
	var known *diag.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	for _, entry := range []struct {
		sentinel error
		code     string
	}{
		{checkpoint.ErrMappingChanged, diag.MappingChanged},
		{checkpoint.ErrRanked, diag.RanksForGood},
		{checkpoint.ErrLedgerExchanged, diag.LedgerLost},
		{checkpoint.ErrForeignPipeline, diag.TargetTaken},
		{checkpoint.ErrClusterChanged, diag.ClusterChanged},
		{checkpoint.ErrFormat, diag.LedgerUnreadable},
		{checkpoint.ErrMode, diag.OtherMode},
		{checkpoint.ErrCutOver, diag.CutOver},
		{checkpoint.ErrPaused, diag.TablePaused},
		{sink.ErrParkedLimit, diag.ParkedLimit},
	} {
		if errors.Is(err, entry.sentinel) {
			return &diag.Error{Code: entry.code, What: what, Err: err}
		}
	}
	var moved *checkpoint.SourceError
	if errors.As(err, &moved) {
		return &diag.Error{Code: diag.SourceMoved, What: what, Cause: moved.Error(), Err: err}
	}
	var renewed *engine.RenewedError
	if errors.As(err, &renewed) {
		return &diag.Error{Code: diag.SourceMoved, What: what, Cause: renewed.Error(), Err: err,
			Fix: "start a worker or wait for it: within minutes it declares the gap and begins a new generation; then repeat the command"}
	}
	var rekeyed *engine.KeyError
	if errors.As(err, &rekeyed) {
		return &diag.Error{Code: diag.SourceRekeyed, What: what, Cause: rekeyed.Error(), Err: err}
	}
	var rows *engine.RowsError
	if errors.As(err, &rows) {
		return &diag.Error{Code: diag.TargetHoldsRows, What: "table " + rows.Table + " cannot be copied into target table " + rows.Target, Cause: rows.Error(), Err: err}
	}
	var stranger *engine.StrangerError
	if errors.As(err, &stranger) {
		return StrangerError(stranger)
	}
	var stream *engine.StreamError
	if errors.As(err, &stream) {
		if stream.View == "" {
			return diag.StreamDisabledError(stream.Table)
		}
		return diag.StreamViewError(stream.Table, stream.View, "")
	}
	var topic *relay.Error
	if errors.As(err, &topic) {
		return ExplainTopic(what, err)
	}
	var bad *sink.BadItem
	if errors.As(err, &bad) {
		return &diag.Error{Code: diag.BadItemStop, What: fmt.Sprintf("an item of table %s cannot be stored", bad.Source), Cause: bad.Reason, Err: err}
	}
	var read *cdc.Error
	if errors.As(err, &read) {
		return ExplainSource(what, "", err)
	}
	var (
		write   *sink.Error
		schema  *sink.SchemaError
		profile *sink.ProfileError
	)
	if errors.As(err, &write) || errors.As(err, &schema) || errors.As(err, &profile) {
		return ExplainTarget(what, err)
	}
	return err
}

// ExplainStep does the same as Explain, for a step of a worker. It also explains errors of the
// ledger's store, which contain Bigtable's own words.
func ExplainStep(what string, err error) error {
	explained := Explain(what, err)
	if _, answered := status.FromError(err); explained == err && answered {
		return ExplainTarget(what, err)
	}
	return explained
}

// StrangerError returns the refusal of a step that may remove rows of another migration.
func StrangerError(e *engine.StrangerError) error {
	return &diag.Error{Code: diag.TargetTaken, What: fmt.Sprintf("target table %s is written by another migration", e.Other.Target), Cause: e.Error(),
		Fix: "set target.shared: true in the configurations of both, or change `to` of one; then run once with --accept-mapping-change. " +
			"If that migration no longer exists, delete its witness: " + deleteWitness(e.Other), Err: e}
}

// deleteWitness returns the command that deletes the witness row of a migration that no longer
// exists.
func deleteWitness(other checkpoint.Stranger) string {
	key := strings.ReplaceAll(transform.WitnessPrefix, "\xff", `\xff`) + other.Source
	return "cbt deleterow " + other.Target + " $'" + key + "'"
}

// ExplainTarget explains errors of Bigtable.
func ExplainTarget(what string, err error) error {
	e := &diag.Error{Code: diag.TargetUnreachable, What: what, Err: err}
	var (
		schema  *sink.SchemaError
		profile *sink.ProfileError
		failed  *sink.Error
	)
	switch {
	case errors.As(err, &schema):
		e.Code = schemaCodes[schema.Problem]
		e.Fix = schemaFix(schema)
		return e
	case errors.As(err, &profile):
		e.Code = profileCodes[profile.Problem]
		e.Fix = profileFix(profile)
		return e
	case errors.As(err, &failed):
		e.Code, e.Fix = ofRequest(failed)
	default:
		// The error of the ledger's store contains the client's words. These words contain no item
		// data, because rows of the ledger have none.
		e.Code, e.Cause = codeOf(status.Code(err)), statusWords.ReplaceAllString(err.Error(), "$1: ")
	}
	return bigtableService.remedied(e)
}

// statusWords matches the beginning of a gRPC status text.
var statusWords = regexp.MustCompile(`rpc error: code = (\w+) desc = `)

// ofRequest returns the error code and the fix for a failed request. The fix is "" if the general
// fix of the code applies.
func ofRequest(failed *sink.Error) (code, fix string) {
	switch {
	case failed.Reason == sink.Denied && slices.Contains([]string{"CreateTable", "ModifyColumnFamilies", "CreateAuthorizedView"}, failed.Op):
		return diag.TargetDenied, "grant the role that `replicator plan --print-iam gcp` prints; or create the tables yourself, and set target.create_missing: false"
	case failed.Reason == sink.Denied:
		return diag.TargetDenied, ""
	case failed.Reason == sink.Throttled:
		return diag.QuotaExceeded, ""
	case failed.Code == codes.NotFound.String():
		return diag.TargetNotFound, ""
	case failed.Code == codes.FailedPrecondition.String() && ofRows(failed.Op):
		return diag.ProfileNoTxn, ""
	case failed.Reason == sink.Permanent, failed.Reason == sink.Rejected:
		return diag.TargetUnreachable, "remove the cause that Bigtable reports, then run the command again"
	}
	return diag.TargetUnreachable, ""
}

// ofRows reports whether a request reads or writes rows through the app profile.
func ofRows(op string) bool { return op == "CheckAndMutateRow" || op == "ReadRows" }

// codeOf returns the code for a gRPC status. Bigtable answers FailedPrecondition to a conditional
// write through an app profile that does not allow single-row transactions.
func codeOf(code codes.Code) string {
	switch code {
	case codes.PermissionDenied, codes.Unauthenticated:
		return diag.TargetDenied
	case codes.NotFound:
		return diag.TargetNotFound
	case codes.FailedPrecondition:
		return diag.ProfileNoTxn
	case codes.ResourceExhausted:
		return diag.QuotaExceeded
	default:
		return diag.TargetUnreachable
	}
}

// ExplainTopic explains a failed call of Pub/Sub.
func ExplainTopic(what string, err error) error {
	e := &diag.Error{Code: diag.TopicUnusable, What: what, Err: err}
	var failed *relay.Error
	if !errors.As(err, &failed) {
		return pubsubService.notOpened(e)
	}
	e.Cause = failed.Error()
	switch failed.Reason {
	case relay.Throttled:
		e.Code = diag.QuotaExceeded
	case relay.Denied:
		e.Fix = "grant what `replicator plan --print-iam gcp` prints"
	case relay.NotFound:
		e.Fix = createFix(failed.Name)
	}
	return pubsubService.remedied(e)
}

// createFix returns the command that creates a missing topic or subscription.
func createFix(name string) string {
	if strings.Contains(name, "/subscriptions/") {
		return "correct the name in the configuration, or gcloud pubsub subscriptions create " + name + " --topic=TOPIC --message-retention-duration=7d; it gets no earlier messages"
	}
	return "correct the name in the configuration, or gcloud pubsub topics create " + name + " --message-retention-duration=7d"
}

// ExplainLedger explains errors of the ledger, both those of Bigtable and those of the ledger
// itself. Errors that are already explained are returned unchanged.
func ExplainLedger(what string, err error) error {
	if known := (*diag.Error)(nil); errors.As(err, &known) {
		return err
	}
	if explained := Explain(what, err); explained != err {
		return explained
	}
	return ExplainTarget(what, err)
}

var schemaCodes = map[sink.Problem]string{
	sink.MissingTable:   diag.TargetTableMissing,
	sink.MissingFamily:  diag.FamilyMissing,
	sink.MissingView:    diag.ViewMissing,
	sink.EatsVersions:   diag.FamilyGC,
	sink.WrongAge:       diag.FamilyGC,
	sink.WrongAggregate: diag.FamilyGC,
	sink.WrongRule:      diag.FamilyGC,
}

var profileCodes = map[sink.ProfileProblem]string{
	sink.MissingProfile: diag.TargetNotFound,
	sink.MultiCluster:   diag.ProfileMulti,
	sink.NoTransactions: diag.ProfileNoTxn,
}

// ExplainExpiry returns a warning for a global table that is configured to keep expired items,
// although other regions remove them. It returns nil if there is no such conflict.
func ExplainExpiry(t Table) *diag.Error {
	if !t.Mapping.Outlives() || len(t.Description.Replicas) == 0 {
		return nil
	}
	return &diag.Error{Code: diag.ExpiredElsewhere, Warning: true,
		What: fmt.Sprintf("items of table %s that expire in another region are removed despite expire: keep", t.Config.From),
		Cause: "it is a global table with replicas in " + strings.Join(t.Description.Replicas, ", ") +
			"; only the region that removes an expired item marks the delete in its stream",
		Fix: "write expire: follow_deletes"}
}

// ExplainShare returns a warning if a limit is a share of provisioned capacity, but the table has
// no provisioned capacity. Otherwise it returns nil. The argument `option` is the name of the
// setting.
func ExplainShare(option string, limit config.Capacity, table string, d backfill.Description) *diag.Error {
	if !limit.IsShare() || d.ReadCapacity > 0 {
		return nil
	}
	return &diag.Error{Code: diag.InvalidValue, Warning: true, What: fmt.Sprintf("%s: %s does not limit the load of table %s", option, limit, table),
		Cause: "the table is billed per request and has no provisioned read capacity", Fix: "write read units a second, such as 1000"}
}

// ExplainAgeing returns a warning for a family with a garbage collection rule that may remove cells
// of existing items.
func ExplainAgeing(e *sink.SchemaError) *diag.Error {
	return &diag.Error{Code: diag.FamilyAges, Warning: true,
		What:  fmt.Sprintf("family %s of table %s has the rule %s, which collects cells of unchanged items", e.Family, e.Table, e.Have),
		Cause: "the configuration declares " + e.Want,
		Fix:   schemaFix(e) + "; or, if the age is intended, declare it in families"}
}

// AgeingText returns the warning of ExplainAgeing in a few words.
func AgeingText(e *sink.SchemaError) string {
	return fmt.Sprintf("family %s:%s has %s, see %s", e.Table, e.Family, e.Have, diag.FamilyAges)
}

// applied is the fix that creates all missing parts, each family with the right type.
const applied = "run `replicator plan --apply`, or set target.create_missing: true"

func schemaFix(e *sink.SchemaError) string {
	switch e.Problem {
	case sink.MissingFamily:
		// Only a new family can be an aggregate; cbt takes the aggregate after the rule.
		if strings.Contains(e.Want, ":") {
			return fmt.Sprintf("cbt createfamily %s %s, or %s", e.Table, shellWord(e.Family+":"+e.Want), applied)
		}
		return fmt.Sprintf("cbt createfamily %s %s && cbt setgcpolicy %s %s %s, or %s",
			e.Table, e.Family, e.Table, e.Family, shellWord(e.Want), applied)
	case sink.MissingView:
		return "create it over the families of the mapping with `gcloud bigtable authorized-views create " + e.View + " --table=" + e.Table + " …`, or set target.create_missing: true"
	case sink.EatsVersions, sink.WrongAge, sink.WrongRule, sink.CollectsItems:
		rule, _, _ := strings.Cut(e.Want, ":") // without the aggregate, which cannot be changed
		return fmt.Sprintf("cbt setgcpolicy %s %s %s", e.Table, e.Family, shellWord(rule))
	case sink.WrongAggregate:
		return fmt.Sprintf("use another family in the configuration, because the kind of %s cannot be changed; or declare its existing kind", e.Family)
	default:
		return ""
	}
}

// shellWord quotes text as one word for a shell. The text contains no quotes, because it is a rule,
// or a family and its rule.
func shellWord(text string) string {
	if strings.ContainsAny(text, " |&()") {
		return "'" + text + "'"
	}
	return text
}

func profileFix(e *sink.ProfileError) string {
	another := fmt.Sprintf("gcloud bigtable app-profiles create replicator --instance=%s --route-to=CLUSTER --transactional-writes, then target.app_profile: replicator", e.Instance)
	switch e.Problem {
	case sink.MissingProfile:
		if e.Profile == "default" { // the profile default was deleted, and plan does not create a profile of that name
			return another
		}
		return "`replicator plan --apply` creates it in an instance of one cluster; or gcloud bigtable app-profiles create " + e.Profile +
			" --instance=" + e.Instance + " --route-to=CLUSTER --transactional-writes"
	case sink.MultiCluster:
		return another
	case sink.NoTransactions:
		return fmt.Sprintf("gcloud bigtable app-profiles update %s --instance=%s --route-to=CLUSTER --transactional-writes", e.Profile, e.Instance)
	default:
		return ""
	}
}
