package status

import (
	"fmt"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// stepApply is what fails while a message stands in the dead letter.
const stepApply = "apply messages"

// fromTopic tells of the dead letter of a table that is applied from a topic.
func (t *Table) fromTopic(in TableInput) {
	if in.State.Apply != checkpoint.Topic {
		return
	}
	t.DeadLetter = in.Dead.Messages
	if in.Dead.Messages > 0 {
		t.troubled(checkpoint.Trouble{Step: stepApply, Since: in.Dead.Since,
			Cause: fmt.Sprintf("at least %s in the dead-letter topic; no applier could read them", terminal.Plural(in.Dead.Messages, "message"))}, 0)
	}
}
