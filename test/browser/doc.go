// Package browser shows the pages of the program to a real browser, headless Chromium, and looks at them as people do: live, stale,
// in the dark, on a phone, with the keyboard alone, without scripts, on paper. axe-core checks what it can of their accessibility.
// `make browser` brings what is needed and runs it.
package browser
