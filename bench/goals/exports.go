package main

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/exports"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// tiny is an item of about 100 bytes in five attributes, of which the reading of an export costs most beside its write.
var tiny = shape{"100 bytes", 1000, 1, func(n int) string {
	return fmt.Sprintf(`{"pk":{"S":"order#%08d"},"total":{"N":"%d.25"},"created":{"N":"17321%05d"},"state":{"S":"shipped"},"customer":{"S":"customer %020d"}}`, n, n, n, n)
}}

// exportedAt is the time of the export that is read.
var exportedAt = time.Unix(1_732_175_999, 0).UTC()

// objects is a folder of exports in memory.
type objects map[string][]byte

func (o objects) Open(_ context.Context, name string) (io.ReadCloser, error) {
	content, ok := o[name]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(bytes.NewReader(content)), nil
}

const exportedFile = "1/data/a.json.gz"

// prose gives the letters of words from a vocabulary of 2,000, so that texts are about as compressible as real ones.
func prose() func() byte {
	rng, words, word := rand.New(rand.NewPCG(1, 1)), make([]string, 2000), ""
	for i := range words {
		for range 2 + rng.IntN(8) {
			words[i] += string("eeetaoinshrdlucmfw"[rng.IntN(18)])
		}
		words[i] += " "
	}
	return func() byte {
		if word == "" {
			word = words[int(float64(len(words))*math.Pow(rng.Float64(), 3))] // some words are frequent
		}
		first := word[0]
		word = word[1:]
		return first
	}
}

// exportOf is an export of one file, whose items have their attributes in the order of the shape.
func exportOf(ctx context.Context, s shape, items int) (*exports.Export, objects, error) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	text := prose()
	for n := range items {
		line := []byte(`{"Item":` + s.item(n) + "}\n")
		for i := range line {
			if line[i] == 'x' {
				line[i] = text()
			}
		}
		if _, err := z.Write(line); err != nil {
			return nil, nil, err
		}
	}
	if err := z.Close(); err != nil {
		return nil, nil, err
	}
	const arn = "arn:aws:dynamodb:eu-west-1:1:table/Orders"
	sum := md5.Sum(packed.Bytes())
	o := objects{exportedFile: packed.Bytes()}
	for name, content := range map[string]any{
		"1/manifest-files.json": map[string]any{"itemCount": items, "md5Checksum": base64.StdEncoding.EncodeToString(sum[:]), "etag": "-1", "dataFileS3Key": "AWSDynamoDB/" + exportedFile},
		"1/manifest-summary.json": map[string]any{"version": "2020-06-30", "exportTime": exportedAt.Format(time.RFC3339), "exportArn": arn + "/export/1", "tableArn": arn, "tableId": "id",
			"outputFormat": "DYNAMODB_JSON", "itemCount": items, "billedSizeBytes": 0, "manifestFilesS3Key": "AWSDynamoDB/1/manifest-files.json"},
	} {
		text, err := json.Marshal(content)
		if err != nil {
			return nil, nil, err
		}
		o[name] = append(text, '\n')
	}
	e, err := exports.Read(ctx, o, "1")
	return e, o, err
}

// mapExport reads the only file of an export as a load does, until it has so many items, and maps them. It returns the first page.
func mapExport(ctx context.Context, e *exports.Export, items int) (first transform.Batch, err error) {
	source, read := &backfill.Exported{Steps: []exports.Step{{Export: e, Version: e.At}}, Verify: true}, 0
	var after json.RawMessage
	for read < items {
		page, err := source.Read(ctx, 0, 1, after, 0)
		if err != nil || len(page.Items) == 0 {
			return first, errors.Join(err, fmt.Errorf("%d of %d items", read, items))
		}
		batch := transform.Load(orders, page.Items, 1, e.At)
		if read == 0 {
			first = batch
		}
		read, after = read+len(page.Items), page.Next
	}
	return first, source.Close()
}

// exporting is the reading of an export's file beside the bulk requests of the same items. The file is read as a load reads it,
// which compares its checksum before its first item.
func exporting(ctx context.Context, b *bench) error {
	for _, s := range []shape{tiny, shapes[0], shapes[1]} {
		row := "read an export, " + s.name
		if b.skips(row) {
			continue
		}
		items := b.times(60_000 / s.cost)
		e, o, err := exportOf(ctx, s, items)
		if err != nil {
			return err
		}
		t, err := startTarget(ctx, 0)
		if err != nil {
			return err
		}
		defer t.close()
		batch, err := mapExport(ctx, e, s.records)
		if err != nil {
			return err
		}
		writer, stamps := sink.NewWriter(sink.Options{Table: t.ours, Parking: noParking{}}), proved(ctx)
		copies := max(1, items/len(batch.Rows))
		mark := sink.Marker{Generation: 1, Load: 1, At: exportedAt.UnixMicro()}
		costs, err := b.measure(
			way{"gunzip", func() (int, error) {
				z, err := gzip.NewReader(bytes.NewReader(o[exportedFile]))
				if err != nil {
					return 0, err
				}
				_, err = io.Copy(io.Discard, z)
				return items, err
			}},
			way{"parse", func() (int, error) {
				r, err := e.Open(ctx, 0)
				for err == nil {
					_, err = r.Next()
				}
				if !errors.Is(err, io.EOF) {
					return 0, err
				}
				return items, r.Close()
			}},
			way{"map", func() (int, error) {
				_, err := mapExport(ctx, e, items)
				return items, err
			}},
			way{"bulk requests", func() (int, error) {
				n, err := inFlight(4, copies, func(int) error {
					again := batch
					again.Rows = append([]transform.RowMutation(nil), batch.Rows...)
					return writer.Copy(ctx, stamps, mark, &again)
				})
				return n * len(batch.Rows), err
			}})
		if err != nil {
			return err
		}
		b.ratio(row+", gunzip / bulk requests", "CPU", cpu, costs[0], costs[3], goal{})
		b.ratio(row+", and parse / bulk requests", "CPU", cpu, costs[1], costs[3], goal{})
		b.ratio(row+", and map / bulk requests", "CPU", cpu, costs[2], costs[3], atMost(1.67))
	}
	return nil
}
