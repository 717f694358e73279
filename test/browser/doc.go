// Package browser tests the pages of the program in headless Chromium, as people use them: live,
// stale, in dark mode, on a phone, with only the keyboard, without scripts, and printed. axe-core
// checks their accessibility. `make browser` installs the tools and runs the tests.
package browser
