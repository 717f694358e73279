// Package hook calls the hooks of a cutover: programs and addresses. A hook is an executable on
// this machine, or an address that is called by HTTPS.
//
// A command gets the environment of the worker, and:
//
//	CUTOVER_HOOK       freeze_writes, switch or unfreeze_writes
//	CUTOVER_STEP       the current step of the cutover
//	CUTOVER_DIRECTION  forward, or back in a rollback
//	CUTOVER_GROUP      the name of the group of tables that are cut over together
//	CUTOVER_TABLES     the source tables, with a comma between them
//	CUTOVER_TOKEN      attempt.step.call: rises with every call for a group; a lower one of the group is late
//
// A probe calls a command with the argument --probe, with CUTOVER_PROBE=1 and without a token. The
// command must do nothing. It must exit with 0 if it could do its work. An address gets one POST
// with the same values as headers (Cutover-Hook, Cutover-Step, Cutover-Direction, Cutover-Group, Cutover-Tables,
// Cutover-Token, Cutover-Probe) and as a JSON body.
//
// Exit status 0, or an HTTP status of 2xx, means done. A refusal promises that neither this call
// nor earlier calls did anything. For a switch, only exit status 77 is a refusal. For the other
// hooks it is any status from 1 to 125 except 75. For an address it is an HTTP status of 4xx with
// the header Cutover-Outcome: refused. After any other result, including a late token (75), the
// outcome is unknown.
package hook
