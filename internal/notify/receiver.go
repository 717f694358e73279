package notify

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/build"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/hook"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// answerTime is the timeout of a call.
const answerTime = 10 * time.Second

// mostAnswer is how many bytes of an answer are read.
const mostAnswer = 64 << 10

// mostSecret is the maximum size of a file with a secret or an address, in bytes.
const mostSecret = 16 << 10

// receiver is one receiver of notifications.
type receiver struct {
	number                       int    // its number in notify.to, from 1
	name                         string // its number and host, for the log; never a path or a query
	hash                         string // identifies it in the ledger
	format                       string
	address, addressFile         string
	secretFile, secretEnv, place string
	ledger                       string // project, instance and table of the pipeline's ledger
	env                          config.Lookup
}

// receivers returns the receivers of a configuration.
func receivers(cfg *config.Config, env config.Lookup) []*receiver {
	var all []*receiver
	for i, to := range cfg.Notify.To {
		place := fmt.Sprintf("notify.to[%d]", i)
		file := func(key, path string) string {
			if path == "" || filepath.IsAbs(path) {
				return path
			}
			return filepath.Join(filepath.Dir(cfg.Where(place+"."+key).File), path)
		}
		r := &receiver{number: i + 1, format: cmp.Or(to.Format, formatJSON), address: to.URL, addressFile: file("url_file", to.URLFile),
			secretFile: file("secret_file", to.SecretFile), secretEnv: to.SecretEnv, place: place, env: env,
			ledger: strings.Join([]string{cfg.Target.Project, cfg.Target.Instance, cfg.State.Table}, "/")}
		if r.address == "" && r.addressFile == "" {
			r.address = pagerDutyEvents
		}
		host := "address of url_file"
		if u, err := url.Parse(r.address); err == nil && r.address != "" {
			host = u.Host
		}
		r.name = fmt.Sprintf("%d (%s, %s)", r.number, r.format, host)
		r.hash = r.identity(all)
		all = append(all, r)
	}
	return all
}

// identity returns a hash that identifies the receiver among others and in the ledger. Receivers of
// PagerDuty have the same address, so where the secret is belongs to it; the secret itself may be
// replaced.
func (r *receiver) identity(others []*receiver) string {
	text := r.format + " " + r.address + " " + r.addressFile
	if r.secretFile+r.secretEnv != "" {
		text += " " + r.secretFile + " " + r.secretEnv
	}
	for {
		sum := sha256.Sum256([]byte(text))
		hash := hex.EncodeToString(sum[:8])
		if !slices.ContainsFunc(others, func(o *receiver) bool { return o.hash == hash }) {
			return hash
		}
		text += " again" // a receiver that is listed twice
	}
}

// refusedError is a failure that a retry does not fix.
type refusedError struct{ why string }

func (e *refusedError) Error() string { return e.why }

// prepare returns the calls that send an event, and their address. No error shows an address or a
// secret.
func (r *receiver) prepare(e Event) (*url.URL, []call, error) {
	address, err := r.whereTo()
	if err != nil {
		return nil, nil, err
	}
	secret, err := r.secret()
	if err != nil {
		return nil, nil, err
	}
	all, err := calls(r.format, secret, r.ledger, e)
	if err != nil {
		return nil, nil, &refusedError{err.Error()}
	}
	return address, all, nil
}

// send sends an event with all its calls. It fails with a refusedError if the receiver refuses the
// event.
func (r *receiver) send(ctx context.Context, client *http.Client, e Event) error {
	address, all, err := r.prepare(e)
	if err != nil {
		return err
	}
	for _, c := range all {
		if err := r.post(ctx, client, address, c); err != nil {
			return err
		}
	}
	return nil
}

func (r *receiver) post(ctx context.Context, client *http.Client, address *url.URL, c call) error {
	ctx, cancel := task.WithTimeout(ctx, answerTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address.String(), bytes.NewReader(c.body))
	if err != nil {
		return errors.New("the address is not valid")
	}
	for name, values := range c.header {
		request.Header[name] = values
	}
	request.Header.Set("Content-Type", "application/json")
	return answered(client, request)
}

// answered sends a request and judges the answer.
func answered(client *http.Client, request *http.Request) error {
	request.Header.Set("User-Agent", build.UserAgent())
	answer, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("no answer: %w", hook.WithoutAddress(err))
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, mostAnswer)) // so that the connection can be used again
	return judge(answer.StatusCode)
}

// judge returns the error that an HTTP status means. A redirect is not followed, because the body
// may hold a secret.
func judge(status int) error {
	text := fmt.Sprintf("HTTP status %d", status)
	switch {
	case status/100 == 2:
		return nil
	case status/100 == 3:
		return &refusedError{text + ": redirects are not followed"}
	case status/100 == 4 && status != http.StatusRequestTimeout && status != http.StatusTooManyRequests:
		return &refusedError{text}
	}
	return errors.New(text)
}

// whereTo returns the receiver's address. A file is read each time, so that it can be replaced.
func (r *receiver) whereTo() (*url.URL, error) {
	text := r.address
	if r.addressFile != "" {
		var err error
		if text, err = readSecret(r.addressFile); err != nil {
			return nil, fmt.Errorf("cannot read %s.url_file: %w", r.place, err)
		}
	}
	u, err := hook.ParseAddress(text)
	if err == nil && u.User != nil {
		err = errors.New("the address has a user or a password")
	}
	return u, err
}

// secret returns the receiver's secret; "" if it has none.
func (r *receiver) secret() (string, error) {
	switch {
	case r.secretFile != "":
		secret, err := readSecret(r.secretFile)
		if err != nil {
			return "", fmt.Errorf("cannot read %s.secret_file: %w", r.place, err)
		}
		return secret, nil
	case r.secretEnv != "":
		if secret, _ := r.env(r.secretEnv); secret != "" {
			return strings.TrimSpace(secret), nil
		}
		return "", fmt.Errorf("%s.secret_env: environment variable %s is not set", r.place, r.secretEnv)
	}
	return "", nil
}

// readSecret returns the content of a file without spaces around it.
func readSecret(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, mostSecret))
	if err != nil {
		return "", err
	}
	text := strings.TrimSpace(string(content))
	if text == "" {
		return "", errors.New("the file is empty")
	}
	return text, nil
}

// exposed returns those files with secrets that every user of the machine may read.
func (r *receiver) exposed() (paths []string) {
	for _, path := range []string{r.addressFile, r.secretFile} {
		if info, err := os.Stat(path); path != "" && err == nil && info.Mode().Perm()&0o004 != 0 {
			paths = append(paths, path)
		}
	}
	return paths
}
