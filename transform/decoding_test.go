package transform

import (
	"errors"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// A cell is read only as a value of a type that the attribute can have.
func TestDecodeCells(t *testing.T) {
	s, n, b, boolean, null, m, list := attribute.KindS, attribute.KindN, attribute.KindB, attribute.KindBOOL, attribute.KindNULL, attribute.KindM, attribute.KindL
	ss, ns, bs := attribute.KindSS, attribute.KindNS, attribute.KindBS
	kinds := KindsOf
	for _, c := range []struct {
		as   Encoding
		cell string
		seen Seen
		want string // DynamoDB JSON or the error
	}{
		{AsDefault, "", Seen{Kinds: kinds(s)}, `{"S":""}`},
		{AsDefault, "12", Seen{Kinds: kinds(s)}, `{"S":"12"}`},
		{AsDefault, "\xff", Seen{Kinds: kinds(s)}, string(errNotText)},
		{AsDefault, "\xff", Seen{Kinds: kinds(b)}, `{"B":"/w=="}`},
		{AsDefault, "+012.50", Seen{Kinds: kinds(n)}, `{"N":"12.5"}`},
		{AsDefault, "+012.50", Seen{Kinds: kinds(n, null)}, `{"N":"12.5"}`},
		{AsDefault, "1e126", Seen{Kinds: kinds(n)}, string(errNotDecimal)},
		{AsDefault, "null", Seen{Kinds: kinds(n, null)}, `{"NULL":true}`},
		{AsDefault, "null", Seen{Kinds: kinds(n)}, string(errNotDecimal)},
		{AsDefault, "12", Seen{Kinds: kinds(boolean)}, string(errOtherType)},
		{AsDefault, "false", Seen{Kinds: kinds(boolean)}, `{"BOOL":false}`},
		{AsDefault, "true false", Seen{Kinds: kinds(boolean)}, string(errNotJSON)},
		{AsDefault, "", Seen{Kinds: kinds(boolean)}, string(errNotJSON)},
		{AsDefault, `["a","b"]`, Seen{kinds(list), kinds(s)}, `{"L":[{"S":"a"},{"S":"b"}]}`},
		{AsDefault, `["a","b"]`, Seen{Kinds: kinds(ss)}, `{"SS":["a","b"]}`},
		{AsDefault, `["a","b"]`, Seen{Kinds: kinds(ns)}, string(errNotSet)},
		{AsDefault, `["a","a"]`, Seen{Kinds: kinds(ss)}, string(errNotSet)},
		{AsDefault, `[]`, Seen{Kinds: kinds(ss)}, string(errNotSet)},
		{AsDefault, `[]`, Seen{Kinds: kinds(list)}, `{"L":[]}`},
		{AsDefault, `[1,0.5]`, Seen{Kinds: kinds(ns)}, `{"NS":["0.5","1"]}`},
		{AsDefault, `["/w=="]`, Seen{Kinds: kinds(bs)}, `{"BS":["/w=="]}`},
		{AsDefault, `["/w="]`, Seen{Kinds: kinds(bs)}, string(errNotBase64)},
		{AsDefault, `{"a":["/w=="]}`, Seen{kinds(m), kinds(b, list)}, `{"M":{"a":{"L":[{"B":"/w=="}]}}}`},
		{AsDefault, `{"a":["x"]}`, Seen{kinds(m), kinds(ss)}, `{"M":{"a":{"SS":["x"]}}}`},
		{AsDefault, `{"a":1,"a":1}`, Seen{Kinds: kinds(m)}, string(errRepeated)},
		{AsDefault, `{"a":1`, Seen{Kinds: kinds(m)}, string(errNotJSON)},
		{AsDefault, `{"a":1e200}`, Seen{Kinds: kinds(m)}, string(errNotDecimal)},
		{AsDefault, `[1,]`, Seen{Kinds: kinds(list)}, string(errNotJSON)},
		{AsDefault, `]`, Seen{Kinds: kinds(list)}, string(errNotJSON)},
		{AsDefault, "[\"\xff\"]", Seen{Kinds: kinds(list)}, string(errNotText)},
		{AsDefault, strings.Repeat("[", 1_000_000), Seen{Kinds: kinds(list)}, string(errTooDeep)},
		{AsDefault, "x", Seen{}, string(errNoType)},
		{AsDefault, "x", Seen{Kinds: kinds(s, null)}, string(errTwoTypes)},
		{AsDefault, "{}", Seen{kinds(m), kinds(s, b)}, string(errTwoTypes)},
		{AsText, "/w==", Seen{Kinds: kinds(b)}, `{"B":"/w=="}`},
		{AsText, "/x==", Seen{Kinds: kinds(b)}, string(errNotBase64)},
		{AsText, "/w==", Seen{Kinds: kinds(s)}, `{"S":"/w=="}`},
		{AsBytes, "\xff", Seen{Kinds: kinds(b)}, `{"B":"/w=="}`},
		{AsBytes, "12", Seen{Kinds: kinds(s)}, `{"S":"12"}`},
		{AsBytes, "12", Seen{Kinds: kinds(n)}, string(errOtherType)},
		{AsJSON, `"a"`, Seen{Kinds: kinds(s, n, null)}, `{"S":"a"}`},
		{AsJSON, `"/w=="`, Seen{Kinds: kinds(b)}, `{"B":"/w=="}`},
		{AsJSON, `1`, Seen{Kinds: kinds(s)}, string(errOtherType)},
		{AsJSON, `a`, Seen{Kinds: kinds(s)}, string(errNotJSON)},
		{AsInt64, "\xff\xff\xff\xff\xff\xff\xff\xfe", Seen{}, `{"N":"-2"}`},
		{AsInt64, "12", Seen{}, string(errNotEight)},
		{AsDynamoDBJSON, `{"SS":["b","a"]}`, Seen{}, `{"SS":["a","b"]}`},
		{AsDynamoDBJSON, `{"SS":["a","a"]}`, Seen{}, string(errNotTyped)},
		{AsFloat32s, "1234", Seen{Kinds: kinds(n)}, string(errNoInverse)},
		{AsFloat64, "12345678", Seen{Kinds: kinds(n)}, string(errNoInverse)},
	} {
		v, err := decodeAs(c.as, []byte(c.cell), c.seen)
		got := ""
		if err == nil {
			text, marshalErr := attribute.MarshalValue(v)
			got, err = string(text), marshalErr
		}
		var why errEncoding
		if err != nil && errors.As(err, &why) {
			got = string(why)
		}
		if got != c.want || err != nil && v.Kind() != attribute.KindNone {
			t.Errorf("as %q, %.20q, %s inside %s: %s, %v, want %s", c.as, c.cell, c.seen.Kinds, c.seen.Inside, got, err, c.want)
		}
	}
}
