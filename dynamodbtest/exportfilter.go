package dynamodbtest

import (
	"bytes"
	"encoding/json"
)

// exportFilter limits the export to a part of the table (FilterSpecification of the API).
type exportFilter struct {
	expressionParameters
	FilterExpression       *string
	KeyConditionExpression *string
	ProjectionExpression   *string
}

// filterOf parses the filter of an export; nil means no filter.
func filterOf(text json.RawMessage, kind string) (*selection, error) {
	var f *exportFilter
	if len(text) > 0 {
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&f); err != nil {
			return nil, err
		}
	}
	switch {
	case f == nil:
		return nil, nil
	case f.KeyConditionExpression != nil:
		return nil, unsupported("FilterSpecification.KeyConditionExpression")
	case kind != fullExport:
		return nil, unsupported("FilterSpecification of an incremental export")
	}
	o := readOptions{expressionParameters: f.expressionParameters, FilterExpression: f.FilterExpression, ProjectionExpression: f.ProjectionExpression}
	b, err := o.bind(o.FilterExpression != nil || o.ProjectionExpression != nil)
	if err != nil {
		return nil, err
	}
	return o.selection(b, nil)
}

// shown returns the part of an image that the export contains; nil if it contains none.
func (e *export) shown(image *stored) ([]byte, error) {
	if e.selects == nil {
		return image.wire, nil
	}
	return e.selects.show(nil, image)
}
