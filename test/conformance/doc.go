// Package conformance tests documented behaviour of DynamoDB. test/conformance/check runs it
// against the embedded DynamoDB (dynamodbtest) and dynoxide, an independent one, and can run it
// against AWS. docs/reference/conformance.md lists each difference, and which side is right.
//
// Cases use the protocol itself (JSON 1.0 over HTTP, signed), not an SDK. They also test what an
// SDK hides, such as whether a member is absent or null.
package conformance
