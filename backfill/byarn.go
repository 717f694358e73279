package backfill

import (
	"context"
	"fmt"
	"reflect"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/middleware"
)

// ByARN returns an option for a client that names tables by ARN in all requests, given the ARNs by
// the names of the tables. Callers use names. A table without an ARN is requested by its
// name.
//
// DynamoDB accepts an ARN as TableName. A name means a table in the account of the caller, so a
// request by name could read another table, with the same name
// (https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/rbac-iam-actions.html).
func ByARN(arns map[string]string) func(*dynamodb.Options) {
	byARN := middleware.InitializeMiddlewareFunc("TablesByARN", func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
		var err error
		if in.Parameters, err = namedByARN(in.Parameters, arns); err != nil {
			return middleware.InitializeOutput{}, middleware.Metadata{}, err
		}
		return next.HandleInitialize(ctx, in)
	})
	return func(o *dynamodb.Options) {
		if len(arns) > 0 {
			o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error { return stack.Initialize.Add(byARN, middleware.Before) })
		}
	}
}

// namedByARN returns a copy of an operation's parameters with ARNs for names. It refuses batches,
// which replicator does not send: their parameters and answers have tables as keys.
func namedByARN(parameters any, arns map[string]string) (any, error) {
	switch p := parameters.(type) {
	case *dynamodb.BatchGetItemInput, *dynamodb.BatchWriteItemInput:
		return nil, fmt.Errorf("%T cannot name tables by ARN", p)
	case *dynamodb.TransactWriteItemsInput:
		renamed := *p
		renamed.TransactItems = make([]types.TransactWriteItem, len(p.TransactItems))
		for i, item := range p.TransactItems {
			renamed.TransactItems[i] = types.TransactWriteItem{Put: copyByARN(item.Put, arns), Update: copyByARN(item.Update, arns),
				Delete: copyByARN(item.Delete, arns), ConditionCheck: copyByARN(item.ConditionCheck, arns)}
		}
		return &renamed, nil
	}
	from := reflect.ValueOf(parameters).Elem()
	to := reflect.New(from.Type())
	to.Elem().Set(from)
	rename(to.Elem(), arns)
	return to.Interface(), nil
}

func copyByARN[T any](action *T, arns map[string]string) *T {
	if action == nil {
		return nil
	}
	renamed := *action
	rename(reflect.ValueOf(&renamed).Elem(), arns)
	return &renamed
}

// rename replaces the TableName of a struct, if it has one.
func rename(parameters reflect.Value, arns map[string]string) {
	field := parameters.FieldByName("TableName")
	if !field.IsValid() {
		return
	}
	if name, ok := field.Interface().(*string); ok {
		if arn := arns[aws.ToString(name)]; arn != "" {
			field.Set(reflect.ValueOf(&arn))
		}
	}
}
