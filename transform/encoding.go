package transform

import (
	"encoding/binary"
	"math"
	"strconv"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// These texts say why an encoding rejects a value.
const (
	errNotNumber  errEncoding = "not a number"
	errNotInt64   errEncoding = "not a whole number within 64 bits"
	errNotBytes   errEncoding = "neither S nor B"
	errNotFloat64 errEncoding = "beyond the range of a double"
	errNotVector  errEncoding = "not a list of numbers"
	errNotFloat32 errEncoding = "a number in it is beyond the range of a single"
)

// appendAs appends a value in an encoding that makes one cell.
func appendAs(b []byte, as Encoding, v attribute.Value) ([]byte, error) {
	switch as {
	case AsDefault:
		return appendCell(b, v)
	case AsGoogleUtility:
		return appendUtility(b, v)
	case AsText, AsFlattened:
		if v.Kind() == attribute.KindB {
			return appendBase64(b, v.Text()), nil
		}
		return appendCell(b, v)
	case AsJSON:
		return appendJSON(b, v)
	case AsDynamoDBJSON:
		text, err := attribute.MarshalValue(v)
		return append(b, text...), err
	case AsInt64, AsCounter:
		if v.Kind() != attribute.KindN {
			return b, errNotNumber
		}
		n, err := strconv.ParseInt(v.Text(), 10, 64)
		if err != nil {
			return b, errNotInt64
		}
		return binary.BigEndian.AppendUint64(b, uint64(n)), nil
	case AsFloat64:
		if v.Kind() != attribute.KindN {
			return b, errNotNumber
		}
		f, err := strconv.ParseFloat(v.Text(), 64)
		if err != nil {
			return b, errNotFloat64
		}
		return binary.BigEndian.AppendUint64(b, math.Float64bits(f)), nil
	case AsFloat32s:
		return appendVector(b, v)
	case AsBytes:
		if v.Kind() != attribute.KindS && v.Kind() != attribute.KindB {
			return b, errNotBytes
		}
		return append(b, v.Text()...), nil
	}
	return b, errKind
}

// appendVector appends the numbers of a list. A set of numbers is refused, because it has no order.
func appendVector(b []byte, v attribute.Value) ([]byte, error) {
	if v.Kind() != attribute.KindL {
		return b, errNotVector
	}
	for _, e := range v.Elements() {
		if e.Kind() != attribute.KindN {
			return b, errNotVector
		}
		f, err := strconv.ParseFloat(e.Text(), 32)
		if err != nil {
			return b, errNotFloat32
		}
		b = binary.BigEndian.AppendUint32(b, math.Float32bits(float32(f)))
	}
	return b, nil
}

// appendCell appends a top-level attribute.
func appendCell(b []byte, v attribute.Value) ([]byte, error) {
	switch v.Kind() {
	case attribute.KindS, attribute.KindN, attribute.KindB:
		return append(b, v.Text()...), nil
	default:
		return appendJSON(b, v)
	}
}
