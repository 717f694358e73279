package dynamodbtest

import (
	"fmt"
	"slices"
	"strings"
)

// This file rejects request members with values that are not in their enumeration. Like the
// service, it reports all violations of a request in one error.

// returnValues are all values of ReturnValues, in the order of the service's message.
var returnValues = []string{"ALL_NEW", "UPDATED_OLD", "ALL_OLD", "NONE", "UPDATED_NEW"}

// enum returns the violated constraint if a member is given and has none of the values. Otherwise
// it returns "".
func enum(member, value string, values ...string) string {
	if value == "" || slices.Contains(values, value) {
		return ""
	}
	return fmt.Sprintf("Value '%s' at '%s' failed to satisfy constraint: Member must satisfy enum value set: [%s]", value, member, strings.Join(values, ", "))
}

// constraints returns one error for all violated constraints of a request.
func constraints(violations ...string) error {
	violated := slices.DeleteFunc(violations, func(v string) bool { return v == "" })
	switch len(violated) {
	case 0:
		return nil
	case 1:
		return validation("1 validation error detected: %s", violated[0])
	}
	return validation("%d validation errors detected: %s", len(violated), strings.Join(violated, "; "))
}

// enumCapacity returns the violated constraint on ReturnConsumedCapacity; "" if it is satisfied.
func enumCapacity(value string) string {
	return enum("returnConsumedCapacity", value, "INDEXES", "TOTAL", "NONE")
}

// enumMetrics returns the violated constraint on ReturnItemCollectionMetrics; "" if it is
// satisfied.
func enumMetrics(value string) string {
	return enum("returnItemCollectionMetrics", value, "SIZE", "NONE")
}

// checkEnums checks the enumerations of Query and Scan.
func (o *readOptions) checkEnums() error {
	return constraints(enumCapacity(o.ReturnConsumedCapacity), enum("select", o.Select, selects...), enum("conditionalOperator", o.ConditionalOperator, "OR", "AND"))
}

var selects = []string{"SPECIFIC_ATTRIBUTES", "COUNT", "ALL_ATTRIBUTES", "ALL_PROJECTED_ATTRIBUTES"}

func (req *transactWriteRequest) checkEnums() error {
	violations := []string{enumCapacity(req.ReturnConsumedCapacity), enumMetrics(req.ReturnItemCollectionMetrics)}
	for i, action := range req.TransactItems {
		shown := map[string]string{}
		if a := action.Put; a != nil {
			shown["put"] = a.ReturnValuesOnConditionCheckFailure
		}
		if a := action.Update; a != nil {
			shown["update"] = a.ReturnValuesOnConditionCheckFailure
		}
		if a := action.Delete; a != nil {
			shown["delete"] = a.ReturnValuesOnConditionCheckFailure
		}
		if a := action.ConditionCheck; a != nil {
			shown["conditionCheck"] = a.ReturnValuesOnConditionCheckFailure
		}
		for _, kind := range sortedKeys(shown) {
			violations = append(violations, enum(fmt.Sprintf("transactItems.%d.member.%s.returnValuesOnConditionCheckFailure", i+1, kind), shown[kind], "ALL_OLD", "NONE"))
		}
	}
	return constraints(violations...)
}

func (req *createTableRequest) checkEnums() error {
	violations := append(enumDefinitions(req.AttributeDefinitions), enumKeys("keySchema", req.KeySchema)...)
	for i := range req.LocalSecondaryIndexes {
		violations = append(violations, req.LocalSecondaryIndexes[i].enums(fmt.Sprintf("localSecondaryIndexes.%d.member", i+1))...)
	}
	for i := range req.GlobalSecondaryIndexes {
		violations = append(violations, req.GlobalSecondaryIndexes[i].enums(fmt.Sprintf("globalSecondaryIndexes.%d.member", i+1))...)
	}
	return constraints(append(violations, enumTable(req.BillingMode, req.StreamSpecification, req.TableClass)...)...)
}

func (req *updateTableRequest) checkEnums() error {
	violations := enumDefinitions(req.AttributeDefinitions)
	for i, u := range req.GlobalSecondaryIndexUpdates {
		if u.Create != nil {
			violations = append(violations, u.Create.enums(fmt.Sprintf("globalSecondaryIndexUpdates.%d.member.create", i+1))...)
		}
	}
	return constraints(append(violations, enumTable(req.BillingMode, req.StreamSpecification, req.TableClass)...)...)
}

// enumTable returns the violated constraints on the members that CreateTable and UpdateTable share.
func enumTable(mode string, stream *streamSpecification, class string) []string {
	violations := []string{enum("billingMode", mode, "PROVISIONED", "PAY_PER_REQUEST"), enum("tableClass", class, "STANDARD", "STANDARD_INFREQUENT_ACCESS")}
	if stream != nil {
		violations = append(violations, enum("streamSpecification.streamViewType", stream.StreamViewType, viewNew, viewOld, viewBoth, viewKeys))
	}
	return violations
}

func enumDefinitions(definitions []attributeDefinition) (violations []string) {
	for i, d := range definitions {
		violations = append(violations, enum(fmt.Sprintf("attributeDefinitions.%d.member.attributeType", i+1), d.AttributeType, "B", "N", "S"))
	}
	return violations
}

func enumKeys(member string, elements []keyElement) (violations []string) {
	for i, e := range elements {
		violations = append(violations, enum(fmt.Sprintf("%s.%d.member.keyType", member, i+1), e.KeyType, "HASH", "RANGE"))
	}
	return violations
}

// enums returns the violated constraints on an index; member is its place in the request.
func (spec *indexSpecification) enums(member string) []string {
	violations := enumKeys(member+".keySchema", spec.KeySchema)
	if spec.Projection != nil {
		violations = append(violations, enum(member+".projection.projectionType", spec.Projection.ProjectionType, projectAll, projectInclude, projectKeys))
	}
	return violations
}
