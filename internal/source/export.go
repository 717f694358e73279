package source

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/exports"
	"github.com/dynamodb-bigtable/replicator/exports/bucket"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// export is the kind of exports to S3 in DynamoDB JSON: a full export and the incremental exports
// after it, or only incremental exports.
var export = &kind{
	name: "export", noun: "export", form: `/.*|(?:s3|gs)://[^/]+/.+`,
	written:  "the folder of one export: s3://BUCKET/AWSDynamoDB/EXPORT, gs://BUCKET/FOLDER, or an absolute directory",
	named:    "name the folder of one export: a directory, s3:// or gs://, …/AWSDynamoDB/<export id>",
	claims:   func(string) bool { return true }, // accepts every address: check refuses wrong ones
	check:    checkExport,
	parse:    parseExport,
	folder:   func(address string) string { return address },
	reported: true,
	again: func(d backfill.Description) string {
		return "request a current export: " + exportCommand + d.ARN + " --s3-bucket BUCKET; then name it"
	},
	open: openExport,
	fit:  chain,
}

// exportCommand is the command that requests an export, up to the table's ARN.
const exportCommand = "aws dynamodb export-table-to-point-in-time --table-arn "

// Recoverable is the time between the latest time that can be exported and the present.
const Recoverable = 5 * time.Minute

// Window is the time of one incremental export, from its first to its last moment.
type Window = exports.Window

// Windows divides a time into the windows of incremental exports that follow one another. There is
// none if the time is shorter than the shortest window.
func Windows(from, until time.Time) []Window { return exports.Windows(from, until) }

// Since returns the latest time at which windows up to the time `until` may begin so that they
// contain the time `from`.
func Since(from, until time.Time) time.Time { return exports.Since(from, until) }

// NextWindow returns the fix that requests an incremental export. Its window begins at the time
// `from`, and includes all changes up to the time `until`. The service rejects windows that are too
// short or too long, and windows that end too recently.
func NextWindow(d backfill.Description, from, until time.Time) string {
	end, n := exports.NextEnd(from, until.Add(time.Minute-1).Truncate(time.Minute))
	what := fmt.Sprintf("request a window that begins at %s, and name it too", from.Format(time.RFC3339))
	if n > 1 {
		what = exports.Request(from, until.Add(time.Minute-1).Truncate(time.Minute)) + ", and name them too; the first"
	}
	if at := end.Add(Recoverable); at.After(d.At) {
		what += fmt.Sprintf(" (possible from %s on)", at.Format(time.RFC3339))
	}
	return fmt.Sprintf("%s: %s%s --s3-bucket BUCKET --export-type INCREMENTAL_EXPORT --incremental-export-specification ExportFromTime=%d,ExportToTime=%d,ExportViewType=%s",
		what, exportCommand, d.ARN, from.Unix(), end.Unix(), exports.ViewNewAndOld)
}

// Missing returns the fix that requests an incremental export of all changes between two times.
func Missing(from, to time.Time) string { return exports.Request(from.UTC(), to.UTC()) }

// bucketFolder matches the address of a folder in a bucket. The services have stricter rules for
// bucket names. A key may contain any character, and several consecutive slashes.
var bucketFolder = regexp.MustCompile(`^(?:s3|gs)://[a-z0-9][a-z0-9._-]{1,221}/.*[^/\s]/*$`)

func checkExport(address string) string {
	switch scheme, _, remote := strings.Cut(address, "://"); {
	case remote && scheme != "s3" && scheme != "gs":
		return "exports are read from s3://, gs:// and directories, not from " + scheme + "://"
	case remote && (!bucketFolder.MatchString(address) || slices.Contains([]string{".", ".."}, path.Base(address))):
		return "it does not name an export's folder within a bucket"
	case !remote && !filepath.IsAbs(address):
		return "it is neither scan nor an address or absolute directory. Workers on several machines read it, so a directory begins with /"
	}
	return ""
}

func parseExport(address string) (string, error) {
	place, err := bucket.Parse(address)
	return place.String(), err
}

// exported is an opened export.
type exported struct {
	*exports.Export
	address string
	group   int // maximum number of files in a part; 0 means 1
}

func openExport(ctx context.Context, from Ends, address string) (set, error) {
	if from.Folders == nil {
		return nil, ErrNone
	}
	store, name, err := from.Folders(ctx, address)
	if err != nil {
		return nil, err
	}
	e, err := exports.Read(ctx, store, name)
	if err != nil {
		return nil, err
	}
	return exported{Export: e, address: address}, nil
}

// chain sorts exports in chronological order, and checks that no time is missing between them.
func chain(sets []set, of Wanted) ([]set, error) {
	known := map[*exports.Export]exported{}
	var all []*exports.Export
	for _, s := range sets {
		e := s.(exported)
		known[e.Export] = e
		all = append(all, e.Export)
	}
	steps, err := backfill.Chain(all, of.Table, of.Mapping, of.Late, of.Alone)
	var out []set
	for _, s := range steps {
		out = append(out, known[s.Export])
	}
	return out, err
}

func (e exported) Record() checkpoint.Export {
	return checkpoint.Export{Address: e.address, ARN: e.ARN, From: e.From.UTC(), At: e.At.UTC(), Files: len(e.Files)}
}

func (e exported) Size() Size {
	return Size{Parts: backfill.PartsOfFiles(len(e.Files), max(1, e.group)), Files: len(e.Files), Items: e.Items, Bytes: e.Bytes}
}

func (e exported) Grouped(group int) set {
	e.group = group
	return e
}

// Part opens the data files of a part. Each file is verified before it is read.
func (e exported) Part(int) (backfill.PartSource, func() error, error) {
	files := &backfill.Exported{Steps: []exports.Step{{Export: e.Export, Version: e.At}}, Group: e.group, Verify: true}
	return files, files.Close, nil
}

// Reporter asks the service about an export. *backfill.Exporter implements it.
type Reporter interface {
	Report(ctx context.Context, arn string) (backfill.ExportReport, error)
}

// Proof holds the means to prove that an export contains the whole table.
type Proof struct {
	Service Reporter
	// Said is an operator's confirmation, used if DynamoDB cannot confirm it. Say is the
	// instruction with which an operator confirms it.
	Said bool
	Say  string
}

// Whole asks DynamoDB whether the export contains the whole table, because the files do not show
// that. If DynamoDB no longer knows the export, or this identity may not ask, the operator must
// confirm it.
func (e exported) Whole(ctx context.Context, address string, p Proof) error {
	report, err := p.Service.Report(ctx, e.ARN)
	refused := &diag.Error{Code: diag.LoadRefused, What: "cannot load the export " + address}
	var unknown *backfill.ExportRefusal
	switch {
	case err == nil && report.Part != "":
		refused.Cause = "DynamoDB reports that the export has " + report.Part + ", so rows or attributes are missing"
		refused.Fix = "export the whole table, without filter, projection or key conditions"
		return refused
	case err == nil && !report.JSON:
		refused.Cause, refused.Fix = "DynamoDB reports that the export is not in DynamoDB JSON", "export again: aws dynamodb export-table-to-point-in-time --export-format DYNAMODB_JSON"
		return refused
	case err == nil || p.Said:
		return nil
	case errors.As(err, &unknown):
		refused.Cause = "its files do not show whether it has a filter or a projection, and DynamoDB no longer has a description of the export"
	case cdc.Is(err, cdc.Denied), cdc.Is(err, cdc.NotFound):
		refused.Cause = "its files do not show whether it has a filter or a projection, and this identity lacks the permission dynamodb:DescribeExport"
	default:
		return err
	}
	refused.Err, refused.Fix = err, "if the export has no filter, projection or key conditions, "+p.Say
	return refused
}
