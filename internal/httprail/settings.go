package httprail

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"payonce/internal/secret"
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

// Env is the environment that settings are read from.
type Env interface {
	LookupEnv(name string) (string, bool)
	Environ() []string
}

var railName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)

// ReadSettings reads the settings of all rails, in the order of RAILS; none if that is not set. Each wrong setting is told
// to fail, without anything secret in it; the settings are for use only if there was none.
func ReadSettings(env Env, fail func(variable, reason string)) []Settings {
	r := reader{env: env, fail: fail, read: map[string]bool{}}
	var all []Settings
	for i, entry := range r.entries() {
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
	r.checkOthers()
	return all
}

// reader reads variables and remembers which.
type reader struct {
	env  Env
	fail func(variable, reason string)
	read map[string]bool
}

func (r *reader) get(variable string) string {
	r.read[variable] = true
	value, _ := r.env.LookupEnv(variable)
	return strings.TrimSpace(value)
}

func (r *reader) entries() []string {
	list := r.get(EnvRails)
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

func (r *reader) rail(name, address string) Settings {
	variable := func(setting string) string {
		return envPrefix + strings.ToUpper(strings.ReplaceAll(name, "-", "_")) + "_" + setting
	}
	s := Settings{
		Name:       name,
		URL:        strings.TrimRight(address, "/"),
		Token:      secret.Text(r.get(variable(envToken))),
		HMACSecret: secret.Text(r.get(variable(envHMACSecret))),
		Roots:      r.roots(variable(envCAFile)),
		PlainHTTP:  r.yes(variable(envPlainHTTP)),
		KeysKept:   r.duration(variable(envKeysKept), KeysKeptDefault),
		Timeouts:   DefaultTimeouts(),
	}
	if _, err := parseBase(s.URL, s.PlainHTTP); err != nil {
		r.fail(EnvRails, fmt.Sprintf("the rail %s: %s", name, err))
	}
	if s.Token == "" && s.HMACSecret == "" {
		r.fail(variable(envToken), fmt.Sprintf("set it, or %s, or both: a rail must know who asks", variable(envHMACSecret)))
	}
	if strings.ContainsFunc(s.Token.Reveal(), func(c rune) bool { return c <= ' ' || c > '~' }) {
		r.fail(variable(envToken), "it has a blank, or a character that no header can carry")
	}
	if n := len(s.HMACSecret); 0 < n && n < hmacSecretBytesMin {
		r.fail(variable(envHMACSecret), fmt.Sprintf("it has %d bytes; at least %d make it safe", n, hmacSecretBytesMin))
	}
	return s
}

// checkOthers finds what was meant for a rail and read by none: a misspelt CA file would be one that nobody asks for.
func (r *reader) checkOthers() {
	for _, pair := range r.env.Environ() {
		variable, value, _ := strings.Cut(pair, "=")
		if strings.HasPrefix(variable, envPrefix) && value != "" && !r.read[variable] {
			r.fail(variable, fmt.Sprintf("no rail of %s has such a setting", EnvRails))
		}
	}
}

func (r *reader) roots(variable string) *x509.CertPool {
	file := r.get(variable)
	if file == "" {
		return nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		r.fail(variable, err.Error())
		return nil
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		r.fail(variable, fmt.Sprintf("%s has no certificate in PEM form", file))
	}
	return roots
}

func (r *reader) yes(variable string) bool {
	switch value := r.get(variable); value {
	case "", "false":
		return false
	case "true":
		return true
	default:
		r.fail(variable, fmt.Sprintf("%q is not true or false", value))
		return false
	}
}

func (r *reader) duration(variable string, byDefault time.Duration) time.Duration {
	value := r.get(variable)
	if value == "" {
		return byDefault
	}
	d, err := time.ParseDuration(value)
	if err != nil || d <= 0 {
		r.fail(variable, fmt.Sprintf("%q is not a duration above zero, such as 30s or 24h", value))
		return byDefault
	}
	return d
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
	case base.Scheme == "http" && !plainHTTP && !isLoopback(base.Hostname()):
		return nil, errors.New("its URL must begin with https://: http would show the token and the payee to whoever is between")
	}
	base.Path = strings.TrimRight(base.Path, "/")
	base.RawPath = strings.TrimRight(base.RawPath, "/")
	return base, nil
}

func isLoopback(host string) bool {
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}
