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

// mapExport reads the only file of an export as a load does, until it has so many items, and maps them.
func mapExport(ctx context.Context, e *exports.Export, items int) (read int, err error) {
	source := &backfill.Exported{Steps: []exports.Step{{Export: e, Version: e.At}}, Verify: true}
	var after json.RawMessage
	for read < items {
		page, err := source.Read(ctx, 0, 1, after, 0)
		if err != nil || len(page.Items) == 0 {
			return read, errors.Join(err, fmt.Errorf("%d of %d items", read, items))
		}
		_ = transform.Load(orders, page.Items, 1, e.At)
		read, after = read+len(page.Items), page.Next
	}
	return read, source.Close()
}

// exporting is the reading of an export's file beside a fast load of items that were read already. The file is read as a load reads it,
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
		page, err := (&backfill.Exported{Steps: []exports.Step{{Export: e, Version: e.At}}}).Read(ctx, 0, 1, nil, 0)
		if err != nil {
			return err
		}
		writer, stamps := sink.NewWriter(sink.Options{Table: t.ours, Parking: noParking{}}), proved(ctx)
		list, copies := page.Items, max(1, items/len(page.Items))
		marker := sink.Marker{Generation: 1, Load: 1, At: exportedAt.UnixMicro()}
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
				return mapExport(ctx, e, items)
			}},
			way{"fast load", func() (int, error) {
				n, err := inFlight(4, copies, func(int) error {
					batch := transform.Load(orders, list, 1, exportedAt)
					return writer.Copy(ctx, stamps, marker, &batch)
				})
				return n * len(list), err
			}})
		if err != nil {
			return err
		}
		b.ratio(row+", gunzip / fast load", "CPU", cpu, costs[0], costs[3], goal{})
		b.ratio(row+", and parse / fast load", "CPU", cpu, costs[1], costs[3], goal{})
		b.ratio(row+", and map / fast load", "CPU", cpu, costs[2], costs[3], atMost(1.67))
	}
	return nil
}
