package diag

import "testing"

func TestPasswordsOfURLsAreNotShown(t *testing.T) {
	for text, want := range map[string]string{
		`parse "https://user:s3cret%zz@host/x": invalid`:    `parse "https://xxxxx@host/x": invalid`,
		"proxy http://user:a/b@c@host:1 fails":              "proxy http://xxxxx@host:1 fails",
		"https://token@host":                                "https://xxxxx@host",
		"https://iam.example/v1/accounts/a@b.iam.example:x": "https://iam.example/v1/accounts/a@b.iam.example:x",
		"mail a@b.example about https://host/":              "mail a@b.example about https://host/",
	} {
		for _, e := range []*Error{{Code: Internal, What: "what", Cause: text}, {Code: Internal, What: text}} {
			if f := e.Facts(); f.What != want && f.Cause != want {
				t.Errorf("%q: %+v", text, f)
			}
		}
	}
}
