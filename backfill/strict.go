package backfill

import "github.com/aws/smithy-go"

type strictOutput struct{ smithy.Deserializable }

func (o strictOutput) Deserialize(d smithy.ShapeDeserializer) error {
	return o.Deserializable.Deserialize(&strictDeserializer{ShapeDeserializer: d})
}

// strictDeserializer detects unions without a known member. The client reads a union twice. First
// it opens the union, directly after the key, element or member that the union belongs to. After
// the value, the client checks that no other member follows. Only the first read must find a
// member.
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
