package dynamodbtest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// Limits of secondary indexes ("Service, account, and table quotas").
const (
	maxGlobalIndexes = 20
	maxLocalIndexes  = 5
	maxIncluded      = 100 // attributes in all INCLUDE projections of a table together
	maxKeyAttributes = 4   // of a global index's partition key, and also of its sort key
)

type projectionSpecification struct {
	ProjectionType   string
	NonKeyAttributes []string `json:",omitempty"`
}

// indexSpecification is the definition of an index in CreateTable and UpdateTable. Local indexes
// have no capacity.
type indexSpecification struct {
	IndexName             string
	KeySchema             []keyElement
	Projection            *projectionSpecification
	ProvisionedThroughput *throughput
	OnDemandThroughput    *onDemandThroughput
}

type onDemandThroughput struct {
	MaxReadRequestUnits  *int64 `json:",omitempty"`
	MaxWriteRequestUnits *int64 `json:",omitempty"`
}

// definitionsOf returns the types of the attributes that a request defines.
func definitionsOf(definitions []attributeDefinition) (map[string]attribute.Kind, error) {
	kinds := map[string]attribute.Kind{}
	for i, d := range definitions {
		kind, ok := map[string]attribute.Kind{"S": attribute.KindS, "N": attribute.KindN, "B": attribute.KindB}[d.AttributeType]
		if !ok {
			return nil, missingMember(fmt.Sprintf("attributeDefinitions.%d.member.attributeType", i+1))
		}
		if _, twice := kinds[d.AttributeName]; twice {
			return nil, validation("Duplicate AttributeName in AttributeDefinitions: %s", d.AttributeName)
		}
		kinds[d.AttributeName] = kind
	}
	return kinds, nil
}

// readKeys validates a key schema. The argument `member` is the schema's place in the request. Only
// the key of a global index may have more than one attribute of the same key type.
func readKeys(elements []keyElement, kinds map[string]attribute.Kind, member string, global bool) (keySchema, error) {
	if len(elements) == 0 {
		return keySchema{}, missingMember(member)
	}
	if i := slices.IndexFunc(elements, func(e keyElement) bool { return e.KeyType == "" }); i >= 0 {
		return keySchema{}, missingMember(fmt.Sprintf("%s.%d.member.keyType", member, i+1))
	}
	if !global && len(elements) > 2 {
		var shown []string
		for _, e := range elements {
			shown = append(shown, "KeySchemaElement(attributeName="+e.AttributeName+", keyType="+e.KeyType+")")
		}
		return keySchema{}, validation("1 validation error detected: Value '[%s]' at '%s' failed to satisfy constraint: Member must have length less than or equal to 2", strings.Join(shown, ", "), member)
	}
	if elements[0].KeyType != "HASH" {
		return keySchema{}, validation("Invalid KeySchema: The first KeySchemaElement is not a HASH key type")
	}
	var ks keySchema
	for _, e := range elements {
		kind, ok := kinds[e.AttributeName]
		if !ok || len(e.AttributeName) < 1 || len(e.AttributeName) > 255 {
			return keySchema{}, undefinedKeys(elements, kinds)
		}
		if ks.contains(e.AttributeName) && len(elements) > 2 {
			return keySchema{}, validation("Invalid KeySchema: Duplicate attribute in the key schema: %s", e.AttributeName)
		}
		if ks.contains(e.AttributeName) {
			return keySchema{}, validation("Invalid KeySchema: Some index key attribute have no definition")
		}
		switch {
		case e.KeyType == "RANGE":
			ks.sort = append(ks.sort, keyAttribute{e.AttributeName, kind})
		case ks.hasSort():
			return keySchema{}, validation("Invalid KeySchema: A HASH key type follows a RANGE key type")
		case len(ks.hash) > 0 && !global:
			return keySchema{}, validation("Invalid KeySchema: The second KeySchemaElement is not a RANGE key type")
		default:
			ks.hash = append(ks.hash, keyAttribute{e.AttributeName, kind})
		}
	}
	if len(ks.hash) > maxKeyAttributes || len(ks.sort) > maxKeyAttributes {
		return keySchema{}, validation("Invalid KeySchema: A global secondary index has at most %d attributes of each key type: HASH: %d, RANGE: %d", maxKeyAttributes, len(ks.hash), len(ks.sort))
	}
	return ks, nil
}

// undefinedKeys returns the error for keys without definitions. The service has two different texts
// for this error.
func undefinedKeys(elements []keyElement, kinds map[string]attribute.Kind) error {
	several := len(elements) > 2 || len(elements) == 2 && elements[0].KeyType == elements[1].KeyType
	if !several && (len(elements) > 1 || len(kinds) == 0) {
		return validation("Invalid KeySchema: Some index key attribute have no definition")
	}
	var keys []string
	for _, e := range elements {
		keys = append(keys, e.AttributeName)
	}
	return validation("One or more parameter values were invalid: Some index key attributes are not defined in AttributeDefinitions. Keys: [%s], AttributeDefinitions: [%s]",
		strings.Join(keys, ", "), strings.Join(sortedKeys(kinds), ", "))
}

// readIndexes validates the indexes of a new table.
func readIndexes(base keySchema, local, global []indexSpecification, kinds map[string]attribute.Kind, capacity billing) ([]*secondaryIndex, error) {
	if local != nil && len(local) == 0 {
		return nil, validation("One or more parameter values were invalid: List of LocalSecondaryIndexes is empty")
	}
	if global != nil && len(global) == 0 {
		return nil, validation("One or more parameter values were invalid: List of GlobalSecondaryIndexes is empty")
	}
	var list []*secondaryIndex
	for i := range local {
		if !base.hasSort() {
			return nil, validation("One or more parameter values were invalid: Table KeySchema does not have a range key, which is required when specifying a LocalSecondaryIndex")
		}
		x, err := local[i].read(false, kinds, "localSecondaryIndexes")
		if err != nil {
			return nil, err
		}
		if !x.keys.hasSort() {
			return nil, validation("One or more parameter values were invalid: Index KeySchema does not have a range key for index: %s", x.name)
		}
		if own, of := x.keys.hash[0].name, base.hash[0].name; own != of {
			return nil, validation("One or more parameter values were invalid: Index KeySchema does not have the same leading hash key as table KeySchema for index: %s. index hash key: %s, table hash key: %s", x.name, own, of)
		}
		if list, err = addIndex(list, x); err != nil {
			return nil, err
		}
	}
	for i := range global {
		x, err := global[i].read(true, kinds, "globalSecondaryIndexes")
		if err != nil {
			return nil, err
		}
		if err := global[i].readCapacity(x, capacity); err != nil {
			return nil, err
		}
		if list, err = addIndex(list, x); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// read validates the parts that global and local indexes have in common.
func (spec *indexSpecification) read(global bool, kinds map[string]attribute.Kind, member string) (*secondaryIndex, error) {
	if err := checkName(spec.IndexName, member+".member.indexName", 3); err != nil {
		return nil, err
	}
	keys, err := readKeys(spec.KeySchema, kinds, member+".member.keySchema", global)
	if err != nil {
		return nil, err
	}
	if spec.Projection == nil {
		return nil, missingMember(member + ".member.projection")
	}
	x := &secondaryIndex{name: spec.IndexName, global: global, keys: keys, project: spec.Projection.ProjectionType, include: spec.Projection.NonKeyAttributes}
	switch x.project {
	case projectAll, projectKeys:
		if x.include != nil {
			return nil, validation("One or more parameter values were invalid: ProjectionType is %s, but NonKeyAttributes is specified", x.project)
		}
	case projectInclude:
		if len(x.include) == 0 {
			return nil, validation("One or more parameter values were invalid: ProjectionType is INCLUDE, but NonKeyAttributes is not specified")
		}
	case "":
		return nil, validation("One or more parameter values were invalid: Unknown ProjectionType: null")
	}
	return x, nil
}

// readCapacity validates a global index's capacity, which must fit its table's billing mode.
func (spec *indexSpecification) readCapacity(x *secondaryIndex, table billing) error {
	p := spec.ProvisionedThroughput
	switch {
	case table.onDemand && p != nil:
		return validation("One or more parameter values were invalid: ProvisionedThroughput should not be specified for index: %s when BillingMode is PAY_PER_REQUEST", x.name)
	case table.onDemand:
		return nil
	case p == nil:
		return validation("One or more parameter values were invalid: ProvisionedThroughput must be specified for index: %s", x.name)
	}
	capacity, err := readBilling("PROVISIONED", p, billing{}, time.Time{})
	x.capacity = capacity
	return err
}

// addIndex adds an index to the list of its table. The list has global indexes first and is sorted
// by name.
func addIndex(list []*secondaryIndex, x *secondaryIndex) ([]*secondaryIndex, error) {
	same, included := 1, len(x.include)
	for _, other := range list {
		if other.name == x.name {
			return nil, validation("One or more parameter values were invalid: Duplicate index name: %s", x.name)
		}
		if other.global == x.global {
			same++
		}
		included += len(other.include)
	}
	switch {
	case x.global && same > maxGlobalIndexes:
		return nil, validation("One or more parameter values were invalid: GlobalSecondaryIndex count exceeds the per-table limit of %d", maxGlobalIndexes)
	case !x.global && same > maxLocalIndexes:
		return nil, validation("One or more parameter values were invalid: Number of LocalSecondaryIndexes exceeds per-table limit of %d", maxLocalIndexes)
	case included > maxIncluded:
		return nil, validation("One or more parameter values were invalid: Number of NonKeyAttributes exceeds the limit of %d for a table's indexes", maxIncluded)
	}
	list = append(slices.Clone(list), x)
	slices.SortFunc(list, func(a, b *secondaryIndex) int {
		if a.global != b.global {
			if a.global {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.name, b.name)
	})
	return list, nil
}

// checkDefinitions rejects definitions of attributes that no key uses.
func checkDefinitions(base keySchema, indexes []*secondaryIndex, kinds map[string]attribute.Kind) error {
	var unused []string
	for _, name := range sortedKeys(kinds) {
		if !base.contains(name) && !slices.ContainsFunc(indexes, func(x *secondaryIndex) bool { return x.keys.contains(name) }) {
			unused = append(unused, name)
		}
	}
	switch {
	case len(unused) == 0:
		return nil
	case len(indexes) == 0:
		return validation("One or more parameter values were invalid: Number of attributes in KeySchema does not exactly match number of attributes defined in AttributeDefinitions")
	}
	return validation("One or more parameter values were invalid: Some AttributeDefinitions are not used. AttributeDefinitions: [%s], keys used: [%s]",
		strings.Join(sortedKeys(kinds), ", "), strings.Join(usedKeys(base, indexes), ", "))
}

func usedKeys(base keySchema, indexes []*secondaryIndex) []string {
	kinds := map[string]attribute.Kind{}
	for _, d := range definitions(base, indexes) {
		kinds[d.AttributeName] = attribute.KindNone
	}
	return sortedKeys(kinds)
}

// definitions returns the definitions of all key attributes, sorted by name.
func definitions(base keySchema, indexes []*secondaryIndex) []attributeDefinition {
	schemas := []keySchema{base}
	for _, x := range indexes {
		schemas = append(schemas, x.keys)
	}
	var list []attributeDefinition
	for _, ks := range schemas {
		for _, a := range ks.attributes() {
			if !slices.Contains(list, attributeDefinition{a.name, a.kind.String()}) {
				list = append(list, attributeDefinition{a.name, a.kind.String()})
			}
		}
	}
	slices.SortFunc(list, func(a, b attributeDefinition) int { return strings.Compare(a.AttributeName, b.AttributeName) })
	return list
}

// indexDescription is the description of an index in DescribeTable.
type indexDescription struct {
	IndexName             string
	KeySchema             []keyElement
	Projection            projectionSpecification
	IndexStatus           string                 `json:",omitempty"`
	ProvisionedThroughput *provisionedThroughput `json:",omitempty"`
	IndexSizeBytes        int
	ItemCount             int
	IndexArn              string
}

// describeIndexes returns the global or the local indexes; nil if there is none. The caller holds
// mu.
func (t *table) describeIndexes(global bool) []indexDescription {
	var list []indexDescription
	for _, x := range t.indexes() {
		if x.global != global {
			continue
		}
		d := indexDescription{
			IndexName: x.name, KeySchema: x.keys.elements(), Projection: projectionSpecification{x.project, x.include},
			IndexSizeBytes: x.entries.bytes, ItemCount: x.entries.count, IndexArn: t.arn() + "/index/" + x.name,
		}
		if global {
			d.IndexStatus = "ACTIVE"
			d.ProvisionedThroughput = &provisionedThroughput{0, x.capacity.read, x.capacity.write}
		}
		list = append(list, d)
	}
	return list
}

type indexUpdate struct {
	Create *indexSpecification
	Update *indexSpecification
	Delete *struct{ IndexName string }
}

// updateIndexList applies the changes of an UpdateTable to the global indexes. A new index is
// complete immediately. The caller holds mu.
func (t *table) updateIndexList(updates []indexUpdate, defined []attributeDefinition, capacity billing) error {
	kinds, err := definitionsOf(append(slices.Clone(defined), without(definitions(t.schema, t.indexes()), defined)...))
	if err != nil {
		return err
	}
	list := t.indexes()
	changed := 0
	for i := range updates {
		u := &updates[i]
		switch {
		case u.Create != nil && u.Update == nil && u.Delete == nil:
			changed++
			list, err = t.createIndex(list, u.Create, kinds, capacity)
		case u.Update != nil && u.Create == nil && u.Delete == nil:
			err = updateCapacity(list, u.Update, capacity)
		case u.Delete != nil && u.Create == nil && u.Update == nil:
			changed++
			list, err = deleteIndex(list, u.Delete.IndexName)
		default:
			err = validation("One or more parameter values were invalid: Only one of Create, Update or Delete can be specified in a GlobalSecondaryIndexUpdate")
		}
		if err != nil {
			return err
		}
	}
	if changed > 1 {
		return newError("LimitExceededException", "Subscriber limit exceeded: Only 1 online index can be created or deleted simultaneously per table")
	}
	t.secondary.Store(&list)
	return nil
}

// without returns the definitions in list for attributes that others does not define.
func without(list, others []attributeDefinition) []attributeDefinition {
	return slices.DeleteFunc(list, func(d attributeDefinition) bool {
		return slices.ContainsFunc(others, func(o attributeDefinition) bool { return o.AttributeName == d.AttributeName })
	})
}

func (t *table) createIndex(list []*secondaryIndex, spec *indexSpecification, kinds map[string]attribute.Kind, capacity billing) ([]*secondaryIndex, error) {
	if slices.ContainsFunc(list, func(x *secondaryIndex) bool { return x.name == spec.IndexName }) {
		return nil, validation("Attempting to create an index which already exists")
	}
	x, err := spec.read(true, kinds, "globalSecondaryIndexUpdates.member.create")
	if err != nil {
		return nil, err
	}
	if err := spec.readCapacity(x, capacity); err != nil {
		return nil, err
	}
	if list, err = addIndex(list, x); err != nil {
		return nil, err
	}
	return list, t.fill(x)
}

func updateCapacity(list []*secondaryIndex, spec *indexSpecification, capacity billing) error {
	i := slices.IndexFunc(list, func(x *secondaryIndex) bool { return x.global && x.name == spec.IndexName })
	if i < 0 {
		return resourceNotFound("Requested resource not found")
	}
	return spec.readCapacity(list[i], capacity)
}

func deleteIndex(list []*secondaryIndex, name string) ([]*secondaryIndex, error) {
	i := slices.IndexFunc(list, func(x *secondaryIndex) bool { return x.global && x.name == name })
	if i < 0 {
		return nil, resourceNotFound("Requested resource not found")
	}
	return slices.Delete(slices.Clone(list), i, i+1), nil
}
