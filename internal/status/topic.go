package status

import (
	"fmt"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// stepApply is the step that is shown as failing while a message is in the dead-letter topic.
const stepApply = "apply messages"

// fromTopic adds the state of the dead-letter topic, for a table that is applied from a topic.
func (t *Table) fromTopic(in TableInput) {
	if in.State.Apply != checkpoint.Topic {
		return
	}
	t.DeadLetter = in.Dead.Messages
	if in.Dead.Messages > 0 {
		t.troubled(checkpoint.Trouble{Step: stepApply, Since: in.Dead.Since,
			Cause: fmt.Sprintf("at least %s in the dead-letter topic; no applier could apply them", terminal.Plural(in.Dead.Messages, "message"))}, 0)
	}
}
