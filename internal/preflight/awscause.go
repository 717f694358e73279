package preflight

import (
	"slices"
	"strings"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// awsRemedies are compared in order with the answer of AWS: its error code, a colon and its
// message. The first match counts. Only the message shows which kind of policy denies a request.
// Its words are the same for all services. Policies of a higher level, such as those of the
// organization, come first, because a change of the identity's own policy would not help against
// them. Sources: https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_access-denied.html,
// https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/CommonErrors.html,
// https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html,
// https://docs.aws.amazon.com/STS/latest/APIReference/CommonErrors.html
var awsRemedies = []remedy{
	{"wrong clock", both(hasCode("InvalidSignature", "SignatureDoesNotMatch"), says("signature expired", "signature not yet current")), diag.ClockWrong, "", anywhere},
	{"wrong clock", hasCode("RequestTimeTooSkewed", "RequestExpired", "RequestInTheFuture"), diag.ClockWrong, "", anywhere},
	{"web identity token expired", both(hasCode("ExpiredToken"), says("must be before the expiration")), "",
		"renew the file of AWS_WEB_IDENTITY_TOKEN_FILE. Kubernetes renews a projected token, but not a copy of it", anywhere},
	{"token expired", hasCode("ExpiredToken", "TokenRefreshRequired"), "",
		"get new credentials: nothing renews AWS_SESSION_TOKEN or tokens in files. A role, SSO or credential_process renews them", anywhere},
	{"login expired", says("sso session has expired", "cached sso token is expired", "session token not found or invalid"), "", loginFix, anywhere},
	{"unknown key", hasCode("UnrecognizedClient", "InvalidClientTokenId", "InvalidAccessKeyId", "InvalidToken"), "",
		"use an active access key: `aws sts get-caller-identity` shows whether it is one. A key that begins with ASIA needs its AWS_SESSION_TOKEN. " +
			"AWS rejects keys of another partition (China, GovCloud), and keys used in a region that the account has not enabled", anywhere},
	{"wrong secret", hasCode("InvalidSignature", "SignatureDoesNotMatch"), "",
		"copy the secret access key again, because it does not belong to the access key ID. If it does, a proxy changes requests", anywhere},
	{"no signature", hasCode("IncompleteSignature", "MissingAuthenticationToken"), "",
		"check the proxy of HTTPS_PROXY, and AWS_ENDPOINT_URL…: the request arrives without its signature", anywhere},
	{"account not ready", hasCode("OptInRequired", "SubscriptionRequired"), "",
		"finish the account's registration for this service, or enable the region for the account", anywhere},
	{"policy of a VPC endpoint", says("vpc endpoint policy"), "",
		"allow the action in the policy of this host's VPC endpoint: aws ec2 modify-vpc-endpoint --vpc-endpoint-id ID --policy-document …; DynamoDB, its streams and S3 may each have an endpoint", anywhere},
	{"service control policy", says("service control policy"), "",
		"ask the administrators of the AWS organization: a service control policy (SCP) denies the action to the account. No policy of the identity can override it", anywhere},
	{"resource control policy", says("resource control policy"), "",
		"ask the administrators of the AWS organization: a resource control policy (RCP) denies the action on the resource. No policy of the identity can override it", anywhere},
	{"permissions boundary", says("permissions boundary"), "",
		"also allow the action in the permissions boundary of the role or user: aws iam get-role --role-name ROLE names the boundary", anywhere},
	{"session policy", says("session policy"), "",
		"start the session without a session policy, or allow the action in the policy given with AssumeRole", anywhere},
	{"KMS key disabled", both(aboutKMS, says("disabledexception", "is disabled", "pending deletion", "pendingdeletion", "invalidstate", "kms.disabled", "kmsdisabled", "inaccessibleencryptioncredentials")), "",
		"enable the KMS key of the table or bucket: aws kms enable-key --key-id KEY; if its deletion is scheduled: aws kms cancel-key-deletion --key-id KEY", anywhere},
	{"KMS key denied", aboutKMS, "",
		"allow this identity the action on the KMS key (kms:Decrypt if none is named), in its own policy and in the key's policy", anywhere},
	{"resource denies", says("explicit deny in a resource-based policy"), "",
		"remove the Deny from the policy of the table, stream or bucket: aws dynamodb get-resource-policy --resource-arn ARN, aws s3api get-bucket-policy --bucket BUCKET", anywhere},
	{"role cannot be assumed", says("sts:assumerole"), "",
		"allow this identity sts:AssumeRole on the role, and allow the identity in the role's trust policy, with the external id that it asks for (source.role_arn, source.external_id, AWS_ROLE_ARN)", anywhere},
	{"resource does not allow", says("no resource-based policy allows"), "",
		"allow the action to this identity in the policy of the table, stream or bucket, because it belongs to another account", anywhere},
	{"explicit deny", says("explicit deny"), "",
		"remove the Deny statement from the policies of the identity, or meet its condition (network, VPC endpoint, MFA, tag). No Allow overrides it", anywhere},
}

const loginFix = "run `aws sso login` again, with the same AWS_PROFILE"

// awsFailures are compared in order with the text of the error, if AWS did not answer.
var awsFailures = []remedy{
	{"login expired", says("sso session has expired", "cached sso token is expired", "sso token is expired", "failed to read cached sso token"), "", loginFix, anywhere},
	{"login expired", says("please reauthenticate"), "", "run `aws login` again, with the same AWS_PROFILE", anywhere},
	{"output of a process", says("credential_process"), "",
		"run the credential_process of the AWS profile by hand. It must print one JSON document with Version 1, AccessKeyId and SecretAccessKey", anywhere},
	{"web identity token", says("failed to retrieve jwt"), "",
		"correct AWS_WEB_IDENTITY_TOKEN_FILE, or web_identity_token_file of the AWS profile. The token must be mounted there, and this user must be able to read it", anywhere},
	{"container token file", says("failed to read authorization token"), "",
		"correct AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE. The token must be mounted there, and this user must be able to read it", anywhere},
	{"container token", says("authorization token contains invalid newline"), "",
		"remove the newline from the token in AWS_CONTAINER_AUTHORIZATION_TOKEN, or in the file of AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", anywhere},
	{"half a key", says("partial credentials found"), "",
		"give the AWS profile in the cause both aws_access_key_id and aws_secret_access_key", anywhere},
	{"wrong clock", says("certificate has expired or is not yet valid"), diag.ClockWrong,
		clockFix, anywhere},
	{"unknown authority", says("certificate signed by unknown authority"), "",
		"name the file of the proxy's certificate authority in AWS_CA_BUNDLE, or as ca_bundle of the AWS profile", anywhere},
	{"proxy", says("proxyconnect", "proxy authentication required"), "",
		"check HTTPS_PROXY with its user and password, and NO_PROXY", anywhere},
}

// aboutKMS reports whether an answer concerns the KMS key that encrypts a table, a stream or an
// object.
func aboutKMS(_ error, said string) bool {
	return strings.HasPrefix(said, "kms") || says("kms:", "kms key", "kms validation error", "inaccessibleencryptioncredentials", ".kms.", "customer master key")(nil, said)
}

// hasCode returns a function that reports whether an answer has one of the error codes. A code may
// end in Exception or not.
func hasCode(codes ...string) func(error, string) bool {
	return func(_ error, said string) bool {
		code, _, _ := strings.Cut(said, ":")
		return slices.ContainsFunc(codes, func(c string) bool { return strings.TrimSuffix(code, "exception") == strings.ToLower(c) })
	}
}

func both(a, b func(error, string) bool) func(error, string) bool {
	return func(err error, said string) bool { return a(err, said) && b(err, said) }
}
