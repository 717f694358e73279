package demo

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// The table of the demo. Its keys deliberately contain the delimiter of row keys.
const (
	tableName    = "Shop"
	partitionKey = "customer"
	sortKey      = "order"
)

type item = map[string]types.AttributeValue

// identity is the primary key of an item.
type identity struct{ customer, order int }

// customers is the number of partitions.
const customers = 400

func (id identity) key() item {
	return item{
		partitionKey: &types.AttributeValueMemberS{Value: fmt.Sprintf("eu#%03d%%", id.customer)},
		sortKey:      &types.AttributeValueMemberS{Value: fmt.Sprintf("order#%06d", id.order)},
	}
}

// identityOf returns the primary key of the n-th created item.
func identityOf(n int) identity { return identity{n % customers, n / customers} }

// newItem returns a complete item with attributes of all ten types.
func newItem(r *rand.Rand, id identity) item {
	it := id.key()
	for _, name := range attributes {
		it[name] = newValue(r, name)
	}
	return it
}

// attributes are the names of the non-key attributes: one for each of DynamoDB's ten types, and a
// few with unusual names.
var attributes = []string{"note", "total", "blob", "paid", "cancelled", "address", "lines", "tags", "scores", "digests", "a.b", "größe", "empty"}

// newValue returns a random value for an attribute. The attribute's name determines the type.
func newValue(r *rand.Rand, name string) types.AttributeValue {
	switch name {
	case "note":
		return text(r)
	case "total", "größe":
		return number(r)
	case "blob":
		return &types.AttributeValueMemberB{Value: bytesOf(r, 1+r.IntN(40))}
	case "paid":
		return &types.AttributeValueMemberBOOL{Value: r.IntN(2) == 0}
	case "cancelled":
		return &types.AttributeValueMemberNULL{Value: true}
	case "address":
		return &types.AttributeValueMemberM{Value: item{"street": text(r), "<no>&": number(r), "geo": list(r)}}
	case "lines":
		return list(r)
	case "tags":
		return &types.AttributeValueMemberSS{Value: distinct(r, func() string { return "tag " + strconv.Itoa(r.IntN(50)) })}
	case "scores":
		return &types.AttributeValueMemberNS{Value: distinct(r, func() string { return strconv.Itoa(r.IntN(2000) - 1000) })}
	case "digests":
		set := [][]byte{}
		for i := range 1 + r.IntN(3) {
			set = append(set, append(bytesOf(r, 6), byte(i)))
		}
		return &types.AttributeValueMemberBS{Value: set}
	case "empty":
		return &types.AttributeValueMemberS{Value: ""}
	default:
		return text(r)
	}
}

var words = strings.Fields("fedora bowler panama beret topper boater trilby cloche \"quoted\" back\\slash tab\there größer 帽子 🎩")

func text(r *rand.Rand) types.AttributeValue {
	var b strings.Builder
	for range 1 + r.IntN(6) {
		b.WriteString(words[r.IntN(len(words))])
		b.WriteByte(' ')
	}
	return &types.AttributeValueMemberS{Value: b.String()}
}

// number returns a random number, written in one of the forms that DynamoDB accepts. DynamoDB keeps
// 38 digits.
func number(r *rand.Rand) types.AttributeValue {
	forms := []string{
		strconv.Itoa(r.IntN(1_000_000)),
		fmt.Sprintf("-%d.%02d", r.IntN(1000), r.IntN(100)),
		fmt.Sprintf("%d.50", r.IntN(1000)),
		fmt.Sprintf("%de20", 1+r.IntN(9)),
		fmt.Sprintf("12345678901234567890123456789012345%03d", r.IntN(1000)),
		"-0",
	}
	return &types.AttributeValueMemberN{Value: forms[r.IntN(len(forms))]}
}

func list(r *rand.Rand) types.AttributeValue {
	l := []types.AttributeValue{}
	for range r.IntN(4) {
		l = append(l, []types.AttributeValue{text(r), number(r), &types.AttributeValueMemberB{Value: bytesOf(r, 5)},
			&types.AttributeValueMemberBOOL{Value: true}, &types.AttributeValueMemberNULL{Value: true}}[r.IntN(5)])
	}
	return &types.AttributeValueMemberL{Value: l}
}

func bytesOf(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// distinct draws one to four distinct members.
func distinct(r *rand.Rand, draw func() string) []string {
	var out []string
	seen := map[string]bool{}
	for range 1 + r.IntN(4) {
		if s := draw(); !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}
