package itemfile

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// exported is a line of an export with every type that DynamoDB has.
const exported = `{"Item":{"pk":{"S":"hats"},"n":{"N":"-99999999999999999999999999999999999999"},"b":{"B":"AP8QIA=="},"t":{"BOOL":false},"u":{"NULL":true},` +
	`"ss":{"SS":["a","é"]},"ns":{"NS":["1","2.5"]},"bs":{"BS":["AA==","/w=="]},"l":{"L":[{"S":""},{"L":[]}]},"m":{"M":{"Item":{"M":{}},"with.dot":{"N":"0"}}}}}` + "\n"

func packed(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(text)) // a buffer takes everything
	_ = w.Close()
	return b.String()
}

func TestRead(t *testing.T) {
	item, err := attribute.UnmarshalItem([]byte(strings.TrimSuffix(strings.TrimPrefix(exported, `{"Item":`), "}\n")))
	if err != nil || len(item.Attributes()) != 10 {
		t.Fatal(err)
	}
	plain := strings.TrimSuffix(strings.TrimPrefix(exported, `{"Item":`), "}\n")
	for name, c := range map[string]struct {
		text         string
		limit, items int
	}{
		"export":                     {strings.Repeat(exported, 3), 0, 3},
		"export, packed":             {packed(strings.Repeat(exported, 3)), 0, 3},
		"members of gzip":            {packed(exported) + packed(exported), 0, 2},
		"a limit":                    {packed(strings.Repeat(exported, 3)), 2, 2},
		"a limit in a cut file":      {exported + exported[:20], 1, 1},
		"plain":                      {plain + plain, 0, 2},
		"scan":                       {`{"Items":[` + plain + "," + plain + `],"Count":2,"ScannedCount":2,"ConsumedCapacity":null}`, 0, 2},
		"a limit in a scan":          {`{"Items":[` + plain + "," + plain + `],"Count":2}`, 1, 1},
		"get-item":                   {`{"Item":` + plain + `,"ConsumedCapacity":{"CapacityUnits":1}}`, 0, 1},
		"an attribute of that name":  {`{"Item":{"S":"x"}}{"Items":{"L":[]}}{"item":{"M":{}}}`, 0, 3},
		"an attribute like metadata": {`{"Keys":{"S":"x"},"Metadata":{"M":{}}}`, 0, 1},
		"nothing":                    {" \n", 0, 0},
	} {
		items, err := Read(iotest.OneByteReader(strings.NewReader(c.text)), c.limit)
		if err != nil || len(items) != c.items {
			t.Errorf("%s: %d items, %v", name, len(items), err)
			continue
		}
		for _, i := range items {
			if !strings.HasPrefix(name, "an attribute") && !i.Equal(item) {
				t.Errorf("%s: another item", name)
			}
		}
	}
}

// What cannot be read is said, without item data.
func TestReadRefuses(t *testing.T) {
	for text, want := range map[string]string{
		`$ion_1_0 {Item:{pk:"hats",n:1.}}`:    "it is Amazon Ion",
		packed(`$ion_1_0 {Item:{pk:"hats"}}`): "it is Amazon Ion",
		"\xe0\x01\x00\xea\x00":                "it is Amazon Ion",
		`{"Metadata":{"WriteTimestampMicros":{"N":"1"}},"Keys":{"pk":{"S":"secret"}}}`: "it is an incremental export",
		exported + `{"Item":{"pk":{"S":"sec`:                                           "entry 2 is not JSON, or it is cut off",
		exported + `{"pk":"secret"}`:                                                   "entry 2: not DynamoDB JSON: at byte 6: ",
		`{"Items":[{"pk":"secret"}]}`:                                                  "entry 1: not DynamoDB JSON",
		`{}`:                                                                           "entry 1: an item without attributes",
		`hats,fedoras`:                                                                 "entry 1 is not JSON",
		packed(exported)[:40]:                                                          "entry 1 is not JSON, or it is cut off",
		"\x1f\x8bx":                                                                    "it is damaged",
		strings.Repeat(" ", maxBytes+2):                                                "it has more than 64 MiB",
	} {
		items, err := Read(strings.NewReader(text), 0)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(fmt.Sprint(err), "secret") {
			t.Errorf("%.60q: %d items, %v, want %s", text, len(items), err, want)
		}
	}
	var known *FormatError
	if _, err := Read(strings.NewReader("$ion_1_0 "), 0); !errors.As(err, &known) || !strings.Contains(known.Fix, "DYNAMODB_JSON") {
		t.Errorf("%v", err)
	}
}
