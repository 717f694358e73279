package diag

import "regexp"

// userinfo matches the part before the host of a URL: a user and a password, or a token.
var userinfo = regexp.MustCompile(`://(?:[^\s"/:@]*:[^\s"]*|[^\s"/@]+)@`)

// withoutPasswords removes users and passwords from the URLs of a text. It is needed because causes
// quote addresses of endpoints and proxies in full.
func withoutPasswords(text string) string { return userinfo.ReplaceAllString(text, "://xxxxx@") }
