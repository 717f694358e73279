package relay

import (
	_ "embed"
	"encoding/json"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// These constants are the names in a message of a parked item.
const (
	// ParkedType is the type of the CloudEvent.
	ParkedType = "com.github.dynamodb-bigtable.replicator.parked"
	// ParkedSchemaV1 names the format of ParkedBody. Later versions of the program may add members
	// to it.
	ParkedSchemaV1 = "replicator.parked/v1"
)

// parkedSchema is generated from the tags of ParkedBody by TestSchemaIsGenerated.
//
//go:embed parked.schema.json
var parkedSchema []byte

// ParkedJSONSchema returns the JSON Schema (draft 2020-12) of a message of a parked item: a
// CloudEvent whose data is a ParkedBody.
func ParkedJSONSchema() []byte { return parkedSchema }

// ParkedBody is the data of the CloudEvent in a message of a parked item.
type ParkedBody struct {
	Schema   string          `json:"schema" desc:"replicator.parked/v1" const:"replicator.parked/v1"`
	Table    string          `json:"table" desc:"source table"`
	Ref      string          `json:"ref" desc:"name of the entry: table/hash of the key/version. Use it with replicator parked show and retry"`
	Reason   string          `json:"reason" desc:"why the target cannot hold the item, without its data"`
	Version  string          `json:"version" desc:"rank of the change in the history of its item, as in messages of changes. Compare as text" pattern:"^[0-9]{8}\\.[0-9]{6}\\.[0-9]{40}\\.[0-9]{4}$"`
	Event    string          `json:"event" desc:"change of the item; INSERT or REMOVE also for an item that a load found" enum:"INSERT,MODIFY,REMOVE"`
	Time     string          `json:"time" desc:"when the change was made, or when the load read the item" format:"date-time"`
	Keys     json.RawMessage `json:"keys" desc:"primary key, in DynamoDB JSON"`
	Old      json.RawMessage `json:"old,omitempty" desc:"item before the change, in DynamoDB JSON; absent if there was none, and if images are omitted"`
	New      json.RawMessage `json:"new,omitempty" desc:"item after the change, in DynamoDB JSON; absent for a remove, and if images are omitted"`
	Omitted  Omission        `json:"omitted,omitempty" desc:"why there are no images" enum:"too_large"`
	Sequence string          `json:"sequence" desc:"sequence number of the stream's record; for a load, the second of its read" pattern:"^[0-9]{1,40}$"`
}

// EncodeParked returns the message of an item that the named migration has parked. The argument
// `ref` names the item's entry in the state table, where the entry stays. Images that do not fit
// into a message are omitted.
func EncodeParked(migration, ref string, p transform.Parked) (Message, error) {
	m, err := encodeParked(migration, ref, p, "")
	if err != nil || len(m.Data) <= MaxData {
		return m, err
	}
	return encodeParked(migration, ref, p, TooLarge)
}

func encodeParked(migration, ref string, p transform.Parked, omitted Omission) (Message, error) {
	c := p.Change
	body := ParkedBody{Schema: ParkedSchemaV1, Table: p.Source, Ref: ref, Reason: p.Reason, Version: string(p.Version), Event: c.Event.String(), Time: stamp(c.Time),
		Omitted: omitted, Sequence: c.Sequence.String()}
	var err error
	if body.Keys, err = attribute.MarshalItem(c.Keys); err != nil {
		return Message{}, err
	}
	if omitted == "" {
		if body.Old, err = image(c.Old); err != nil {
			return Message{}, err
		}
		if body.New, err = image(c.New); err != nil {
			return Message{}, err
		}
	}
	subject, err := Subject(p.Source, c.Keys) // also the ordering key, because parked items are few
	if err != nil {
		return Message{}, err
	}
	data, err := appendEvent(nil, ParkedType, ref, "/replicator/"+migration, subject, c.Time)
	if err != nil {
		return Message{}, err
	}
	data = append(append(data, marshal(body)...), '}')
	return Message{Data: data, Key: subject, Attributes: map[string]string{
		"content-type": ContentType, "table": p.Source, "event": body.Event, "version": body.Version, "schema": ParkedSchemaV1,
	}}, nil
}
