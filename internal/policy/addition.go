package policy

import (
	"strings"

	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/source"
)

// Addition is a further permission that an identity may need. It depends on encryption keys and on
// flags of commands, not on the configuration.
type Addition struct {
	When    string
	Actions []string
	On      string // the resource; unknown parts are placeholders in capitals
}

// WithKeys adds to the policy the permission to use the keys that encrypt the source tables.
func (p Policy) WithKeys(keys []string) Policy {
	if len(keys) == 0 {
		return p
	}
	p.Statement = append(p.Statement[:len(p.Statement):len(p.Statement)], Statement{"DecryptTables", "Allow", permissions([]string{"kms"}, Decrypting), keys})
	return p
}

// AWSAdditions returns the additions for the identity that reads DynamoDB.
func AWSAdditions(cfg *config.Config, region string) []Addition {
	table := tableARN(cfg.Source.Role(), region, "TABLE")
	key := strings.Replace(strings.Replace(table, ":dynamodb:", ":kms:", 1), ":table/TABLE", ":key/KEY_ID", 1)
	decrypt := permissions([]string{"kms"}, Decrypting)
	const byExport, byRequest = "`backfill start --export s3://BUCKET/FOLDER`", "`backfill start --request-export --export s3://BUCKET`"
	const encrypted = ", if a customer managed key encrypts the bucket"
	var request, write []string
	for _, action := range permissions([]string{"dynamodb"}, Exporting) {
		if strings.HasPrefix(action, "s3:") {
			write = append(write, action)
		} else {
			request = append(request, action)
		}
	}
	additions := []Addition{{"tables that a customer managed key encrypts", decrypt, key}}
	if copiesFromS3(cfg) {
		additions = append(additions, Addition{"the exports" + encrypted, decrypt, key})
	}
	read := bucketARN(table, "BUCKET") + " and " + bucketARN(table, "BUCKET/*")
	return append(additions,
		Addition{byExport, permissions([]string{"dynamodb"}, Importing), table + "/export/*"},
		Addition{byExport, permissions([]string{"s3"}, Importing), read},
		Addition{byExport + encrypted, decrypt, key},
		Addition{byRequest + ", in addition", request, table},
		Addition{byRequest + ", in addition", write, bucketARN(table, "BUCKET/*")},
		Addition{byRequest + encrypted, permissions([]string{"kms"}, Encrypting), key})
}

// copiesFromS3 reports whether any table is copied from a folder in S3.
func copiesFromS3(cfg *config.Config) bool {
	for _, folder := range foldersOf(cfg) {
		if _, ok := source.InS3(folder); ok {
			return true
		}
	}
	return false
}

// foldersOf returns the folders of exports that the configuration names. Unknown parts of patterns
// are *.
func foldersOf(cfg *config.Config) (addresses []string) {
	for _, t := range cfg.Tables {
		t.From = t.Glob()
		if folder := source.Folder(cfg.LoadsFrom(t)); folder != "" {
			addresses = append(addresses, folder)
		}
	}
	return addresses
}
