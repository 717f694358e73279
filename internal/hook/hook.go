package hook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dynamodb-bigtable/replicator/internal/cutover"
	"github.com/dynamodb-bigtable/replicator/internal/environment"
)

// Hook is one hook: a command, or an address.
type Hook struct {
	Command []string // words; the first is the path of the executable
	URL     *url.URL
}

// Parse parses a hook of a configuration: an https:// address, or the words of a command with
// spaces between them. No shell runs the command. A relative path with a separator starts at dir.
// Plain http is allowed only for addresses of this machine.
func Parse(text, dir string) (Hook, error) {
	if strings.Contains(text, "://") {
		u, err := ParseAddress(text)
		if err != nil {
			return Hook{}, err
		}
		return Hook{URL: u}, nil
	}
	words := strings.Fields(text)
	if len(words) == 0 {
		return Hook{}, errors.New("it is neither a command nor an https address")
	}
	if at := strings.IndexAny(text, "\"'`\\$|&;<>*?"); at >= 0 {
		return Hook{}, fmt.Errorf("the command runs without a shell, so %q has no effect; put the line into a script", text[at:at+1])
	}
	for i, word := range words { // includes arguments, because a wrapper has the command as an argument
		if strings.HasPrefix(word, "./") || strings.HasPrefix(word, "../") || i == 0 && strings.ContainsRune(word, '/') && !filepath.IsAbs(word) {
			words[i] = filepath.Join(dir, word)
			if !filepath.IsAbs(words[i]) {
				words[i] = "./" + words[i] // a path, so that it is not searched in PATH
			}
		}
	}
	return Hook{Command: words}, nil
}

// ParseAddress parses an https:// address. Plain http is allowed only for addresses of this machine.
// The error does not show the address, because it may contain a secret.
func ParseAddress(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("the address is not valid")
	case u.Scheme == "http" && !environment.IsLoopback(u.Hostname()):
		return nil, errors.New("http would send the token unencrypted; use https, or http on this machine")
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, fmt.Errorf("%s:// is not supported; use https, or http on this machine", u.Scheme)
	case u.Hostname() == "":
		return nil, errors.New("the address has no host")
	}
	return u, nil
}

// NewClient returns a client that does not follow redirects. Transport, if not nil, sends the
// requests; otherwise they obey the proxy variables of the environment.
func NewClient(transport http.RoundTripper) *http.Client {
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// WithoutAddress returns the cause of a failed request without its address, which may contain a
// secret.
func WithoutAddress(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}

// String names the hook without parts of its address that may be secret.
func (h Hook) String() string {
	if h.URL != nil {
		return h.URL.Scheme + "://" + h.URL.Host + h.URL.EscapedPath()
	}
	return strings.Join(h.Command, " ")
}

// Hooks holds the hooks of a configuration. It implements cutover.Hooks.
type Hooks struct {
	// Heard, if not nil, is called with the end of each call's output, without text that looks like
	// a secret. It may only write to this process's log.
	Heard func(call cutover.Call, output string)

	// Rollback are the hooks of a rollback; nil if none are configured.
	Rollback *Hooks

	hooks  map[string]Hook
	client *http.Client
}

// New returns callable hooks. All names in cutover.HookNames must be given, except optional ones.
// Transport, if not nil, sends the HTTPS calls.
func New(hooks map[string]Hook, transport http.RoundTripper, optional ...string) (*Hooks, error) {
	for _, name := range cutover.HookNames {
		if slices.Contains(optional, name) {
			continue
		}
		if h := hooks[name]; h.URL == nil && len(h.Command) == 0 {
			return nil, fmt.Errorf("hook %s is missing", name)
		}
	}
	return &Hooks{hooks: hooks, client: NewClient(transport)}, nil
}

var _ cutover.Hooks = (*Hooks)(nil)

// promise is what the hook freeze_writes answers if the application is quiet: the last line of a
// command's output, or the value of OutcomeHeader. The answer to a probe means that the hook may
// promise this. There, a command may print other words in that line.
const promise = "quiet"

// promises reports whether the last line of a call's output, or its header, is a promise.
func promises(call cutover.Call, said string) bool {
	if call.Hook != cutover.FreezeWrites {
		return false
	}
	return strings.EqualFold(said, promise) || call.Probe && slices.Contains(strings.Fields(said), promise)
}

// Call implements cutover.Hooks. If ctx ends, Call kills a command with its whole process group,
// and returns soon. Said describes how the call ended, with the last line that the hook printed.
func (h *Hooks) Call(ctx context.Context, call cutover.Call) (said string, outcome cutover.Outcome) {
	of := h
	if call.Direction == cutover.Back && h.Rollback != nil {
		of = h.Rollback
	} else if call.Direction == cutover.Back {
		return "cutover.rollback_hooks are not configured", cutover.HookUnknown
	}
	how, output, outcome := of.call(ctx, call)
	if h.Heard != nil && output != "" {
		h.Heard(call, cutover.Redact(output))
	}
	said = lastLine(output)
	if how != "" && said != "" {
		how += ": "
	}
	return cutover.Redact(how + said), outcome
}

// call makes a call and returns its outcome and the end of the hook's output. If the outcome is not
// done, the result `how` describes how the call ended.
func (h *Hooks) call(ctx context.Context, call cutover.Call) (how, output string, outcome cutover.Outcome) {
	hook := h.hooks[call.Hook]
	switch {
	case ctx.Err() != nil:
		return "it was not called, because the deadline had passed", "", cutover.HookUnknown
	case hook.URL != nil:
		return h.post(ctx, hook.URL, call)
	case len(hook.Command) > 0:
		return run(ctx, hook.Command, call)
	}
	return "this hook is not configured", "", cutover.HookUnknown
}
