// Package conformance tests documented behaviour of DynamoDB. The embedded DynamoDB (dynamodbtest)
// and dynoxide, an independent one, are held against it by test/conformance/check, and so can be
// AWS itself. Where a service answers otherwise, docs/reference/conformance.md says what it answers
// and who is right.
//
// Cases speak the protocol itself (JSON 1.0 over HTTP, signed) and not an SDK: what an SDK hides, such as a member that is absent or
// null, is part of what is tested.
package conformance
