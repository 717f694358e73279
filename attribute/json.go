package attribute

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// ErrDynamoDBJSON is returned for text that is not DynamoDB JSON, and for values that DynamoDB JSON
// cannot hold. The wrapping error has a position and a problem but no data.
var ErrDynamoDBJSON = errors.New("not DynamoDB JSON")

// MarshalItem encodes an item as DynamoDB JSON: {"name":{"S":"text"},…}. Members are sorted, and
// there are no spaces. Equal items give equal bytes. It rejects values that DynamoDB never holds.
// Such values are text that is not UTF-8, a set that is empty or has a member twice, and an
// attribute without a value. Source:
// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Programming.LowLevelAPI.html
func MarshalItem(item Item) ([]byte, error) {
	if err := CheckItem(item); err != nil {
		return nil, err
	}
	return AppendItem(nil, item), nil
}

// CheckItem makes the checks of MarshalItem.
func CheckItem(item Item) error { return checkMembers(item.attributes) }

// MarshalValue encodes a value as DynamoDB JSON: {"S":"text"}. It rejects the same values as
// MarshalItem.
func MarshalValue(v Value) ([]byte, error) {
	if err := checkValue(v); err != nil {
		return nil, err
	}
	return AppendValue(nil, v), nil
}

// AppendItem appends the result of MarshalItem, but makes no checks. DynamoDB must be able to hold
// the item (CheckItem).
func AppendItem(b []byte, item Item) []byte { return appendMembers(b, item.attributes) }

// AppendValue appends the result of MarshalValue, but makes no checks. DynamoDB must be able to
// hold the value.
func AppendValue(b []byte, v Value) []byte {
	b = append(b, '{', '"')
	b = append(b, v.kind.String()...)
	b = append(b, '"', ':')
	switch v.kind {
	case KindBOOL:
		b = strconv.AppendBool(b, v.truth)
	case KindNULL:
		b = append(b, "true"...)
	case KindM:
		b = appendMembers(b, v.Members())
	case KindL, KindSS, KindNS, KindBS:
		b = append(b, '[')
		for i, e := range v.Elements() {
			if i > 0 {
				b = append(b, ',')
			}
			if v.kind == KindL {
				b = AppendValue(b, e)
			} else {
				b = appendScalar(b, e)
			}
		}
		b = append(b, ']')
	default:
		b = appendScalar(b, v)
	}
	return append(b, '}')
}

func appendMembers(b []byte, members []Attribute) []byte {
	b = append(b, '{')
	for i, m := range members {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(AppendString(b, m.Name), ':')
		b = AppendValue(b, m.Value)
	}
	return append(b, '}')
}

// appendScalar appends an S, N or B without its type.
func appendScalar(b []byte, v Value) []byte {
	if v.kind != KindB {
		return AppendString(b, v.text)
	}
	b = append(b, '"')
	b = base64.StdEncoding.AppendEncode(b, []byte(v.text))
	return append(b, '"')
}

const hexDigits = "0123456789abcdef"

// AppendString appends text as a JSON string, with only the escapes that JSON requires. The text
// must be UTF-8.
func AppendString(b []byte, text string) []byte {
	b = append(b, '"')
	start := 0
	for i := range len(text) {
		c := text[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		b = append(b, text[start:i]...)
		start = i + 1
		if c == '"' || c == '\\' {
			b = append(b, '\\', c)
		} else {
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	b = append(b, text[start:]...)
	return append(b, '"')
}

// checkMembers rejects members that DynamoDB JSON cannot hold.
func checkMembers(members []Attribute) error {
	for _, m := range members {
		if err := checkText(m.Name); err != nil {
			return err
		}
		if err := checkValue(m.Value); err != nil {
			return err
		}
	}
	return nil
}

// checkValue rejects a value that DynamoDB JSON cannot hold.
func checkValue(v Value) error {
	switch v.kind {
	case KindNone:
		return fmt.Errorf("%w: an attribute without a value", ErrDynamoDBJSON)
	case KindS:
		return checkText(v.text)
	case KindM:
		return checkMembers(v.Members())
	}
	if err := CheckSet(v); err != nil {
		return fmt.Errorf("%w: %w", ErrDynamoDBJSON, err)
	}
	for _, e := range v.Elements() {
		if err := checkValue(e); err != nil {
			return err
		}
	}
	return nil
}

func checkText(s string) error {
	if !utf8.ValidString(s) {
		return fmt.Errorf("%w: text of %d bytes is not UTF-8", ErrDynamoDBJSON, len(s))
	}
	return nil
}
