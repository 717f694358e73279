package terminal

import "testing"

func TestWrap(t *testing.T) {
	text := "one two\nthree four\n\nsuch as:\n  an example that stays\n\nEnde gut, alles gut, größer"
	for width, want := range map[int]string{
		0:  text,
		14: "one two three\nfour\n\nsuch as:\n  an example that stays\n\nEnde gut,\nalles gut,\ngrößer",
		3:  "one\ntwo\nthree\nfour\n\nsuch as:\n  an example that stays\n\nEnde\ngut,\nalles\ngut,\ngrößer",
	} {
		if got := Wrap(text, width); got != want {
			t.Errorf("%d: %q, want %q", width, got, want)
		}
	}
}
