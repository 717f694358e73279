// Package page is how pages of ours look that stand for themselves: one style, and a policy that admits
// nothing but it.
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
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'"
}
