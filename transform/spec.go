package transform

import (
	"github.com/dynamodb-bigtable/replicator/attribute"
)

// Spec is the description of a mapping in the words of the configuration. New compiles it.
type Spec struct {
	// Source is the DynamoDB table, Table the Bigtable table.
	Source, Table string
	// PrimaryKey is the source's key schema: the partition key and, if the table has one, the sort key.
	PrimaryKey []KeyAttribute
	// Captures are the parts of the source table's name that {$name} stands for.
	Captures map[string]string
	// Varies are the parts that differ among the source tables, for the spec of a pattern. CheckMerged takes them as unknown; for
	// everything else Captures has to hold an example of each.
	Varies []Varying
	// Families are all families that rules write.
	Families []Family
	// Drop names attributes that are not copied, unless a rule names them itself.
	Drop []string
	// Rules in order: the first whose condition matches an item decides. Without rules there is one for all items.
	Rules []Rule
	TTL   TTL
	// KeepVersions: the values that attributes had before stay as older cells of their columns, as long as the families' rules of garbage
	// collection let them. docs/how-to/keep-versions.md says what is kept.
	KeepVersions bool
	// VersionAttribute holds a number that the application raises with each write of the item, under a condition, because it
	// writes the target too. It ranks images before their place in the stream. "" if nobody else writes the target.
	VersionAttribute string
	// Merged tells that other source tables have the same target table. Their rows must not meet: see CheckMerged.
	Merged bool
}

// Rule says what becomes of the items that match a condition.
type Rule struct {
	Name string
	// When is the condition; nil matches every item. Text is the condition as it was written.
	When Condition
	Text string
	// Ignore: these items are not copied.
	Ignore bool
	// Writes are the rows that an item becomes, usually one. They are empty exactly if Ignore.
	Writes []Write
}

// Write is one row, or one cell of a row, that an item becomes.
type Write struct {
	// Table is the target table; "" is that of the Spec.
	Table string
	// RowKey is nil for the default: the primary key, joined with '#'.
	RowKey *Template
	// Columns say where attributes go. Nil, without a cell, means every attribute to the only family that is declared.
	Columns []ColumnRule
	// Cell makes the whole item one cell of a row that others may share.
	Cell *CellRule
}

// ColumnRule says where an attribute goes, or with Attribute "*" all that no other rule names.
type ColumnRule struct {
	Attribute string
	// To is family:qualifier, or a family alone: then the column has the attribute's name.
	To string
	As Encoding
	// Value is what the cells of a set's members hold, which As: AsColumns turns into columns.
	Value string
}

// CellRule is the cell that an item becomes.
type CellRule struct {
	Family    string
	Qualifier *Template
	As        Encoding // AsJSON or AsDynamoDBJSON
	// Only names the attributes that are written; nil means all that are not dropped.
	Only []string
}

// Condition decides whether a rule is for an item. It is pure. *expression.Condition is one.
type Condition interface {
	Match(attribute.Item) bool
	// Attributes are the names of the top-level attributes that it looks at.
	Attributes() []string
}

// Implying is a Condition that tells what holds of every item it matches, as far as it can tell: with that, more mappings
// can be shown to keep items apart.
type Implying interface {
	// Fixed is the one value that the attribute can have.
	Fixed(attr string) (attribute.Value, bool)
	// Prefix is what the attribute's text begins with.
	Prefix(attr string) (string, bool)
	// Equal are the attributes whose values are the same as this one's.
	Equal(attr string) []string
}

// Comparing is a Condition that tells of others of its kind whether they match every item that it matches: with that, rules that never
// decide are found.
type Comparing interface {
	// Implies is certain if it is true; other is a Condition.
	Implies(other any) bool
}

// Encoding is how a value is written into a cell.
type Encoding uint8

// The encodings, named as the configuration names them. Each says which types it takes; a value of another type cannot be mapped.
const (
	AsDefault       Encoding = iota // as Cells describes
	AsText                          // as AsDefault, but B as standard base64
	AsJSON                          // any value as JSON
	AsDynamoDBJSON                  // any value as DynamoDB JSON, {"S":"text"}: nothing is lost
	AsInt64                         // a whole N within 64 bits as 8 bytes, big-endian, two's complement
	AsFloat64                       // an N as the nearest IEEE 754 double, 8 bytes, big-endian
	AsBytes                         // S or B: the bytes
	AsColumns                       // a column per member of a map, element of a list or member of a set
	AsCounter                       // a whole N within 64 bits, as the absolute value of an aggregate
	AsCells                         // an L: a cell per element in one column, the last element newest
	AsFlattened                     // of "*": a column per member of maps, at any depth; other values as AsText
	AsGoogleUtility                 // of "*": as Google's batch utility writes values, byte for byte but for members whose Java hashes share a bucket; docs/how-to/google-utility.md
)

var encodingNames = [...]string{"", "text", "json", "dynamodb_json", "int64", "float64", "bytes", "columns", "counter", "cells", "flattened", "google_utility"}

// String is the encoding's name in the configuration; "" for the default.
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

// EncodingNames are the names of all encodings but the default.
func EncodingNames() []string { return encodingNames[1:] }

// Expire says what becomes of items whose time to live is over.
type Expire uint8

// The policies.
const (
	FollowDeletes Expire = iota // removed when DynamoDB removes them
	ExpireByGC                  // cells are stamped so that Bigtable's garbage collection expires them at their time
	KeepExpired                 // what DynamoDB's time to live removes stays
)

// TTL is a source table's time-to-live attribute and what follows from it. Without an attribute nothing does.
type TTL struct {
	Attribute string
	Expire    Expire
}
