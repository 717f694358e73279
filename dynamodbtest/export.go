package dynamodbtest

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/md5"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// Windows of incremental exports ("DynamoDB data export to Amazon S3: how it works").
const (
	leastWindow = 15 * time.Minute
	mostWindow  = 24 * time.Hour
)

// exportTokens is how long a client token identifies the same export.
const exportTokens = 8 * time.Hour

const (
	fullExport        = "FULL_EXPORT"
	incrementalExport = "INCREMENTAL_EXPORT"
)

type windowSpecification struct {
	ExportFromTime *float64
	ExportToTime   *float64
	ExportViewType string
}

type exportRequest struct {
	TableArn                       string
	S3Bucket                       string
	S3Prefix                       string
	S3BucketOwner                  string
	S3SseAlgorithm                 string
	S3SseKmsKeyId                  string
	ClientToken                    string
	ExportTime                     *float64
	ExportFormat                   string
	ExportType                     string
	IncrementalExportSpecification *windowSpecification
	FilterSpecification            json.RawMessage
}

func (r *exportRequest) subject() (string, string) { return tableOfARN(r.TableArn), "" }
func (r *exportRequest) address() string           { return r.TableArn }

// export is a requested export. The Server's mu guards it.
type export struct {
	table       *table
	arn, id     string
	token, asks string // the client's token, and its request as JSON
	bucket      string
	prefix      string
	kind, view  string
	filter      json.RawMessage // the filter as requested
	selects     *selection      // made from filter; nil selects everything
	from, to    time.Time       // the window; a full export has its time in to
	began, ends time.Time
	manifest    string // set once the export is complete
	failure     string
	items       int
	bytes       int
}

func timeOf(epoch *float64, otherwise time.Time) time.Time {
	if epoch == nil {
		return otherwise
	}
	return time.UnixMicro(int64(*epoch * 1e6)).UTC()
}

// startExport accepts the request for an export. It is complete after Options.ExportTakes.
func (s *Server) startExport(req *exportRequest) (any, error) {
	e, err := s.checkExport(req)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, former := range s.exports {
		switch {
		case e.token == "" || former.token != e.token || e.began.Sub(former.began) > exportTokens:
		case former.asks != e.asks:
			return nil, newError("ExportConflictException", "There was a conflict when writing to the specified S3 bucket: the client token was used for another export")
		default:
			return s.describe(former), nil
		}
	}
	n := uint64(len(s.exports))
	e.id = fmt.Sprintf("%014d-%08x", e.began.UnixMilli(), uint32(mix(s.opts.Seed^mix(n+77))))
	e.arn = e.table.arn() + "/export/" + e.id
	s.exports = append(s.exports, e)
	d := s.describe(e)
	return d, nil
}

func (s *Server) checkExport(req *exportRequest) (*export, error) {
	if err := constraints(enum("exportFormat", req.ExportFormat, "DYNAMODB_JSON", "ION"), enum("exportType", req.ExportType, fullExport, incrementalExport),
		enum("s3SseAlgorithm", req.S3SseAlgorithm, "AES256", "KMS")); err != nil {
		return nil, err
	}
	if req.S3Bucket == "" {
		return nil, missingMember("s3Bucket")
	}
	if req.ExportFormat == "ION" {
		return nil, unsupported("ExportFormat ION")
	}
	if err := s.checkOwner(req.TableArn); err != nil {
		return nil, err
	}
	t, err := s.find(refTo(tableOfARN(req.TableArn)))
	if err != nil {
		return nil, newError("TableNotFoundException", "Table not found: "+req.TableArn)
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.history == nil {
		return nil, newError("PointInTimeRecoveryUnavailableException", "Point in time recovery is not enabled for table '"+t.name+"'")
	}
	now := s.Now()
	token := req.ClientToken
	asks, _ := json.Marshal(req)
	e := &export{table: t, token: token, asks: string(asks), bucket: req.S3Bucket, prefix: strings.Trim(req.S3Prefix, "/"),
		kind: cmp.Or(req.ExportType, fullExport), began: now, ends: now.Add(s.opts.ExportTakes)}
	e.filter = req.FilterSpecification
	if e.selects, err = filterOf(e.filter, e.kind); err != nil {
		return nil, err
	}
	first, last := t.history.first(now), t.history.last(now, s.opts.RecoveryLag)
	if e.kind == fullExport {
		e.to = timeOf(req.ExportTime, last)
		if e.to.Before(first) || e.to.After(last) {
			return nil, newError("InvalidExportTimeException", "The specified ExportTime is outside of the point in time recovery window")
		}
		return e, nil
	}
	spec := req.IncrementalExportSpecification
	if spec == nil || spec.ExportFromTime == nil {
		return nil, missingMember("incrementalExportSpecification.exportFromTime")
	}
	if err := constraints(enum("incrementalExportSpecification.exportViewType", spec.ExportViewType, "NEW_IMAGE", "NEW_AND_OLD_IMAGES")); err != nil {
		return nil, err
	}
	e.view = cmp.Or(spec.ExportViewType, "NEW_AND_OLD_IMAGES")
	e.from = timeOf(spec.ExportFromTime, first)
	e.to = timeOf(spec.ExportToTime, last.Truncate(time.Second))
	switch {
	case e.from.Before(first.Truncate(time.Second)) || e.to.After(last):
		return nil, newError("InvalidExportTimeException", "The specified export window is outside of the point in time recovery window")
	case e.to.Sub(e.from) < leastWindow || e.to.Sub(e.from) > mostWindow:
		return nil, validation("The export window must be between 15 minutes and 24 hours")
	}
	return e, nil
}

type exportDescription struct {
	ExportArn, ExportStatus        string
	StartTime                      seconds
	EndTime                        *seconds `json:",omitempty"`
	ExportManifest                 string   `json:",omitempty"`
	TableArn, TableId              string
	ExportTime                     *seconds `json:",omitempty"`
	ClientToken                    string   `json:",omitempty"`
	S3Bucket                       string
	S3Prefix                       string `json:",omitempty"`
	S3SseAlgorithm                 string
	FailureCode, FailureMessage    string `json:",omitempty"`
	ExportFormat                   string
	BilledSizeBytes, ItemCount     int
	ExportType                     string
	IncrementalExportSpecification *windowDescription `json:",omitempty"`
	FilterSpecification            json.RawMessage    `json:",omitempty"`
}

type windowDescription struct {
	ExportFromTime, ExportToTime seconds
	ExportViewType               string
}

// describe describes an export. The caller holds the Server's mu.
func (s *Server) describe(e *export) any {
	d := exportDescription{ExportArn: e.arn, ExportStatus: "IN_PROGRESS", StartTime: seconds(e.began), TableArn: e.table.arn(), TableId: e.table.id,
		ClientToken: e.token, S3Bucket: e.bucket, S3Prefix: e.prefix, S3SseAlgorithm: "AES256", ExportFormat: "DYNAMODB_JSON",
		BilledSizeBytes: e.bytes, ItemCount: e.items, ExportType: e.kind, FilterSpecification: e.filter}
	if e.kind == fullExport {
		at := seconds(e.to)
		d.ExportTime = &at
	} else {
		d.IncrementalExportSpecification = &windowDescription{seconds(e.from), seconds(e.to), e.view}
	}
	ended := seconds(e.ends)
	switch {
	case e.failure != "":
		d.ExportStatus, d.EndTime, d.FailureCode, d.FailureMessage = "FAILED", &ended, "UNKNOWN", e.failure
	case e.manifest != "":
		d.ExportStatus, d.EndTime, d.ExportManifest = "COMPLETED", &ended, e.manifest
	}
	return struct{ ExportDescription exportDescription }{d}
}

type exportRef struct{ ExportArn string }

func (r *exportRef) subject() (string, string) { return tableOfARN(r.ExportArn), "" }

func (s *Server) describeExport(req *exportRef) (any, error) {
	s.finishExports()
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, e := range s.exports {
		if e.arn == req.ExportArn {
			return s.describe(e), nil
		}
	}
	return nil, newError("ExportNotFoundException", "Export not found: "+req.ExportArn)
}

type listExportsRequest struct {
	TableArn   string
	MaxResults int
	NextToken  string
}

func (r *listExportsRequest) subject() (string, string) { return tableOfARN(r.TableArn), "" }

func (s *Server) listExports(req *listExportsRequest) (any, error) {
	type summary struct{ ExportArn, ExportStatus, ExportType string }
	out := struct {
		ExportSummaries []summary
		NextToken       string `json:",omitempty"`
	}{ExportSummaries: []summary{}}
	most := cmp.Or(req.MaxResults, 25)
	if most < 1 || most > 25 {
		return nil, validation("MaxResults must be between 1 and 25")
	}
	s.finishExports()
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, e := range s.exports {
		if req.TableArn != "" && e.table.arn() != req.TableArn || req.NextToken != "" && e.arn <= req.NextToken {
			continue
		}
		if len(out.ExportSummaries) == most {
			out.NextToken = out.ExportSummaries[most-1].ExportArn
			break
		}
		status := "IN_PROGRESS"
		if e.manifest != "" {
			status = "COMPLETED"
		}
		if e.failure != "" {
			status = "FAILED"
		}
		out.ExportSummaries = append(out.ExportSummaries, summary{e.arn, status, e.kind})
	}
	return out, nil
}

// finishExports writes the exports that are due.
func (s *Server) finishExports() {
	now := s.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.exports {
		if e.manifest != "" || e.failure != "" || e.ends.After(now) {
			continue
		}
		files, err := e.lines(uint64(s.opts.ExportFiles))
		if err == nil {
			err = e.write(s.objects, files)
		}
		if err != nil {
			e.failure = err.Error()
		}
	}
}

// dataFile is one data file: its lines and the number of items.
type dataFile struct {
	lines bytes.Buffer
	items int
}

// lines makes the content of count data files.
func (e *export) lines(count uint64) ([]dataFile, error) {
	e.table.mu.RLock()
	defer e.table.mu.RUnlock()
	h := e.table.history
	if h == nil {
		return nil, fmt.Errorf("point in time recovery was turned off")
	}
	files := make([]dataFile, count)
	for _, l := range h.order() {
		f := &files[l.key.hash%count]
		if e.kind == fullExport {
			image := l.at(e.to)
			if image == nil {
				continue
			}
			shown, err := e.shown(image)
			if err != nil {
				return nil, err
			}
			if shown != nil {
				fmt.Fprintf(&f.lines, "{\"Item\":%s}\n", shown)
				f.items++
			}
			continue
		}
		before, after, last, changed := l.within(e.from, e.to)
		if !changed {
			continue
		}
		fmt.Fprintf(&f.lines, `{"Metadata":{"WriteTimestampMicros":{"N":"%d"}},"Keys":%s`, last.UnixMicro(), attribute.AppendItem(nil, l.key.item))
		if before != nil && e.view != "NEW_IMAGE" {
			fmt.Fprintf(&f.lines, `,"OldImage":%s`, before.wire)
		}
		if after != nil {
			fmt.Fprintf(&f.lines, `,"NewImage":%s`, after.wire)
		}
		f.lines.WriteString("}\n")
		f.items++
	}
	return files, nil
}

// write writes the files of an export. The data of a full export goes to its own folder. The data
// of incremental exports goes to a folder that they share.
func (e *export) write(to *objects, files []dataFile) error {
	root := "AWSDynamoDB/"
	if e.prefix != "" {
		root = e.prefix + "/" + root
	}
	own := root + e.id + "/"
	data := own + "data/"
	if e.kind == incrementalExport {
		data = root + "data/"
	}
	if err := to.put(e.bucket, own+"_started", nil); err != nil {
		return err
	}
	var list []byte
	for i := range files {
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		if files[i].items > 0 { // the service writes an empty partition as an empty archive
			_, _ = z.Write(files[i].lines.Bytes()) // a write to memory cannot fail
		}
		if err := z.Close(); err != nil {
			return err
		}
		name := data + fileName(e.arn, i) + ".json.gz"
		if err := to.put(e.bucket, name, packed.Bytes()); err != nil {
			return err
		}
		e.items += files[i].items
		e.bytes += files[i].lines.Len()
		line, err := json.Marshal(struct {
			ItemCount   int    `json:"itemCount"`
			MD5Checksum string `json:"md5Checksum"`
			ETag        string `json:"etag"`
			DataFile    string `json:"dataFileS3Key"`
		}{files[i].items, checksum(packed.Bytes()), fmt.Sprintf("%x-1", md5.Sum(packed.Bytes())), name})
		if err != nil {
			return err
		}
		list = append(append(list, line...), '\n')
	}
	summary, err := json.Marshal(e.summary(own + "manifest-files.json"))
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{"manifest-files": list, "manifest-summary": summary} {
		if err := to.put(e.bucket, own+name+".json", content); err != nil {
			return err
		}
		if err := to.put(e.bucket, own+name+".md5", []byte(checksum(content))); err != nil {
			return err
		}
	}
	e.manifest = own + "manifest-summary.json"
	return nil
}

type exportSummary struct {
	Version        string  `json:"version"`
	ExportArn      string  `json:"exportArn"`
	StartTime      string  `json:"startTime"`
	EndTime        string  `json:"endTime"`
	TableArn       string  `json:"tableArn"`
	TableId        string  `json:"tableId"`
	ExportTime     string  `json:"exportTime,omitempty"`
	ExportFromTime string  `json:"exportFromTime,omitempty"`
	ExportToTime   string  `json:"exportToTime,omitempty"`
	Bucket         string  `json:"s3Bucket"`
	Prefix         *string `json:"s3Prefix"`
	SSEAlgorithm   string  `json:"s3SseAlgorithm"`
	SSEKey         *string `json:"s3SseKmsKeyId"`
	FilesKey       string  `json:"manifestFilesS3Key"`
	Billed         int     `json:"billedSizeBytes"`
	ItemCount      int     `json:"itemCount"`
	OutputFormat   string  `json:"outputFormat"`
	OutputView     string  `json:"outputView,omitempty"`
	ExportType     string  `json:"exportType,omitempty"`
}

func (e *export) summary(files string) exportSummary {
	const form = "2006-01-02T15:04:05.000Z"
	m := exportSummary{Version: "2020-06-30", ExportArn: e.arn, StartTime: e.began.UTC().Format(form), EndTime: e.ends.UTC().Format(form), TableArn: e.table.arn(),
		TableId: e.table.id, ExportTime: e.to.UTC().Format(form), Bucket: e.bucket, SSEAlgorithm: "AES256", FilesKey: files, Billed: e.bytes, ItemCount: e.items,
		OutputFormat: "DYNAMODB_JSON"}
	if e.prefix != "" {
		m.Prefix = &e.prefix
	}
	if e.kind == incrementalExport {
		m.Version, m.ExportTime, m.OutputView, m.ExportType = "2023-08-01", "", e.view, incrementalExport
		m.ExportFromTime, m.ExportToTime = e.from.UTC().Format(form), e.to.UTC().Format(form)
	}
	return m
}

func checksum(content []byte) string {
	sum := md5.Sum(content)
	return base64.StdEncoding.EncodeToString(sum[:])
}

// fileName returns a name of 26 characters, like the service's.
func fileName(arn string, i int) string {
	const alphabet = "abcdefghijklmnopqrstuvwxyz234567"
	sum := md5.Sum(fmt.Appendf(nil, "%s/%d", arn, i))
	name := slices.Repeat([]byte{'a'}, 26)
	for j := range name {
		name[j] = alphabet[sum[j%len(sum)]>>(j/len(sum)*3)&31]
	}
	return string(name)
}
