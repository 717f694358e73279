// Package preflight connects to both clouds and probes them before a start. It explains what they
// refuse, with cause and fix, and creates nothing before everything was accepted.
package preflight
