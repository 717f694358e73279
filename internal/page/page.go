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

// Style returns the content of the page's style element.
func Style() template.CSS { return template.CSS(style) }

// Policy returns the Content-Security-Policy of a page, which allows only the page's own style.
func Policy() string {
	return "default-src 'none'; style-src " + admitted(style) + "; base-uri 'none'; form-action 'none'"
}

// LivePolicy returns the policy of a page that a script updates. The policy allows only the page's
// own style, script and embedded icon, and requests to its own origin. It forbids other pages to
// embed the page in a frame.
func LivePolicy(style template.CSS, script template.JS) string {
	return "default-src 'none'; style-src " + admitted(string(style)) + "; script-src " + admitted(string(script)) +
		"; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

// admitted returns the expression of a policy that allows only this text, by its hash.
func admitted(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
