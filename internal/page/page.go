// Package page holds the style of all web pages.
package page

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
)

//go:embed page.css
var style string

// Style is the content of the page's style element.
func Style() template.CSS { return template.CSS(style) }

// Policy is the Content-Security-Policy of a page: its style is admitted, and nothing else.
func Policy() string {
	return "default-src 'none'; style-src " + admitted(style) + "; base-uri 'none'; form-action 'none'"
}

// LivePolicy is that of a page which a script keeps up to date: its style and its script are admitted, an icon that is written in it,
// requests to where the page comes from, and nothing else. No page may frame it.
func LivePolicy(style template.CSS, script template.JS) string {
	return "default-src 'none'; style-src " + admitted(string(style)) + "; script-src " + admitted(string(script)) +
		"; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

// admitted is the source of a policy that a text alone matches.
func admitted(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
