package deadletter

// Help of the commands.
const (
	Help = `List or drop the messages in the dead-letter topic, by the subscription relay.dead_letter. While it
holds a message, no table is in sync.

  missing   the relay published the change; it is not known to be applied
  applied   the change was applied since, or a load covers it
  refused   the ledger does not have it; something else publishes
  foreign   it is no message of this migration`

	ListHelp = `List the messages in the dead letter with their states and reasons. No item data is shown. The
messages stay where they are.

Pub/Sub may not show all messages at once.`

	DropHelp = `Remove messages from the dead letter for good. Their changes are not applied.

A message in state missing is a change that its row does not have. Repair the row with
replicator verify --repair, and load the table: until then it is not in sync. The command prints
both commands. Messages in the other states can be dropped without loss.

Each drop is logged without item data.

REF is a hash of the message's data, as "list" prints it. Its first 8 digits or more will do, if
they are unique.`
)
