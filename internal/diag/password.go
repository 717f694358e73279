package diag

import "regexp"

// userinfo is what a URL in a text has before its host: a user and a password, or a token.
var userinfo = regexp.MustCompile(`://(?:[^\s"/:@]*:[^\s"]*|[^\s"/@]+)@`)

// withoutPasswords is a text without the users and passwords of its URLs: causes quote addresses of
// endpoints and proxies as they were set.
func withoutPasswords(text string) string { return userinfo.ReplaceAllString(text, "://xxxxx@") }
