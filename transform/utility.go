package transform

import (
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// This file writes the layout of Google's batch utility, which loads exports of DynamoDB with
// Dataflow. The utility is a Java program: it formats numbers like Java's BigDecimal and orders
// members like Java's HashMap.
//
// Source:
// https://github.com/GoogleCloudPlatform/professional-services/tree/main/tools/dynamodb-bigtable-migration,
// in src/main/java/com/google/cloud/pso/migration: utils/DynamoRowUtils.java (values, maps, the row
// key), utils/BeamRowUtils.java (cells), dofns/BeamRowToBigtableRowFn.java (mutations) and
// DataLoadOptionsValidator.java (the family).

// UtilityFamily is the family of the tables that the utility creates itself.
const UtilityFamily = "cf1"

// UtilityRowKey returns the row key template of Google's batch utility. The row key is only the
// partition key.
func UtilityRowKey(key KeyAttribute) *Template {
	t := joined([]string{key.Name})
	if key.Type != attribute.KindS {
		t.parts[0].Calls = []Call{{Name: utilityFunction, f: functions[utilityFunction]}}
		t.text = strings.TrimSuffix(t.text, "}") + " | " + utilityFunction + "}"
	}
	return t
}

// utilityFunction is the name of both the row key function and the encoding.
const utilityFunction = "google_utility"

// utilityText returns the utility's text of a row key, or of a scalar in a column.
func utilityText(v scalar, _ *Call) (scalar, error) {
	switch v.kind {
	case attribute.KindN:
		return scalar{attribute.KindS, utilityNumber(v.text)}, nil
	case attribute.KindB:
		return scalar{attribute.KindS, string(appendTwice(nil, v.text))}, nil
	}
	return v, nil
}

// isWholeRowKey reports whether the template is this attribute as the utility writes it, and
// nothing else. In that case the utility does not write the attribute as a column.
func (t *Template) isWholeRowKey() (attr string, ok bool) {
	if t == nil || len(t.parts) != 1 || t.parts[0].Attribute == "" {
		return "", false
	}
	calls := t.parts[0].Calls
	return t.parts[0].Attribute, len(calls) == 0 || len(calls) == 1 && calls[0].Name == utilityFunction
}

// appendUtility appends a cell as the utility writes it.
func appendUtility(b []byte, v attribute.Value) ([]byte, error) {
	switch v.Kind() {
	case attribute.KindS:
		return append(b, v.Text()...), nil
	case attribute.KindN:
		return append(b, utilityNumber(v.Text())...), nil
	case attribute.KindB:
		return appendTwice(b, v.Text()), nil
	case attribute.KindNULL:
		return b, nil // no value is set, so the cell is empty
	}
	return appendUtilityJSON(b, v)
}

func appendUtilityJSON(b []byte, v attribute.Value) ([]byte, error) {
	switch v.Kind() {
	case attribute.KindS:
		return appendGson(b, v.Text())
	case attribute.KindN:
		return append(b, utilityNumber(v.Text())...), nil
	case attribute.KindB:
		return append(appendTwice(append(b, '"'), v.Text()), '"'), nil
	case attribute.KindM:
		return appendUtilityMembers(b, v.Members())
	case attribute.KindL:
		return appendUtilityElements(b, v.Elements())
	case attribute.KindSS, attribute.KindNS, attribute.KindBS:
		return appendUtilityElements(b, utilityOrder(v.Elements(), elementHash))
	}
	return appendJSON(b, v)
}

func appendUtilityMembers(b []byte, members []attribute.Attribute) ([]byte, error) {
	var err error
	b = append(b, '{')
	for i, m := range utilityOrder(members, func(m attribute.Attribute) uint32 { return stringHash(m.Name) }) {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendGson(b, m.Name); err != nil {
			return b, err
		}
		if b, err = appendUtilityJSON(append(b, ':'), m.Value); err != nil {
			return b, err
		}
	}
	return append(b, '}'), nil
}

func appendUtilityElements(b []byte, elements []attribute.Value) ([]byte, error) {
	var err error
	b = append(b, '[')
	for i, v := range elements {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendUtilityJSON(b, v); err != nil {
			return b, err
		}
	}
	return append(b, ']'), nil
}

// appendTwice encodes a binary twice, because the utility treats the base64 text of the export as
// the bytes.
func appendTwice(b []byte, s string) []byte {
	return appendBase64(b, string(appendBase64(nil, s)))
}

// appendGson is appendString that also escapes two line ends of JavaScript (U+2028 and U+2029), as
// the utility's JSON library does. Source: https://github.com/google/gson,
// gson/src/main/java/com/google/gson/stream/JsonWriter.java
func appendGson(b []byte, s string) ([]byte, error) {
	if strings.Contains(s, "\u2028") || strings.Contains(s, "\u2029") {
		quoted, err := appendString(nil, s)
		return append(b, strings.NewReplacer("\u2028", `\u2028`, "\u2029", `\u2029`).Replace(string(quoted))...), err
	}
	return appendString(b, s)
}

// utilityNumber returns a number as the utility writes it. It has all digits, but a fraction below
// a millionth has an exponent, as Java's BigDecimal prints it. A whole number beyond 64 bits would
// make the utility's job fail. This function writes it with all digits.
func utilityNumber(n string) string {
	const plainZeros = 5 // after the point
	sign := ""
	if strings.HasPrefix(n, "-") {
		sign = "-"
	}
	fraction, small := strings.CutPrefix(n[len(sign):], "0.")
	significant := strings.TrimLeft(fraction, "0")
	leading := len(fraction) - len(significant)
	if !small || leading <= plainZeros {
		return n
	}
	mantissa := significant[:1]
	if len(significant) > 1 {
		mantissa += "." + significant[1:]
	}
	return sign + mantissa + "E-" + strconv.Itoa(leading+1)
}

// These constants describe the table of Java's HashMap. Source: https://github.com/openjdk/jdk11u,
// src/java.base/share/classes/java/util/HashMap.java
const (
	hashCapacity = 16 // of a new table; a table that is three quarters full doubles
	hashBucket   = 8  // a small table also doubles if one bucket gets more members than this
	hashSmall    = 64
)

// utilityOrder sorts members as Java's HashMap and HashSet list them: by bucket. Within a bucket,
// Java keeps the order in which the members were added. That is their order in the export, which is
// not known here. Instead, the members of a bucket keep their order in the argument, which is
// sorted by bytes.
func utilityOrder[T any](members []T, hash func(T) uint32) []T {
	if len(members) < 2 {
		return members
	}
	// In a table of 64 or more, buckets of more than eight members become trees. The order of a
	// tree is not reproduced.
	type entry struct {
		member T
		hash   uint32
	}
	entries := make([]entry, len(members))
	for i, m := range members {
		h := hash(m)
		entries[i] = entry{m, h ^ h>>16}
	}
	capacity := uint32(hashCapacity)
	count := map[uint32]int{}
	for i := range entries {
		double := func() {
			capacity *= 2
			clear(count)
			for _, e := range entries[:i+1] {
				count[e.hash&(capacity-1)]++
			}
		}
		bucket := entries[i].hash & (capacity - 1)
		if count[bucket]++; count[bucket] > hashBucket && capacity < hashSmall {
			double()
		}
		if i+1 > int(capacity)*3/4 {
			double()
		}
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return int(a.hash&(capacity-1)) - int(b.hash&(capacity-1)) })
	sorted := make([]T, len(entries))
	for i, e := range entries {
		sorted[i] = e.member
	}
	return sorted
}

// stringHash returns Java's String.hashCode, which is computed over UTF-16.
func stringHash(s string) uint32 {
	var h uint32
	for _, r := range s {
		if r > 0xFFFF {
			high, low := utf16.EncodeRune(r)
			h = 31*(31*h+uint32(high)) + uint32(low)
			continue
		}
		h = 31*h + uint32(r)
	}
	return h
}

// elementHash returns the hash of a set's member, in Java a String, Long or BigDecimal.
func elementHash(v attribute.Value) uint32 {
	switch v.Kind() {
	case attribute.KindB:
		return stringHash(string(appendTwice(nil, v.Text())))
	case attribute.KindN:
		return numberHash(v.Text())
	}
	return stringHash(v.Text())
}

// numberHash returns Java's Long.hashCode of a whole number, or its BigDecimal.hashCode of a
// fraction. Source: https://github.com/openjdk/jdk11u,
// src/java.base/share/classes/java/math/BigDecimal.java and BigInteger.java
func numberHash(n string) uint32 {
	if whole, err := strconv.ParseInt(n, 10, 64); err == nil {
		return uint32(uint64(whole) ^ uint64(whole)>>32)
	}
	digits, negative := strings.CutPrefix(n, "-")
	integer, fraction, _ := strings.Cut(digits, ".")
	unscaled, _ := new(big.Int).SetString(integer+fraction, 10) // cannot fail: n is canonical
	if unscaled == nil {
		return 0
	}
	var h uint32
	for words := (unscaled.BitLen() + 31) / 32; words > 0; words-- {
		word := new(big.Int).Rsh(unscaled, uint(32*(words-1)))
		h = 31*h + uint32(word.Uint64())
	}
	if negative {
		h = -h
	}
	return 31*h + uint32(len(fraction))
}
