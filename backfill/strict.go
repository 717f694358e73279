package backfill

import "github.com/aws/smithy-go"

type strictOutput struct{ smithy.Deserializable }

func (o strictOutput) Deserialize(d smithy.ShapeDeserializer) error {
	return o.Deserializable.Deserialize(&strictDeserializer{ShapeDeserializer: d})
}

// strictDeserializer watches for unions none of whose known members is present. A union is asked for twice: to open it,
// always as the first thing after the key, element or member it belongs to; and after its value, to see that no other
// follows. Only the first must find something.
type strictDeserializer struct {
	smithy.ShapeDeserializer
	opening bool
}

func (d *strictDeserializer) ReadUnion(s *smithy.Schema) (*smithy.Schema, error) {
	opening := d.opening
	d.opening = false
	member, err := d.ShapeDeserializer.ReadUnion(s)
	if err == nil && member == nil && opening {
		err = errUnknownType
	}
	return member, err
}

func (d *strictDeserializer) ReadMapKey(s *smithy.Schema) (key string, more bool, err error) {
	key, more, err = d.ShapeDeserializer.ReadMapKey(s)
	d.opening = more
	return key, more, err
}

func (d *strictDeserializer) ReadListItem(s *smithy.Schema) (more bool, err error) {
	more, err = d.ShapeDeserializer.ReadListItem(s)
	d.opening = more
	return more, err
}

func (d *strictDeserializer) ReadStructMember() (member *smithy.Schema, err error) {
	member, err = d.ShapeDeserializer.ReadStructMember()
	d.opening = member != nil
	return member, err
}
