package dynamodbtest

import (
	"strings"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/dynamodbtest/item"
	"github.com/dynamodb-bigtable/replicator/expression"
)

// write is one validated write of one item. It is decided when the table is locked. It is a put if
// image is set, an update if update is set, and a deletion if delete is set. Otherwise it only
// checks the condition.
type write struct {
	table     *table
	key       primaryKey
	condition *expression.Condition // nil: none
	image     *stored
	update    *expression.Update
	delete    bool
	refused   error // the reason why the write cannot be made, if already known
	// showOld reports that a failed condition returns the item.
	showOld bool
}

func (w write) of() *table { return w.table }

// expressionParameters are the members that all requests with expressions share.
type expressionParameters struct {
	ExpressionAttributeNames  map[string]string
	ExpressionAttributeValues item.Values
}

// bind prepares the placeholders. The argument `given` reports that the request has an expression.
func (e *expressionParameters) bind(given bool) (*expression.Bindings, error) {
	b, err := expression.NewBindings(e.ExpressionAttributeNames, e.ExpressionAttributeValues)
	if err != nil {
		return nil, err
	}
	if !given && !b.Empty() {
		which := "ExpressionAttributeNames"
		if e.ExpressionAttributeNames == nil {
			which = "ExpressionAttributeValues"
		}
		return nil, validation("%s can only be specified when using expressions", which)
	}
	return b, nil
}

// conditionParameters are the members of a conditional write.
type conditionParameters struct {
	expressionParameters
	ConditionExpression                 *string
	Expected                            map[string]legacyExpectation
	ConditionalOperator                 string
	ReturnValuesOnConditionCheckFailure string
}

// parse reads the condition, and the update if the request has one.
func (c *conditionParameters) parse(update *string) (write, error) {
	if err := exclusive(parameter{"Expected", c.Expected != nil, true}, parameter{"ConditionalOperator", c.ConditionalOperator != "", true},
		parameter{"ConditionExpression", c.ConditionExpression != nil, false}, parameter{"UpdateExpression", update != nil, false}); err != nil {
		return write{}, err
	}
	b, err := c.bind(c.ConditionExpression != nil || update != nil)
	if err != nil {
		return write{}, err
	}
	var w write
	if update != nil {
		if w.update, err = expression.ParseUpdate(*update, b); err != nil {
			return write{}, err
		}
	}
	if c.ConditionExpression != nil {
		if w.condition, err = expression.ParseCondition("ConditionExpression", *c.ConditionExpression, b); err != nil {
			return write{}, err
		}
	} else if w.condition, err = c.expected(); err != nil {
		return write{}, err
	}
	w.showOld = c.ReturnValuesOnConditionCheckFailure == "ALL_OLD"
	return w, b.CheckUsed()
}

// changes reports whether the write is more than a check.
func (w *write) changes() bool { return w.image != nil || w.update != nil || w.delete }

// decide checks the condition against the current item and computes the change. The caller holds
// the table's mu.
func (w *write) decide() (change, error) {
	if w.refused != nil {
		return change{}, w.refused
	}
	c := change{key: w.key, image: w.image}
	if w.condition == nil && w.update == nil {
		return c, nil
	}
	old := w.table.items.get(w.key.order)
	var current attribute.Item
	if old != nil {
		var err error
		if current, err = item.Parse(old.wire); err != nil {
			return change{}, err
		}
	}
	if w.condition != nil && !w.condition.Match(current) {
		failed := newError("ConditionalCheckFailedException", "The conditional request failed")
		if w.showOld && old != nil {
			failed.item = old.wire
		}
		return change{}, failed
	}
	if w.update == nil {
		return c, nil
	}
	if !current.Exists() {
		if !w.update.Creates() {
			return c, nil // nothing to remove, regardless of the paths
		}
		current = w.key.item
	}
	updated, err := w.update.Apply(current)
	if err != nil {
		return change{}, err
	}
	if err := item.CheckDepth(updated); err != nil {
		return change{}, err
	}
	if item.Size(updated) > maxItemSize {
		return change{}, validation("Item size to update has exceeded the maximum allowed size")
	}
	updatedImage, err := w.table.newImage(updated)
	if kindOf(err) == emptyIndexKey {
		word := "string"
		if strings.Contains(err.Error(), "empty binary value") {
			word = "binary"
		}
		return change{}, validation("One or more parameter values are not valid. The update expression attempted to update a secondary index key to a value that is not supported. The AttributeValue for a key attribute cannot contain an empty %s value.", word).of(emptyIndexKey)
	}
	return updatedImage, err
}

// outcome is the result of a write.
type outcome struct {
	table    *table
	key      primaryKey
	old, new *stored // images; nil if there is none
	indexes  []indexWrite
}

// commit decides and makes the write.
func (w *write) commit() (outcome, error) {
	if err := w.table.lock(); err != nil {
		return outcome{}, err
	}
	defer w.table.mu.Unlock()
	c, err := w.decide()
	if err != nil {
		return outcome{}, err
	}
	old, indexes := w.table.apply(c, w.table.server.Now())
	return outcome{w.table, w.key, old, c.image, indexes}, nil
}
