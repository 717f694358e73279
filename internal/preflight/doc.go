// Package preflight is the way to both ends, and what is asked of them before anything begins: credentials,
// tables and streams, the app profile, the target's tables. It explains what they refuse, with cause and
// fix, and creates nothing before everything was accepted.
package preflight
