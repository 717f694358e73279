package awshost

import (
	"regexp"
	"strings"
)

// regions lists the regions with DynamoDB, in all partitions. Sources: the endpoints in the
// DynamoDB client of the AWS SDK for Go, which does not export them, and
// https://docs.aws.amazon.com/general/latest/gr/ddb.html.
var regions = strings.Fields(`
	af-south-1 ap-east-1 ap-east-2 ap-northeast-1 ap-northeast-2 ap-northeast-3 ap-south-1 ap-south-2 ap-southeast-1 ap-southeast-2 ap-southeast-3
	ap-southeast-4 ap-southeast-5 ap-southeast-6 ap-southeast-7 ca-central-1 ca-west-1 cn-north-1 cn-northwest-1 eu-central-1 eu-central-2
	eu-isoe-west-1 eu-north-1 eu-south-1 eu-south-2 eu-west-1 eu-west-2 eu-west-3 eusc-de-east-1 il-central-1 me-central-1 me-south-1
	mx-central-1 sa-east-1 us-east-1 us-east-2 us-gov-east-1 us-gov-west-1 us-iso-east-1 us-iso-west-1 us-isob-east-1 us-isob-west-1
	us-isof-east-1 us-isof-south-1 us-west-1 us-west-2`)

// regionForm matches names of regions. It accepts future regions, but not most mistyped names.
var regionForm = regexp.MustCompile(`^[a-z]{2,4}(-(gov|iso[a-z]?|[a-z]{2}))?-(north|south|east|west|central|(north|south)(east|west))-[0-9]+$`)

// isRegion reports whether a name has the form of a region, existing or future.
func isRegion(name string) bool { return regionForm.MatchString(name) }
