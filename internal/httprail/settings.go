package httprail

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"payonce/internal/secret"
	"payonce/internal/setting"
)

// EnvRails names the rails and where they are: "bank=https://bank.example/v1,card=https://…".
const EnvRails = "RAILS"

// The settings of one rail follow its name: RAIL_BANK_TOKEN. A - in the name is a _ there.
const (
	envPrefix     = "RAIL_"
	envToken      = "TOKEN"
	envHMACSecret = "HMAC_SECRET"
	envCAFile     = "CA_FILE"
	envKeysKept   = "KEYS_KEPT"
	envPlainHTTP  = "PLAIN_HTTP"
)

const (
	// KeysKeptDefault is how long a rail is taken to keep keys when nothing is set: half of the day that most keep them.
	KeysKeptDefault = 12 * time.Hour

	// hmacSecretBytesMin is the length of the hash: a shorter secret would be the weakest part.
	hmacSecretBytesMin = 32
)

// Settings are what an operator sets for one rail.
type Settings struct {
	Name string
	URL  string // the base: https, or http to this machine
	// Token is sent as a bearer token, HMACSecret signs requests and is what callbacks are checked with. At least one is set.
	Token      secret.Text
	HMACSecret secret.Text
	Roots      *x509.CertPool // who may have signed the rail's certificate; nil: whom the system trusts
	PlainHTTP  bool           // http to another machine is allowed; for development
	// KeysKept is how long after the first submit the rail is known to keep its key. Later the payout must not be submitted
	// again: it could be paid twice.
	KeysKept time.Duration
	Timeouts Timeouts
}

// Timeouts bound a question; so does the deadline of its context. The zero value stands for DefaultTimeouts.
type Timeouts struct {
	Connect time.Duration // of the connection, and again of its TLS handshake
	Headers time.Duration // from the request's end to the answer's headers
	Whole   time.Duration // of all of it, the body included
}

// DefaultTimeouts are those that hold when none are set.
func DefaultTimeouts() Timeouts {
	return Timeouts{Connect: 5 * time.Second, Headers: 20 * time.Second, Whole: 25 * time.Second}
}

var railName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)

// ReadSettings reads the settings of all rails, in the order of RAILS; none if that is not set. Each wrong setting is told
// to fail, without anything secret in it; the settings are for use only if there was none.
func ReadSettings(env setting.Env, fail func(variable, reason string)) []Settings {
	r := reader{setting.NewReader(env, fail)}
	var all []Settings
	for i, entry := range r.Entries(EnvRails) {
		name, address, _ := strings.Cut(entry, "=")
		name, address = strings.TrimSpace(name), strings.TrimSpace(address)
		switch {
		case !railName.MatchString(name):
			// What is before = may be a part of a URL, and a URL may have a password in it.
			fail(EnvRails, fmt.Sprintf("entry %d has no name: it must be like bank=https://bank.example/v1, the name in lower-case "+
				"letters, digits and -, a letter first, at most 32", i+1))
		case slices.ContainsFunc(all, func(other Settings) bool { return other.Name == name }):
			fail(EnvRails, fmt.Sprintf("the rail %s is there twice", name))
		default:
			all = append(all, r.rail(name, address))
		}
	}
	r.CheckOthers(envPrefix, fmt.Sprintf("no rail of %s has such a setting", EnvRails))
	return all
}

type reader struct{ *setting.Reader }

func (r *reader) rail(name, address string) Settings {
	variable := func(of string) string { return setting.Of(envPrefix, name, of) }
	s := Settings{
		Name:       name,
		URL:        strings.TrimRight(address, "/"),
		Token:      secret.Text(r.Get(variable(envToken))),
		HMACSecret: secret.Text(r.Get(variable(envHMACSecret))),
		Roots:      r.Roots(variable(envCAFile)),
		PlainHTTP:  r.Yes(variable(envPlainHTTP)),
		KeysKept:   r.Duration(variable(envKeysKept), KeysKeptDefault),
		Timeouts:   DefaultTimeouts(),
	}
	if _, err := parseBase(s.URL, s.PlainHTTP); err != nil {
		r.Fail(EnvRails, fmt.Sprintf("the rail %s: %s", name, err))
	}
	if s.Token == "" && s.HMACSecret == "" {
		r.Fail(variable(envToken), fmt.Sprintf("set it, or %s, or both: a rail must know who asks", variable(envHMACSecret)))
	}
	if strings.ContainsFunc(s.Token.Reveal(), func(c rune) bool { return c <= ' ' || c > '~' }) {
		r.Fail(variable(envToken), "it has a blank, or a character that no header can carry")
	}
	if n := len(s.HMACSecret); 0 < n && n < hmacSecretBytesMin {
		r.Fail(variable(envHMACSecret), fmt.Sprintf("it has %d bytes; at least %d make it safe", n, hmacSecretBytesMin))
	}
	return s
}

// parseBase reads a rail's address. The error has no part of it.
func parseBase(address string, plainHTTP bool) (*url.URL, error) {
	base, err := url.Parse(address)
	switch {
	case err != nil || base.Host == "" || base.Opaque != "":
		return nil, errors.New("its URL can't be read: it must be like https://bank.example/v1")
	case base.User != nil:
		return nil, errors.New("its URL must not have a user or a password in it: set a token or a secret")
	case base.RawQuery != "" || base.ForceQuery || base.Fragment != "":
		return nil, errors.New("its URL must end with its path")
	case base.Scheme != "https" && base.Scheme != "http":
		return nil, errors.New("its URL must begin with https://")
	case base.Scheme == "http" && !plainHTTP && !setting.IsLoopback(base.Hostname()):
		return nil, errors.New("its URL must begin with https://: http would show the token and the payee to whoever is between")
	}
	base.Path = strings.TrimRight(base.Path, "/")
	base.RawPath = strings.TrimRight(base.RawPath, "/")
	return base, nil
}
