package terminal

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// Interactive reports whether there is a terminal on which the user can answer questions.
func Interactive() bool {
	return term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stderr.Fd()))
}

// Asking returns a function that asks questions on stderr as Confirm does; nil without a terminal.
func Asking(stderr io.Writer) func(ctx context.Context, question string) error {
	if !Interactive() {
		return nil
	}
	return func(ctx context.Context, question string) error { return Confirm(ctx, os.Stdin, stderr, question) }
}

// Confirm asks a question, and returns nil only after the answer "yes". After any other answer it
// returns a usage error. A signal ends the wait.
func Confirm(ctx context.Context, in io.Reader, out io.Writer, question string) error {
	question += " [y/N] "
	if terminal(out) == nil { // if stderr is a log, a line appears only after its end
		question += "\n"
	}
	if _, err := io.WriteString(out, question); err != nil {
		return err
	}
	type line struct {
		text string
		err  error
	}
	read := make(chan line, 1)
	go func() { // keeps running after a signal, because a read from a terminal cannot be cancelled
		text, err := bufio.NewReader(in).ReadString('\n')
		read <- line{text, err}
	}()
	var answer line
	select {
	case answer = <-read:
	case <-ctx.Done():
		return Ended(ctx)
	}
	if answer.err != nil && !errors.Is(answer.err, io.EOF) {
		return answer.err
	}
	switch strings.ToLower(strings.TrimSpace(answer.text)) {
	case "y", "yes":
		return nil
	}
	return diag.BadUsage("not confirmed; nothing was changed", "answer y, or add --yes")
}
