package tablepolicy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// maxSize is the largest policy that DynamoDB accepts, in bytes. It counts white space.
const maxSize = 20 << 10

// errTooLarge is the error of a policy that is too large with the statement of the freeze.
var errTooLarge = errors.New("the table's resource policy is over 20 KB with the statement of the freeze: shorten the policy, or freeze writes by hooks")

// span is a value in a JSON text: the bytes from start to end. A member of an object has a name.
type span struct {
	name       string
	start, end int
}

func (s span) of(text string) string { return text[s.start:s.end] }

// parts returns the members of a JSON object or the elements of a JSON array, and the offset of its
// closing bracket. The bracket `open` says which of them the text must be.
func parts(text string, open json.Delim) (spans []span, closing int, err error) {
	dec := json.NewDecoder(strings.NewReader(text))
	if token, err := dec.Token(); err != nil || token != open {
		return nil, 0, fmt.Errorf("it is not a JSON value that begins with %s", open)
	}
	for dec.More() {
		var s span
		if open == '{' {
			token, err := dec.Token()
			if err != nil {
				return nil, 0, err
			}
			s.name, _ = token.(string)
		}
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return nil, 0, err
		}
		s.end = int(dec.InputOffset())
		s.start = s.end - len(raw)
		spans = append(spans, s)
	}
	if _, err := dec.Token(); err != nil {
		return nil, 0, err
	}
	closing = int(dec.InputOffset()) - 1
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, 0, errors.New("text follows after its end")
	}
	return spans, closing, nil
}

// document is a policy, as far as a freeze reads it.
type document struct {
	text       string
	closing    int    // offset of the last bracket
	members    int    // number of members
	statements []span // in the text
	list       span   // the member Statement; empty if there is none
}

// parse reads a policy. It rejects a policy of which it cannot be sure what its statements are.
func parse(text string) (document, error) {
	d := document{text: text}
	members, closing, err := parts(text, '{')
	if err != nil {
		return d, fmt.Errorf("read the table's resource policy: %w", err)
	}
	d.closing, d.members = closing, len(members)
	for _, m := range members {
		switch {
		case !strings.EqualFold(m.name, "Statement"):
		case m.name != "Statement" || d.list.end > 0:
			return d, fmt.Errorf("read the table's resource policy: its member %s is not the only one of that name, or is spelled in another way than Statement", m.name)
		default:
			d.list = m
		}
	}
	if d.list.end == 0 {
		return d, nil
	}
	if list := d.list.of(text); list[0] == '{' {
		d.statements = []span{d.list}
	} else if d.statements, _, err = parts(list, '['); err != nil {
		return d, fmt.Errorf("read the statements of the table's resource policy: %w", err)
	} else {
		for i := range d.statements {
			d.statements[i].start += d.list.start
			d.statements[i].end += d.list.start
		}
	}
	return d, nil
}

// sid returns the Sid of a statement; "" if it has none.
func (d document) sid(statement span) (string, error) {
	text := statement.of(d.text)
	members, _, err := parts(text, '{')
	if err != nil {
		return "", fmt.Errorf("read a statement of the table's resource policy: %w", err)
	}
	var sid string
	for _, m := range members {
		if m.name == "Sid" {
			if err := json.Unmarshal([]byte(m.of(text)), &sid); err != nil {
				return "", fmt.Errorf("read the Sid of a statement of the table's resource policy: %w", err)
			}
		}
	}
	return sid, nil
}

// with returns the policy with one more statement.
func (d document) with(statement string) string {
	if d.list.end > 0 {
		return d.replace(append(d.texts(nil), statement))
	}
	comma := ""
	if d.members > 0 {
		comma = ","
	}
	return d.text[:d.closing] + comma + `"Statement":[` + statement + "]" + d.text[d.closing:]
}

// texts returns the statements without those whose index is in a list.
func (d document) texts(without []int) (all []string) {
	for i, s := range d.statements {
		if !slices.Contains(without, i) {
			all = append(all, s.of(d.text))
		}
	}
	return all
}

// replace returns the policy with other statements. All other members stay as they are.
func (d document) replace(statements []string) string {
	return d.text[:d.list.start] + "[" + strings.Join(statements, ",") + "]" + d.text[d.list.end:]
}

// fit returns a policy that is not over the limit. It removes white space only if the policy is too
// large with it. So the statements of others normally stay as they are, byte by byte.
func fit(text string) (string, error) {
	if len(text) <= maxSize {
		return text, nil
	}
	var minimal bytes.Buffer
	if err := json.Compact(&minimal, []byte(text)); err != nil {
		return "", err
	}
	if minimal.Len() > maxSize {
		return "", errTooLarge
	}
	return minimal.String(), nil
}
