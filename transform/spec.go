package transform

import (
	"github.com/dynamodb-bigtable/replicator/attribute"
)

// Spec describes a mapping in the words of the configuration. New compiles it.
type Spec struct {
	// Source is the DynamoDB table, Table the Bigtable table.
	Source, Table string
	// PrimaryKey is the source's key schema: the partition key and, if the table has one, the sort key.
	PrimaryKey []KeyAttribute
	// Captures are the parts of the source table's name that {$name} stands for.
	Captures map[string]string
	// Varies are the parts that differ among the source tables, if the spec belongs to a pattern.
	// CheckMerged treats their values as unknown. All other functions use an example of each
	// varying part, so Captures must hold one.
	Varies []Varying
	// Families are all families that rules write.
	Families []Family
	// Drop names attributes that are not copied, unless a rule names them itself.
	Drop []string
	// Rules are tried in order. The first rule with a condition that matches an item decides about
	// the item. An empty list is equivalent to one rule that matches all items.
	Rules []Rule
	TTL   TTL
	// KeepVersions keeps former values of attributes as older cells of their columns, if the
	// garbage collection rules of the families allow it. docs/how-to/keep-versions.md says which
	// values are kept.
	KeepVersions bool
	// VersionAttribute names a number that the application raises with each write of the item,
	// under a condition. The application needs it because it writes the target too. Images are
	// ranked by this number first, and then by their place in the stream. VersionAttribute is "" if
	// only replicator writes the target.
	VersionAttribute string
	// Merged reports that other source tables use the same target table. The rows of these source
	// tables must not collide (CheckMerged).
	Merged bool
}

// The field When holds the rule's condition; nil matches every item.
type Rule struct {
	Name string
	// When is the condition of the rule; nil matches every item. Text is the condition as it was
	// written.
	When Condition
	Text string
	// Ignore reports that these items are not copied.
	Ignore bool
	// Writes are the rows that an item is written to, usually one. Writes must be empty if Ignore
	// is set, and must not be empty otherwise.
	Writes []Write
}

// Write is one row, or one cell of a row, that an item is written to.
type Write struct {
	// Table is the target table; "" means the Table of the Spec.
	Table string
	// RowKey is nil for the default: the attributes of the primary key, joined with '#'.
	RowKey *Template
	// Columns say where attributes go. If Columns and Cell are nil, every attribute goes to the
	// only declared family.
	Columns []ColumnRule
	// Cell stores the whole item in one cell of a row that other items may share.
	Cell *CellRule
}

// ColumnRule determines where an attribute goes. With Attribute "*" it applies to all attributes
// that no other rule names.
type ColumnRule struct {
	Attribute string
	// To is family:qualifier or only family:. In the second form the column has the attribute's
	// name.
	To string
	As Encoding
	// Value is the content of the cells that AsColumns makes from the members of a set.
	Value string
}

// CellRule describes the cell that holds an item.
type CellRule struct {
	Family    string
	Qualifier *Template
	As        Encoding // AsJSON or AsDynamoDBJSON
	// Only lists the attributes that are written; nil means all attributes except dropped ones.
	Only []string
}

// Condition decides whether a rule applies to an item. It is a pure function. *expression.Condition
// implements it.
type Condition interface {
	Match(attribute.Item) bool
	// Attributes returns the names of the top-level attributes that the condition uses.
	Attributes() []string
}

// Implying is a Condition that reports facts about the items that it matches. Each fact must hold
// for every such item. With these facts, Check can prove for more mappings that they keep items
// apart.
type Implying interface {
	// Fixed returns the only value that the attribute can have; false if none is known.
	Fixed(attr string) (attribute.Value, bool)
	// Prefix returns the prefix of the attribute's text; false if none is known.
	Prefix(attr string) (string, bool)
	// Equal returns the attributes that have the same value as this one.
	Equal(attr string) []string
}

// Comparing is a Condition that can be compared with another condition. With the result, Check
// finds rules that never apply.
type Comparing interface {
	// Implies reports whether the Condition `other` certainly matches every item that this
	// condition matches.
	Implies(other any) bool
}

// Encoding is the way in which a value is written into a cell.
type Encoding uint8

// The encodings, named as the configuration names them. Each accepts the listed types; a value of
// another type cannot be mapped.
const (
	AsDefault       Encoding = iota // as described at Mapping.Cells
	AsText                          // as AsDefault, but B as standard base64
	AsJSON                          // any value as JSON
	AsDynamoDBJSON                  // any value as DynamoDB JSON, {"S":"text"}, which loses nothing
	AsInt64                         // a whole N within 64 bits as 8 bytes, big-endian, two's complement
	AsFloat64                       // an N as the nearest IEEE 754 double, 8 bytes, big-endian
	AsBytes                         // S or B: the bytes
	AsColumns                       // a column per member of a map, element of a list or member of a set
	AsCounter                       // a whole N within 64 bits, which becomes the value of an aggregate
	AsCells                         // an L: a cell per element, all in one column, the last element newest
	AsFlattened                     // for "*": a column per member of maps, at any depth; other values as AsText
	AsGoogleUtility                 // for "*": as Google's batch utility writes values, byte for byte except for members whose Java hashes share a bucket; docs/how-to/google-utility.md
	// AsFloat32s writes an L of N as a vector: for each element the nearest IEEE 754 single, 4 bytes,
	// big-endian. GoogleSQL for Bigtable reads it with TO_VECTOR32
	// (https://cloud.google.com/bigtable/docs/reference/sql/conversion_functions).
	AsFloat32s
)

var encodingNames = [...]string{"", "text", "json", "dynamodb_json", "int64", "float64", "bytes", "columns", "counter", "cells", "flattened", "google_utility", "float32s"}

// String returns the encoding's name in the configuration; "" for the default.
func (e Encoding) String() string { return encodingNames[e] }

// ParseEncoding is the inverse of String.
func ParseEncoding(name string) (Encoding, bool) {
	for i, known := range encodingNames {
		if known == name {
			return Encoding(i), true
		}
	}
	return 0, false
}

// EncodingNames returns the names of all encodings except the default.
func EncodingNames() []string { return encodingNames[1:] }

// Expire is the policy for items whose time to live has ended.
type Expire uint8

// The policies.
const (
	FollowDeletes Expire = iota // items are removed when DynamoDB removes them
	ExpireByGC                  // cells get timestamps with which Bigtable's garbage collection removes them at their expiry
	KeepExpired                 // items stay in the target after TTL deletions
)

// TTL is a source table's time-to-live attribute and the policy for expired items. Without an
// attribute there is no expiry.
type TTL struct {
	Attribute string
	Expire    Expire
}
