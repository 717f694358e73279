package cdc

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// strictProtocol rejects answers that the client would misread silently (dynamodbstreams 1.46,
// smithy-go 1.28):
//   - The client's generated code decodes every member of a map or list into one variable. A null,
//     or a value of unknown type, leaves this variable unchanged. So the attribute gets the
//     previous attribute's value.
//   - The client mistakes an error in the middle of a list or map for the end of the list or map.
//     Then it misreads the rest of the answer or panics.
//
// strictProtocol also hides the decoder's own error texts, because they quote the answer.
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
	return err // an error means that the body could not be fetched
}

// unclearAnswer is an answer that arrived whole but cannot be understood.
type unclearAnswer struct{ what string }

func (e *unclearAnswer) Error() string { return e.what }

// strictOutput decodes an answer through a strictDeserializer.
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

// strictDeserializer reports faults that the client's helpers ignore. In answers, the only unions
// are attribute values, and these occur only in maps and lists.
type strictDeserializer struct {
	smithy.ShapeDeserializer
	open      []bool // the open structures, outermost first: true for a union, false for a map or list
	attribute string // the last name read in a map that is not part of a value
	lost      error  // an error that the client's helpers took for an end; every later read fails with it
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

// ReadNil is called before each member of a map or list. DynamoDB never writes null as such a
// member.
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
