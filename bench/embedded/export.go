package embedded

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
)

// exportBucket is where the source exports to, a directory in Role.ExportsTo.
const exportBucket = "exports"

// Export lets the source export its table as it is now, and gives the folder of the export.
func (s *Service) Export(to string) (folder string, err error) {
	var begun, ended struct {
		ExportDescription struct{ ExportArn, ExportStatus, ExportManifest string }
	}
	err = s.ask("ExportTableToPointInTime", `{"TableArn":"arn:aws:dynamodb:`+Region+`:000000000000:table/`+Table+`","S3Bucket":"`+exportBucket+`"}`, &begun)
	if err != nil {
		return "", err
	}
	err = s.ask("DescribeExport", `{"ExportArn":"`+begun.ExportDescription.ExportArn+`"}`, &ended)
	if err == nil && ended.ExportDescription.ExportStatus != "COMPLETED" {
		err = fmt.Errorf("the export is %s", ended.ExportDescription.ExportStatus)
	}
	return filepath.Dir(filepath.Join(to, exportBucket, filepath.FromSlash(ended.ExportDescription.ExportManifest))), err
}

// ask makes one request to the source.
func (s *Service) ask(operation, body string, answer any) error {
	r, err := http.NewRequest(http.MethodPost, "http://"+s.Line, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("X-Amz-Target", "DynamoDB_20120810."+operation)
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", operation, response.Status, content)
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(content, answer)
}
