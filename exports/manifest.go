package exports

import (
	"bufio"
	"bytes"
	"context"
	"crypto/md5"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"
)

// These limits of manifests are far above the size for any table, because an export has one file
// per partition.
const (
	mostSummary  = 1 << 20
	mostFileLine = 64 << 10
	mostFiles    = 1 << 20
)

// Versions of manifests.
const (
	fullVersion        = "2020-06-30"
	incrementalVersion = "2023-08-01"
	incrementalType    = "INCREMENTAL_EXPORT"
	fullType           = "FULL_EXPORT"
)

type summary struct {
	Version        string `json:"version"`
	ExportARN      string `json:"exportArn"`
	ExportType     string `json:"exportType"`
	TableARN       string `json:"tableArn"`
	TableID        string `json:"tableId"`
	ExportTime     string `json:"exportTime"`
	ExportFromTime string `json:"exportFromTime"`
	ExportToTime   string `json:"exportToTime"`
	FilesKey       string `json:"manifestFilesS3Key"`
	Billed         int64  `json:"billedSizeBytes"`
	ItemCount      *int64 `json:"itemCount"`
	OutputFormat   string `json:"outputFormat"`
	OutputView     string `json:"outputView"`
}

// Read reads the manifests of the export in a folder of a store, and checks them against each
// other. The error is *Error if the export is incomplete, or of a kind that cannot be loaded.
func Read(ctx context.Context, store Store, folder string) (*Export, error) {
	e := &Export{store: store, folder: folder}
	if err := e.readSummary(ctx); err != nil {
		return nil, err
	}
	if err := e.readFiles(ctx); err != nil {
		return nil, err
	}
	return e, nil
}

func (e *Export) readSummary(ctx context.Context) error {
	name := path.Join(e.folder, summaryName)
	content, err := e.small(ctx, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &Error{Place: name, What: "there is no such file; DynamoDB writes it last, when an export is complete",
			Fix: "name the export's own folder, …/AWSDynamoDB/<export id>; if this is the folder, wait until the export is complete"}
	case err != nil:
		return err
	}
	fault := func(what, fix string) error { return &Error{Place: name, What: what, Fix: fix} }
	var members map[string]json.RawMessage
	var s summary
	if json.Unmarshal(content, &members) != nil || json.Unmarshal(content, &s) != nil || s.ItemCount == nil {
		return fault("it is not a summary of an export, or it is cut short", again)
	}
	if part := partial(members); part != "" {
		return fault("the export is filtered, because the summary has "+part, "export the whole table, without filter, projection or key conditions")
	}
	if s.OutputFormat != "DYNAMODB_JSON" {
		return fault(fmt.Sprintf("the export has the format %q, but only DynamoDB JSON can be read", s.OutputFormat), native)
	}
	if err := e.take(s); err != nil {
		return fault(err.Error(), again)
	}
	if own, ok := strings.CutSuffix(s.FilesKey, "/"+filesName); s.FilesKey != "" && (!ok || path.Base(own) != e.ID()) {
		return fault("it names the file list of another export", again)
	}
	return nil
}

// partial returns the member of a summary that limits the export to a part of the table; "" if
// there is no such member. An export without a filter may have such members with the value null.
func partial(members map[string]json.RawMessage) string {
	for _, word := range []string{"filter", "projection", "keycondition"} {
		for _, name := range sorted(members) {
			if strings.Contains(strings.ToLower(name), word) && !bytes.Equal(members[name], []byte("null")) {
				return name
			}
		}
	}
	return ""
}

// take copies the content of a summary, if its kind is known.
func (e *Export) take(s summary) (err error) {
	e.ARN, e.TableARN, e.TableID = s.ExportARN, s.TableARN, s.TableID
	e.Items, e.Bytes = *s.ItemCount, s.Billed
	e.Incremental = s.ExportType == incrementalType
	switch {
	case !strings.HasPrefix(e.ARN, e.TableARN+"/export/") || !strings.Contains(e.TableARN, ":table/") || e.ID() == "":
		return errors.New("the ARNs of export and table do not match")
	case e.Items < 0:
		return errors.New("the number of items is below zero")
	case s.ExportType != "" && s.ExportType != fullType && !e.Incremental:
		return fmt.Errorf("the export has an unknown type, %q", s.ExportType)
	case s.Version != fullVersion && s.Version != incrementalVersion:
		return fmt.Errorf("the export's summary has an unknown version, %q", s.Version)
	}
	if !e.Incremental {
		e.At, err = instant("exportTime", s.ExportTime)
		return err
	}
	switch e.View = View(s.OutputView); e.View {
	case ViewNew, ViewNewAndOld:
	case viewNewDocumented:
		e.View = ViewNew
	default:
		return fmt.Errorf("the export has an unknown output view, %q", s.OutputView)
	}
	if e.From, err = instant("exportFromTime", s.ExportFromTime); err != nil {
		return err
	}
	if e.At, err = instant("exportToTime", s.ExportToTime); err == nil && !e.From.Before(e.At) {
		err = errors.New("the incremental export ends before it begins")
	}
	return err
}

func instant(name, text string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || at.Unix() <= 0 {
		return time.Time{}, fmt.Errorf("%s is missing, or not a time", name)
	}
	return at.UTC(), nil
}

type fileLine struct {
	ItemCount *int64 `json:"itemCount"`
	MD5       string `json:"md5Checksum"`
	Key       string `json:"dataFileS3Key"`
}

func (e *Export) readFiles(ctx context.Context) error {
	name := path.Join(e.folder, filesName)
	in, err := e.store.Open(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return &Error{Place: name, What: "there is no such file", Fix: again}
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", name, err)
	}
	defer func() { _ = in.Close() }() // it was only read
	origin, sum := &origin{in: in}, md5.New()
	lines := bufio.NewReaderSize(io.TeeReader(origin, sum), mostFileLine)
	known, items := map[string]bool{}, int64(0)
	for n := int64(1); ; n++ {
		line, err := lines.ReadSlice('\n')
		if origin.err != nil {
			return fmt.Errorf("read %s: %w", name, origin.err)
		}
		if err == io.EOF && len(line) == 0 {
			break
		}
		fault := func(what string) error { return &Error{Place: name, Line: n, What: what, Fix: again} }
		if err == bufio.ErrBufferFull || n > mostFiles {
			return fault(fmt.Sprintf("a file list has at most %d lines of %d bytes", mostFiles, mostFileLine))
		}
		f, err := e.file(line)
		switch {
		case err != nil:
			return fault(err.Error())
		case known[f.Name]:
			return fault("a data file is listed twice")
		}
		known[f.Name] = true
		items += f.Items
		e.Files = append(e.Files, f)
	}
	if err := e.companion(ctx, name, [16]byte(sum.Sum(nil))); err != nil {
		return err
	}
	if items != e.Items {
		return &Error{Place: name, What: fmt.Sprintf("the files have %d items together, but the summary counts %d", items, e.Items), Fix: again}
	}
	if len(e.Files) == 0 && !e.Incremental { // a table has at least one partition, but a window may have no change
		return &Error{Place: name, What: "it lists no files", Fix: again}
	}
	return nil
}

func (e *Export) file(text []byte) (f File, err error) {
	var line fileLine
	if json.Unmarshal(text, &line) != nil || line.ItemCount == nil || *line.ItemCount < 0 || line.Key == "" {
		return f, errors.New("the line does not describe a data file, or it is cut short")
	}
	sum, err := base64.StdEncoding.DecodeString(line.MD5)
	if err != nil || len(sum) != md5.Size {
		return f, errors.New("the data file's md5Checksum is not valid")
	}
	f = File{Items: *line.ItemCount, MD5: [16]byte(sum)}
	f.Name, err = e.resolve(line.Key)
	return f, err
}

// small reads a whole manifest into memory, and checks it.
func (e *Export) small(ctx context.Context, name string) ([]byte, error) {
	content, err := e.whole(ctx, name)
	if err != nil {
		return nil, err
	}
	return content, e.companion(ctx, name, md5.Sum(content))
}

func (e *Export) whole(ctx context.Context, name string) ([]byte, error) {
	in, err := e.store.Open(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	defer func() { _ = in.Close() }() // it was only read
	content, err := io.ReadAll(io.LimitReader(in, mostSummary+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if len(content) > mostSummary {
		return nil, &Error{Place: name, What: fmt.Sprintf("it has more than %d bytes", mostSummary), Fix: again}
	}
	return content, nil
}

// companion checks a manifest against its checksum file, if that file was copied too. The name ends
// with .md5 in real exports, and with .checksum in their documentation.
func (e *Export) companion(ctx context.Context, name string, sum [16]byte) error {
	for _, ending := range []string{".md5", ".checksum"} {
		beside := strings.TrimSuffix(name, ".json") + ending
		content, err := e.whole(ctx, beside)
		// S3 denies access to a missing object if the caller may not list the bucket.
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			continue
		}
		if err != nil {
			return err
		}
		text := string(bytes.TrimSpace(content))
		if text != base64.StdEncoding.EncodeToString(sum[:]) && !strings.EqualFold(text, hex.EncodeToString(sum[:])) {
			return &Error{Place: name, What: "its checksum differs from " + path.Base(beside), Fix: again}
		}
	}
	return nil
}

// origin records why a read from the store failed. Decompression alone reports a broken connection
// and a truncated file in the same way.
type origin struct {
	in  io.Reader
	err error
}

func (o *origin) Read(b []byte) (int, error) {
	n, err := o.in.Read(b)
	if err != nil && err != io.EOF {
		o.err = err
	}
	return n, err
}
