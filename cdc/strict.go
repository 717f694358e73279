package cdc

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// strictProtocol refuses answers that the client would misread in silence (dynamodbstreams 1.46, smithy-go 1.28):
//   - A value of unknown type, or null, leaves the variable that the generated code decodes every member of a map or list
//     into as it was: the attribute gets the previous attribute's value.
//   - An error in the middle of a list or map is taken for its end, and what follows is misread or makes it panic.
//
// It also keeps the decoder's own words back, since they quote what was being read.
type strictProtocol struct{ smithyhttp.ClientProtocol }

func (p strictProtocol) DeserializeResponse(
	ctx context.Context, op *smithy.OperationSchema, errs *smithy.TypeRegistry, resp *smithyhttp.Response, out smithy.Deserializable,
) error {
	resp.Body = Checked(resp.Response)
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return p.ClientProtocol.DeserializeResponse(ctx, op, errs, resp, out)
	}
	if page := decodingOf(ctx); page != nil && page.decode(resp) {
		return nil
	}
	strict := &strictOutput{Deserializable: out}
	err := p.ClientProtocol.DeserializeResponse(ctx, op, errs, resp, strict)
	if strict.unclear != nil {
		return strict.unclear
	}
	return err // if there is one, the body could not be fetched
}

// unclearAnswer is an answer that was received whole and cannot be understood.
type unclearAnswer struct{ what string }

func (e *unclearAnswer) Error() string { return e.what }

// strictOutput puts a strictDeserializer before the answer's own decoding.
type strictOutput struct {
	smithy.Deserializable
	unclear error
}

func (o *strictOutput) Deserialize(d smithy.ShapeDeserializer) error {
	strict := &strictDeserializer{ShapeDeserializer: d}
	err := o.Deserializable.Deserialize(strict)
	if err == nil {
		err = strict.lost
	}
	if err == nil {
		return nil
	}
	if _, ours := errors.AsType[*unclearAnswer](err); !ours {
		err = &unclearAnswer{"the answer is not the JSON that was expected" + strict.place()}
	}
	o.unclear = err
	return err
}

// strictDeserializer reports what the client's helpers pass over. The answers' only unions are attribute values, and they
// stand in maps and lists alone.
type strictDeserializer struct {
	smithy.ShapeDeserializer
	open      []bool // what is being read, outermost first: true for a union, false for a map or list
	attribute string // the name last read in a map that is no part of a value
	lost      error  // an error that the helpers took for an end; every read after it fails
}

func (d *strictDeserializer) place() string {
	if d.attribute == "" {
		return ""
	}
	return fmt.Sprintf(", at or after attribute %q", d.attribute)
}

func (d *strictDeserializer) ReadUnion(s *smithy.Schema) (*smithy.Schema, error) {
	if d.lost != nil {
		return nil, d.lost
	}
	begins := len(d.open) == 0 || !d.open[len(d.open)-1]
	member, err := d.ShapeDeserializer.ReadUnion(s)
	switch {
	case err != nil:
	case begins && member == nil:
		err = &unclearAnswer{"a value of unknown type" + d.place()}
	case begins:
		d.open = append(d.open, true)
	case member == nil:
		d.close()
	}
	return member, err
}

// ReadNil is asked before each member of a map or list; DynamoDB has no such null.
func (d *strictDeserializer) ReadNil(s *smithy.Schema) (bool, error) {
	null, err := d.ShapeDeserializer.ReadNil(s)
	if err == nil && null {
		err = &unclearAnswer{"null in place of a value" + d.place()}
	}
	return null, err
}

func (d *strictDeserializer) ReadStructMember() (*smithy.Schema, error) {
	if d.lost != nil {
		return nil, d.lost
	}
	return d.ShapeDeserializer.ReadStructMember()
}

func (d *strictDeserializer) ReadList(s *smithy.Schema) error {
	d.open = append(d.open, false)
	return d.ShapeDeserializer.ReadList(s)
}

func (d *strictDeserializer) ReadListItem(s *smithy.Schema) (bool, error) {
	if d.lost != nil {
		return false, d.lost
	}
	more, err := d.ShapeDeserializer.ReadListItem(s)
	d.after(more, err)
	return more, err
}

func (d *strictDeserializer) ReadMap(s *smithy.Schema) error {
	d.open = append(d.open, false)
	return d.ShapeDeserializer.ReadMap(s)
}

func (d *strictDeserializer) ReadMapKey(s *smithy.Schema) (string, bool, error) {
	if d.lost != nil {
		return "", false, d.lost
	}
	name, more, err := d.ShapeDeserializer.ReadMapKey(s)
	if more && !slices.Contains(d.open, true) {
		d.attribute = name
	}
	d.after(more, err)
	return name, more, err
}

func (d *strictDeserializer) after(more bool, err error) {
	if err != nil && d.lost == nil {
		d.lost = err
	}
	if !more {
		d.close()
	}
}

func (d *strictDeserializer) close() { d.open = d.open[:len(d.open)-1] }
