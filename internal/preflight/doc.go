// Package preflight probes both clouds before a start. It explains every refusal, with cause and
// fix. It creates nothing until all checks have passed.
package preflight
