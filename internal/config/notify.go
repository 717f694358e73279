package config

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/environment"
)

// Given reports whether notifications or heartbeats are configured.
func (n Notify) Given() bool { return n.Heartbeat != "" || len(n.To) > 0 }

// plainVariable matches values that are only a variable, without a default.
var plainVariable = regexp.MustCompile(`^\$\{[A-Za-z_][A-Za-z0-9_]*(:-|:\?[^}]*)?\}$`)

// cut is where Print cuts an address.
const cut = "/…"

// withoutSecret returns an address as Print shows it: its variable as written, or only its host.
func (c *Config) withoutSecret(address, path string) string {
	if written := c.forms[path].value; plainVariable.MatchString(written) {
		return written
	}
	u, err := url.Parse(address)
	if err != nil || u.RawQuery+strings.Trim(u.Path, "/")+u.Fragment == "" {
		return escapeDollars(address)
	}
	return escapeDollars(u.Scheme + "://" + u.Host + cut)
}

// checkAddress refuses addresses to which no notification is sent. It does not show them.
func checkAddress(s string) *fault {
	const what, fix = "this address is not accepted", "write an https:// address, or http:// for this machine"
	u, err := url.Parse(s)
	switch {
	case err != nil || len(s) > longestText || u.Hostname() == "":
		return &fault{diag.InvalidValue, what, "it cannot be parsed", fix}
	case u.User != nil:
		return &fault{diag.InvalidValue, what, "it has a user or a password", "remove them; use secret_file or secret_env"}
	case strings.HasSuffix(s, cut):
		return &fault{diag.InvalidValue, what, "it was printed without its secret part", "write the whole address, or ${NAME}"}
	case u.Scheme == "https" || u.Scheme == "http" && environment.IsLoopback(u.Hostname()):
		return nil
	}
	return &fault{diag.InvalidValue, what, "notifications are sent by https, or by http on this machine", fix}
}

// checkNotify refuses receivers whose keys do not fit together.
func (d *decoder) checkNotify(c *Config) {
	for i, r := range c.Notify.To {
		path := fmt.Sprintf("notify.to[%d]", i)
		report := func(code, what, cause, fix string) {
			d.report(diag.Error{Code: code, Pos: c.Where(path), What: path + ": " + what, Cause: cause, Fix: fix})
		}
		switch secret := r.SecretFile != "" || r.SecretEnv != ""; {
		case d.bad[path] || d.bad[path+".url"] || d.bad[path+".format"] || d.bad[path+".secret_env"]:
		case r.URL != "" && r.URLFile != "":
			report(diag.InvalidValue, "url and url_file exclude each other", "both name the address", "remove one of them")
		case r.URL == "" && r.URLFile == "" && r.Format != "pagerduty":
			report(diag.MissingValue, "the address is missing", "neither url nor url_file is given", "add url or url_file")
		case r.SecretFile != "" && r.SecretEnv != "":
			report(diag.InvalidValue, "secret_file and secret_env exclude each other", "both name the secret", "remove one of them")
		case !secret && r.Format == "pagerduty":
			report(diag.MissingValue, "the routing key is missing", "PagerDuty accepts events only with a routing key", "add secret_file or secret_env")
		case secret && r.Format == "slack":
			report(diag.InvalidValue, "slack uses no secret", "the address of an incoming webhook is its secret", "remove secret_file and secret_env; name the address with url_file or ${NAME}")
		}
	}
}
