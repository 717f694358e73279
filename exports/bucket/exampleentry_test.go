package bucket_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"google.golang.org/api/option"

	"github.com/dynamodb-bigtable/replicator/exports"
	"github.com/dynamodb-bigtable/replicator/exports/bucket"
)

// storage serves one object of each bucket, as S3 and Cloud Storage do.
func storage() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "the object")
	}))
}

// read reads an object of a store.
func read(store exports.Store, name string) {
	object, err := store.Open(context.Background(), name)
	if err != nil {
		panic(err)
	}
	defer object.Close()
	text, err := io.ReadAll(object)
	fmt.Printf("%s %v\n", text, err)
}

// An export in S3 is read with the AWS configuration of the program.
func ExampleNewS3() {
	service := storage()
	defer service.Close()
	place, err := bucket.Parse("s3://backups/AWSDynamoDB/01700000000000-aaaaaaaa")
	if err != nil {
		panic(err)
	}
	identity := aws.Config{Region: "eu-west-1", BaseEndpoint: &service.URL, Credentials: credentials.NewStaticCredentialsProvider("any", "thing", "")}
	store := bucket.NewS3(identity, place, func(o *s3.Options) { o.UsePathStyle = true })
	read(store, place.Folder+"/manifest-summary.json")
	// Output: the object <nil>
}

// An export that was copied to Cloud Storage is read with Application Default Credentials, or with
// the options given.
func ExampleNewCloudStorage() {
	service := storage()
	defer service.Close()
	place, err := bucket.Parse("gs://backups/AWSDynamoDB/01700000000000-aaaaaaaa")
	if err != nil {
		panic(err)
	}
	store, err := bucket.NewCloudStorage(context.Background(), place, option.WithEndpoint(service.URL+"/"), option.WithoutAuthentication())
	if err != nil {
		panic(err)
	}
	read(store, place.Folder+"/manifest-summary.json")
	// Output: the object <nil>
}
