// Package hook calls the hooks of a cutover: programs and addresses. A hook is an executable of
// this machine, or an address that is asked by HTTPS.
//
// A command gets the environment of the worker, and:
//
//	CUTOVER_HOOK    freeze_writes, switch or unfreeze_writes
//	CUTOVER_STEP    the step of the cutover that calls
//	CUTOVER_TABLES  the source tables, with a comma between them
//	CUTOVER_TOKEN   attempt.step.call: rises with every call; a lower one was sent before, and is late
//
// A probe calls it with the argument --probe, with CUTOVER_PROBE=1 and without a token: the command
// must do nothing, and exits 0 if it could. An address gets one POST with the same as headers
// (Cutover-Hook, Cutover-Step, Cutover-Tables, Cutover-Token, Cutover-Probe) and as a JSON body.
//
// Exit status 0, or an HTTP status of 2xx, means done. A refusal promises that nothing was done, by this
// call and by those before it: of a switch exit status 77 alone, of the other hooks any from 1 to 125
// but 75, of an address an HTTP status of 4xx with the header Cutover-Outcome: refused. All else, a
// late token (75) included, leaves unknown what became of it.
package hook
