package itemfile

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf16"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// exported is a line of an export with every type of DynamoDB.
const exported = `{"Item":{"pk":{"S":"hats"},"n":{"N":"-99999999999999999999999999999999999999"},"b":{"B":"AP8QIA=="},"t":{"BOOL":false},"u":{"NULL":true},` +
	`"ss":{"SS":["a","é"]},"ns":{"NS":["1","2.5"]},"bs":{"BS":["AA==","/w=="]},"l":{"L":[{"S":""},{"L":[]}]},"m":{"M":{"Item":{"M":{}},"with.dot":{"N":"0"}}}}}` + "\n"

// mark is the byte order mark in UTF-8.
const mark = "\xef\xbb\xbf"

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
		"no byte":                    {"", 0, 0},
		"a mark alone":               {"\xef\xbb\xbf", 0, 0},
		"lines of Windows":           {strings.ReplaceAll(exported+exported, "\n", "\r\n"), 0, 2},
		"a mark":                     {mark + exported + exported, 0, 2},
		"a mark, packed":             {packed(mark + exported), 0, 1},
		"a mark a line":              {strings.Repeat(mark+exported, 3), 0, 3},
		"a list":                     {"[" + plain + ",\r\n " + plain + "]\n", 0, 2},
		"a limit in a list":          {"[" + plain + "," + plain + "]", 1, 1},
		"an empty list":              {"[]", 0, 0},
		"lists":                      {"[" + plain + "][" + exported + "][]", 0, 2},
		"pages of a scan":            {strings.Repeat(`{"Count":1,"Items": [`+plain+`]}`, 2), 0, 2},
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

// A file reads the same in every encoding of Unicode, with and without a byte order mark.
func TestReadDecodes(t *testing.T) {
	const text = `{"pk":{"S":"é 語 🎩 ` + mark + `"}}` + "\r\n"
	want, err := Read(strings.NewReader(text), 0)
	if s, _ := want[0].Get("pk"); err != nil || s.Text() != "é 語 🎩 "+mark {
		t.Fatalf("a mark that is data is gone: %v", err)
	}
	wide, narrow := []rune(text+text), utf16.Encode([]rune(text+text))
	for name, encode := range map[string]func(order binary.AppendByteOrder, marked bool) []byte{
		"UTF-16": func(order binary.AppendByteOrder, marked bool) (b []byte) {
			for _, unit := range narrow {
				b = order.AppendUint16(b, unit)
			}
			return append(order.AppendUint16(nil, 0xfeff)[:2*truth(marked)], b...)
		},
		"UTF-32": func(order binary.AppendByteOrder, marked bool) (b []byte) {
			for _, r := range wide {
				b = order.AppendUint32(b, uint32(r))
			}
			return append(order.AppendUint32(nil, 0xfeff)[:4*truth(marked)], b...)
		},
	} {
		for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
			for _, marked := range []bool{true, false} {
				encoded := string(encode(order, marked))
				for _, file := range []string{encoded, packed(encoded)} {
					items, err := Read(iotest.OneByteReader(strings.NewReader(file)), 0)
					if err != nil || len(items) != 2 || !items[0].Equal(want[0]) || !items[1].Equal(want[0]) {
						t.Errorf("%s, %v, marked %t: %d items, %v", name, order, marked, len(items), err)
					}
				}
			}
		}
	}
}

func truth(is bool) int {
	if is {
		return 1
	}
	return 0
}

// A single entry above the size limit is reported with advice to split it, because showing fewer
// items would not help.
func TestReadTooLarge(t *testing.T) {
	large := `[{"pk":{"S":"` + strings.Repeat("x", maxBytes) + `"}}]`
	var known *FormatError
	if _, err := Read(strings.NewReader(large), 1); !errors.As(err, &known) || !strings.Contains(known.Fix, "one item a line") {
		t.Errorf("%v", err)
	}
	if _, err := Read(strings.NewReader(exported+strings.Repeat(" ", maxBytes)), 0); !errors.Is(err, ErrTooLarge) {
		t.Errorf("%v", err)
	}
}

// An item whose attributes have the names of answers counts as an item.
func TestAttributesLikeAnswers(t *testing.T) {
	const text = `{"Responses":{"L":[{"S":"x"}]},"Records":{"L":[]}}{"Responses":{"M":{}}}{"Responses":{"SS":["x"]},"Records":{"S":"a"}}`
	if items, err := Read(strings.NewReader(text), 0); err != nil || len(items) != 3 {
		t.Errorf("%d items, %v", len(items), err)
	}
}

// Unreadable input is reported without item data.
func TestReadRefuses(t *testing.T) {
	for text, want := range map[string]string{
		`$ion_1_0 {Item:{pk:"hats",n:1.}}`:    "it is Amazon Ion",
		packed(`$ion_1_0 {Item:{pk:"hats"}}`): "it is Amazon Ion",
		"\xe0\x01\x00\xea\x00":                "it is Amazon Ion",
		`{"Metadata":{"WriteTimestampMicros":{"N":"1"}},"Keys":{"pk":{"S":"secret"}}}`:   "it is an incremental export",
		exported + `{"Item":{"pk":{"S":"sec`:                                             "entry 2 is cut off",
		exported + `{"pk":"secret"}`:                                                     "entry 2: JSON without DynamoDB's types",
		`{"Items":[{"pk":"secret"}]}`:                                                    "entry 1, item 1: JSON without DynamoDB's types",
		`[{"pk":{"S":"a"}},[{"pk":{"S":7}}]]`:                                            "entry 1, item 2, item 1: not DynamoDB JSON: at byte 11: ",
		`{"Responses":{"Orders":[{"pk":{"S":"secret"}}]},"UnprocessedKeys":{}}`:          "entry 1: it is the answer of BatchGetItem",
		`{"Responses":[{"Item":{"pk":{"S":"secret"}}}]}`:                                 "entry 1: it is the answer of TransactGetItems",
		`{"Records":[{"eventName":"INSERT","dynamodb":{"Keys":{"pk":{"S":"secret"}}}}]}`: "entry 1: it is a stream event",
		`{"pk":{"S":"a"},"n":5}`:                                                         "entry 1: not DynamoDB JSON: at byte 20: ",
		`[1,2]`:                                                                          "entry 1, item 1: not DynamoDB JSON",
		exported + "\x00":                                                                "entry 2: it contains a NUL byte",
		exported + `{"pk":{"S":"secr` + "\x00et":                                         "entry 2: it contains a NUL byte",
		packed(packed(exported)):                                                         "it is compressed with gzip twice",
		"PK\x03\x04\x14":                                                                 "it is a zip archive",
		"PAR1\x15":                                                                       "it is Apache Parquet",
		"\xff\xfe{\x00\x00\xd8}\x00":                                                     "entry 1: it is damaged: it begins as UTF-16",
		"\xff\xfe{\x00\x00\xd8":                                                          "entry 1 is cut off",
		"\xfe\xff\x00{\x00":                                                              "entry 1 is cut off",
		"\x00\x00\x00{\x00\x11\x00\x00":                                                  "entry 1: it is damaged: it begins as UTF-32",
		`{}`:                                                                             "entry 1: an item without attributes",
		`hats,fedoras`:                                                                   "entry 1 is not JSON",
		packed(exported)[:40]:                                                            "entry 1 is cut off",
		"\x1f\x8bx":                                                                      "it is damaged",
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
