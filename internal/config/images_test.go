package config

import "testing"

// The key in a bucket may have any name, except one that names a folder.
func TestFolderOfAnExport(t *testing.T) {
	for address, ok := range map[string]bool{
		"scan": true, "/data/{table}": true,
		"s3://exports/AWSDynamoDB/01-a": true, "gs://exports/{table}/": true, "s3://exports/dir//AWSDynamoDB/01-a": true,
		"s3://exports//01-a": true, "gs://exports/my exports/a+b%20c/../01-a": true,
		"s3://exports": false, "s3://exports/": false, "s3://exports//": false, "gs://exports/a/..": false, "gs://exports/a/./": false,
		"s3:///a": false, "ftp://exports/a": false, "data": false, "s3://exports/{name}": false,
	} {
		if fault := checkImages(address); (fault == nil) != ok {
			t.Errorf("%s: %+v", address, fault)
		}
	}
}
