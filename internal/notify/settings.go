package notify

import (
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net/mail"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"payonce/activities"
	"payonce/internal/secret"
	"payonce/internal/setting"
	"payonce/workflows"
)

// The variables. The secrets of one endpoint follow its name: NOTIFY_OPS_SECRETS. A - in the name is a _ there.
const (
	EnvNotify       = "NOTIFY" // "ops=https://hooks.example/payonce,mail=mailto:ops@example.com"
	EnvSMTP         = "NOTIFY_SMTP"
	EnvFrom         = "NOTIFY_FROM"
	EnvAllowPrivate = "NOTIFY_ALLOW_PRIVATE"
	EnvCAFile       = "NOTIFY_CA_FILE"
	EnvPrefix       = "NOTIFY_"
	envSecrets      = "SECRETS"
)

// The bounds of a signing secret, by Standard Webhooks.
const (
	secretBytesMin = 24
	secretBytesMax = 64
	secretPrefix   = "whsec_"
)

const smtpPortDefault = 587

var (
	errURL = errors.New("its URL can't be read: it must be like https://hooks.example/payonce, a comma in it as %2C")
	// errSecret tells nothing of the secret.
	errSecret = fmt.Errorf("each secret must be %s and the base64 of %d to %d bytes", secretPrefix, secretBytesMin, secretBytesMax)
)

// Settings are what an operator sets for all endpoints.
type Settings struct {
	Endpoints    []Endpoint
	SMTP         SMTP
	From         *mail.Address
	Roots        *x509.CertPool // who may have signed certificates; nil: whom the system trusts
	AllowPrivate bool           // webhooks may go to addresses that are not public, and over http to this machine
}

// Endpoint is one to be told: by a webhook, or by e-mail if To has somebody.
type Endpoint struct {
	Name    string
	URL     secret.Text // of a webhook: it may have a token in it
	Secrets []secret.Text
	To      []*mail.Address
}

// SMTP is the server that takes e-mail.
type SMTP struct {
	Host     string
	Port     int
	User     string // "": without authentication
	Password secret.Text
}

// New returns the endpoints by their names. It opens no connection. The error is of the settings.
func New(s Settings) (map[string]activities.Notifier, error) {
	endpoints := make(map[string]activities.Notifier, len(s.Endpoints))
	for _, endpoint := range s.Endpoints {
		if len(endpoint.To) > 0 {
			endpoints[endpoint.Name] = newMailbox(s.SMTP, s.From, endpoint.To, s.Roots)
			continue
		}
		hook, err := newWebhook(endpoint.URL, endpoint.Secrets, s.Roots, s.AllowPrivate)
		if err != nil {
			return nil, fmt.Errorf("endpoint %s: %w", endpoint.Name, err)
		}
		endpoints[endpoint.Name] = hook
	}
	return endpoints, nil
}

// ReadSettings reads the settings of all endpoints, in the order of NOTIFY; none if that is not set. Each wrong setting is told
// to fail, without anything secret in it; the settings are for use only if there was none.
func ReadSettings(env setting.Env, fail func(variable, reason string)) Settings {
	r := reader{setting.NewReader(env, fail)}
	s := Settings{SMTP: r.smtp(), From: r.from(), Roots: r.Roots(EnvCAFile), AllowPrivate: r.Yes(EnvAllowPrivate)}
	mails := false
	for i, entry := range r.Entries(EnvNotify) {
		name, address, _ := strings.Cut(entry, "=")
		name, address = strings.TrimSpace(name), strings.TrimSpace(address)
		switch {
		case workflows.CheckEndpointName("name", name) != nil:
			// What is before = may be a part of a URL, and a URL may have a token in it.
			fail(EnvNotify, fmt.Sprintf("entry %d has no name: it must be like ops=https://hooks.example/payonce, the name in lower-case "+
				"letters, digits and -, a letter first, at most %d; a comma in a URL is %%2C", i+1, workflows.EndpointBytesMax))
		case slices.ContainsFunc(s.Endpoints, func(other Endpoint) bool { return other.Name == name }):
			fail(EnvNotify, fmt.Sprintf("the endpoint %s is there twice", name))
		default:
			endpoint := r.endpoint(name, address, s.AllowPrivate)
			mails = mails || len(endpoint.To) > 0
			s.Endpoints = append(s.Endpoints, endpoint)
		}
	}
	if mails && r.Get(EnvSMTP) == "" {
		fail(EnvSMTP, "it is needed for an endpoint that is a mailto: the server that takes the e-mail, smtp://USER:PASSWORD@HOST:587")
	}
	if mails && r.Get(EnvFrom) == "" {
		fail(EnvFrom, "it is needed for an endpoint that is a mailto: who the e-mail is from, such as payonce@example.com")
	}
	r.CheckOthers(EnvPrefix, "no endpoint of NOTIFY has such a setting")
	return s
}

type reader struct{ *setting.Reader }

func (r *reader) endpoint(name, address string, allowPrivate bool) Endpoint {
	endpoint := Endpoint{Name: name}
	if list, ok := strings.CutPrefix(address, "mailto:"); ok {
		to, err := parseMailto(list)
		if err != nil {
			r.Fail(EnvNotify, fmt.Sprintf("the endpoint %s: %s", name, err))
		}
		endpoint.To = to
		return endpoint
	}
	if _, err := parseWebhookURL(address, allowPrivate); err != nil {
		r.Fail(EnvNotify, fmt.Sprintf("the endpoint %s: %s", name, err))
	}
	endpoint.URL = secret.Text(address)
	variable := setting.Of(EnvPrefix, name, envSecrets)
	for one := range strings.SplitSeq(r.Get(variable), ",") {
		if one = strings.TrimSpace(one); one != "" {
			endpoint.Secrets = append(endpoint.Secrets, secret.Text(one))
		}
	}
	if len(endpoint.Secrets) == 0 {
		r.Fail(variable, "it is needed: without a signature, anybody could send what the endpoint gets")
	}
	for _, one := range endpoint.Secrets {
		if checkSecret(one) != nil {
			r.Fail(variable, errSecret.Error())
			break
		}
	}
	return endpoint
}

func checkSecret(s secret.Text) error {
	encoded, ok := strings.CutPrefix(s.Reveal(), secretPrefix)
	key, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil || len(key) < secretBytesMin || len(key) > secretBytesMax {
		return errSecret
	}
	return nil
}

// parseWebhookURL reads a webhook's address. The error has no part of it.
func parseWebhookURL(address string, allowPrivate bool) (*url.URL, error) {
	at, err := url.Parse(address)
	switch {
	case err != nil || at.Hostname() == "" || at.Opaque != "":
		return nil, errURL
	case at.User != nil:
		return nil, errors.New("its URL must not have a user or a password in it: the signature tells the receiver who sends")
	case at.Fragment != "":
		return nil, errors.New("its URL must end before #")
	case at.Scheme == "https":
		return at, nil
	case at.Scheme == "http" && setting.IsLoopback(at.Hostname()) && allowPrivate:
		return at, nil
	case at.Scheme == "http" && setting.IsLoopback(at.Hostname()):
		return nil, fmt.Errorf("its URL must begin with https://, or, to this machine, with http:// when %s is true", EnvAllowPrivate)
	default:
		return nil, errors.New("its URL must begin with https://")
	}
}

// parseMailto reads recipients: ops@example.com, and more after %2C. The error has no part of them.
func parseMailto(list string) ([]*mail.Address, error) {
	errForm := errors.New("it must be like mailto:ops@example.com, with more recipients after %2C")
	list, err := url.PathUnescape(list)
	if err != nil || strings.ContainsAny(list, "?&") {
		return nil, errForm
	}
	to, err := mail.ParseAddressList(list)
	if err != nil || len(to) == 0 || slices.ContainsFunc(to, func(one *mail.Address) bool { return one.Name != "" }) {
		return nil, errForm
	}
	return to, nil
}

func (r *reader) smtp() SMTP {
	value := r.Get(EnvSMTP)
	if value == "" {
		return SMTP{}
	}
	at, err := url.Parse(value)
	if err != nil || at.Scheme != "smtp" || at.Hostname() == "" || strings.Trim(at.Path, "/") != "" || at.RawQuery != "" {
		r.Fail(EnvSMTP, "it can't be read: it must be like smtp://USER:PASSWORD@HOST:587, special characters percent-encoded")
		return SMTP{}
	}
	s := SMTP{Host: at.Hostname(), Port: smtpPortDefault, User: at.User.Username()}
	if password, ok := at.User.Password(); ok {
		s.Password = secret.Text(password)
	}
	if port := at.Port(); port != "" {
		if s.Port, err = strconv.Atoi(port); err != nil || s.Port < 1 || s.Port > 65535 {
			r.Fail(EnvSMTP, "its port is not one from 1 to 65535")
		}
	}
	return s
}

func (r *reader) from() *mail.Address {
	value := r.Get(EnvFrom)
	if value == "" {
		return nil
	}
	from, err := mail.ParseAddress(value)
	if err != nil {
		r.Fail(EnvFrom, fmt.Sprintf("%q is not an address such as payonce@example.com", value))
	}
	return from
}
