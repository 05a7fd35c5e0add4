// Package setting reads settings from the environment, as those of rails and of endpoints are: each wrong one is told, without
// anything secret in it, and one that nobody reads is wrong too.
//
// It does not promise to know which settings there are, nor to be safe for concurrent use.
package setting

import (
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"strings"
	"time"
)

// Env is the environment that settings are read from.
type Env interface {
	LookupEnv(name string) (string, bool)
	Environ() []string
}

// Reader reads variables, tells which are wrong to Fail, and remembers which it has read.
type Reader struct {
	Fail func(variable, reason string)

	env  Env
	read map[string]bool
}

// NewReader returns a Reader that has read nothing.
func NewReader(env Env, fail func(variable, reason string)) *Reader {
	return &Reader{Fail: fail, env: env, read: make(map[string]bool)}
}

// Get is a variable's value; an empty one is as good as none.
func (r *Reader) Get(variable string) string {
	r.read[variable] = true
	value, _ := r.env.LookupEnv(variable)
	return strings.TrimSpace(value)
}

// Entries are those of a list with commas; none if it is not set.
func (r *Reader) Entries(variable string) []string {
	list := r.Get(variable)
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

// Of is the name of a setting of one of several: RAIL_ and my-bank make RAIL_MY_BANK_TOKEN.
func Of(prefix, name, setting string) string {
	return prefix + strings.ToUpper(strings.ReplaceAll(name, "-", "_")) + "_" + setting
}

// Yes is true or false, and false if it is not set.
func (r *Reader) Yes(variable string) bool {
	switch value := r.Get(variable); value {
	case "", "false":
		return false
	case "true":
		return true
	default:
		r.Fail(variable, fmt.Sprintf("%q is not true or false", value))
		return false
	}
}

// Duration is one above zero.
func (r *Reader) Duration(variable string, byDefault time.Duration) time.Duration {
	value := r.Get(variable)
	if value == "" {
		return byDefault
	}
	d, err := time.ParseDuration(value)
	if err != nil || d <= 0 {
		r.Fail(variable, fmt.Sprintf("%q is not a duration above zero, such as 30s or 24h", value))
		return byDefault
	}
	return d
}

// Roots are the certificates in a file; nil if it is not set.
func (r *Reader) Roots(variable string) *x509.CertPool {
	file := r.Get(variable)
	if file == "" {
		return nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		r.Fail(variable, err.Error())
		return nil
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		r.Fail(variable, file+" has no certificate in PEM form")
	}
	return roots
}

// CheckOthers finds what has the prefix and was read by none: a misspelt CA file would be one that nobody asks for.
func (r *Reader) CheckOthers(prefix, reason string) {
	for _, pair := range r.env.Environ() {
		variable, value, _ := strings.Cut(pair, "=")
		if strings.HasPrefix(variable, prefix) && value != "" && !r.read[variable] {
			r.Fail(variable, reason)
		}
	}
}

// IsLoopback says whether a host is this machine, by its name alone.
func IsLoopback(host string) bool { return host == "localhost" || net.ParseIP(host).IsLoopback() }
