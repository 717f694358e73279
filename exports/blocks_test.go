package exports

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// TestLinesOfABlockAreReadAsSingleLines: a reader parses many lines of one text, and each gives the
// record or the error that ParseItem gives for the line alone. Some lines are longer than a block, and
// some only the strict parser accepts.
func TestLinesOfABlockAreReadAsSingleLines(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var lines []string
		for i := range 400 {
			pad := strings.Repeat("x", rng.IntN(2000))
			switch rng.IntN(60) {
			case 0:
				pad = strings.Repeat("x", rng.IntN(3*blockBytes))
			case 1: // deeper than the fast parser reads
				lines = append(lines, `{"Item":{"id":`+strings.Repeat(`{"M":{"a":`, 70)+`{"S":"x"}`+strings.Repeat(`}}`, 70)+`}}`)
				continue
			case 2:
				lines = append(lines, fmt.Sprintf(` { "It\u0065m" : {"pad":{"S":"\u00e9%s\n"},"id":{"N":"%d"}} } `, pad, i))
				continue
			case 3:
				lines = append(lines, fmt.Sprintf(`{"Item":{"id":{"N":"%d"},"a\"b":{"SS":["b","a"]},"list":{"L":[{"M":{"z":{"S":"1"},"y":{"S":"%s"}}}]}}}`, i, pad))
				continue
			}
			lines = append(lines, fmt.Sprintf(`{"Item":{"pad":{"S":"%s"},"id":{"N":"%d"},"kind":{"S":"é"}}}`, pad, i))
		}
		if broken := rng.IntN(800); broken < len(lines) {
			lines[broken] = []string{"", " ", `{"Item":{"id":{"S":"a"}}`, `{"Item":{}}`, `{"Item":{"id":{"S":"a"}},"Item":{"id":{"S":"a"}}}`, `{"Item":{"id":{"S":"a"}}}}`,
				`{"Item":{"id":{"S":"a"}},"Other":{}}`, `{"Item":{"id":{"S":"a"},"id":{"S":"b"}}}`, `{"Keys":{"id":{"S":"a"}}}`, "{"}[rng.IntN(10)]
		}
		r, err := read(t, objects{}, full("1", strings.Join(lines, "\n")+"\n")).Open(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		for n := 0; n <= len(lines); n++ {
			if n < len(lines) && rng.IntN(10) == 0 {
				if err := r.Skip(1); err != nil {
					t.Fatal(err)
				}
				continue
			}
			got, err := r.Next()
			if n == len(lines) {
				if err != io.EOF {
					t.Errorf("seed %d: at the end: %v", seed, err)
				}
				break
			}
			want, refused := ParseItem([]byte(lines[n]))
			if (err == nil) != (refused == nil) || !got.New.Equal(want.New) {
				t.Fatalf("seed %d, line %d: %v, alone %v", seed, n+1, err, refused)
			}
			if oracle := itemOf(lines[n]); oracle.Exists() && !got.New.Equal(oracle) {
				t.Fatalf("seed %d, line %d: another item than the strict decoder's", seed, n+1)
			}
			if err != nil {
				break
			}
		}
	}
}

// itemOf decodes a plain line with the strict decoder.
func itemOf(line string) attribute.Item {
	text, plain := strings.CutPrefix(line, `{"Item":`)
	if !plain {
		return attribute.Item{}
	}
	item, err := attribute.UnmarshalItem([]byte(strings.TrimSuffix(text, "}")))
	if err != nil {
		return attribute.Item{}
	}
	return item
}

// TestChecksum: a file with the checksum of its manifest is accepted without decompressing it, and
// gives no records afterwards. The failure of a store is no fault of the file.
func TestChecksum(t *testing.T) {
	o := objects{}
	e := read(t, o, full("1", hat, scarf))
	check := func() (*Reader, error) {
		r, err := e.Open(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		return r, r.Checksum()
	}
	r, err := check()
	if _, next := r.Next(); err != nil || next != io.EOF {
		t.Errorf("%v, then %v", err, next)
	}
	var fault *Error
	e.store = failing{o, 30}
	if _, err = check(); !errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &fault) {
		t.Errorf("of a store that fails: %v", err)
	}
	e.store = o
	o["1/data/1-0.json.gz"] = packed(t, scarf)
	r, err = check()
	if _, next := r.Next(); !errors.As(err, &fault) || next != err || r.Checksum() != err {
		t.Errorf("of another file: %v, then %v", err, next)
	}
}
