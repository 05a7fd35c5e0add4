package notify

import (
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// variables are an environment.
type variables map[string]string

func (v variables) LookupEnv(name string) (string, bool) {
	value, ok := v[name]
	return value, ok
}

func (v variables) Environ() []string {
	var all []string
	for name, value := range v {
		all = append(all, name+"="+value)
	}
	return all
}

func readSettings(v variables) (Settings, []string) {
	var wrong []string
	s := ReadSettings(v, func(variable, reason string) { wrong = append(wrong, variable+": "+reason) })
	return s, wrong
}

func TestReadSettings(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, nil)
	file := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate().Raw}), 0o600))
	s, wrong := readSettings(variables{
		"NOTIFY":                     "ops=https://hooks.example/a?x=1%2C2, mail=mailto:ops@example.com%2Cit@example.com,back-office=http://127.0.0.1:8080/",
		"NOTIFY_OPS_SECRETS":         whsec("a").Reveal() + ", " + whsec("b").Reveal(),
		"NOTIFY_BACK_OFFICE_SECRETS": whsec("c").Reveal(),
		"NOTIFY_SMTP":                "smtp://us%40er:p%3Aw@mail.example",
		"NOTIFY_FROM":                "Payments <payonce@example.com>",
		"NOTIFY_ALLOW_PRIVATE":       "true",
		"NOTIFY_CA_FILE":             file,
	})
	require.Empty(t, wrong)
	require.Equal(t, SMTP{Host: "mail.example", Port: 587, User: "us@er", Password: "p:w"}, s.SMTP)
	require.Len(t, s.Endpoints, 3)
	require.Equal(t, []any{"ops", 2, 0}, []any{s.Endpoints[0].Name, len(s.Endpoints[0].Secrets), len(s.Endpoints[0].To)})
	require.Equal(t, []any{"mail", "it@example.com"}, []any{s.Endpoints[1].Name, s.Endpoints[1].To[1].Address})
	require.NotNil(t, s.Roots)
	endpoints, err := New(s)
	require.NoError(t, err)
	require.Len(t, endpoints, 3)
	shown := fmt.Sprintf("%v %+v %#v", s, endpoints, s.Endpoints)
	for _, endpoint := range endpoints {
		shown += fmt.Sprintf(" %+v %#v %s", endpoint, endpoint, endpoint)
	}
	for _, hidden := range []string{"hooks.example", "x=1", "p:w", strings.TrimPrefix(whsec("a").Reveal(), secretPrefix)} {
		require.NotContains(t, shown, hidden)
	}

	none, wrong := readSettings(nil)
	require.Empty(t, wrong)
	require.Empty(t, none.Endpoints)
}

// Whatever is wrong is told at once, and nothing secret with it.
func TestReadWrongSettings(t *testing.T) {
	t.Parallel()
	const hidden = "s3cr3t"
	ok := whsec("a").Reveal()
	for name, test := range map[string]struct {
		v    variables
		want []string // a part of each
	}{
		"no name":      {variables{"NOTIFY": "https://hooks.example/" + hidden}, []string{"NOTIFY: entry 1 has no name"}},
		"a long name":  {variables{"NOTIFY": strings.Repeat("a", 21) + "=https://hooks.example"}, []string{"entry 1 has no name"}},
		"twice":        {variables{"NOTIFY": "a=https://a.example,a=https://b.example", "NOTIFY_A_SECRETS": ok}, []string{"the endpoint a is there twice"}},
		"no secret":    {variables{"NOTIFY": "a=https://a.example"}, []string{"NOTIFY_A_SECRETS: it is needed"}},
		"short secret": {variables{"NOTIFY": "a=https://a.example", "NOTIFY_A_SECRETS": "whsec_" + hidden + "AA"}, []string{"NOTIFY_A_SECRETS: each secret must be whsec_"}},
		"bare secret":  {variables{"NOTIFY": "a=https://a.example", "NOTIFY_A_SECRETS": strings.TrimPrefix(ok, secretPrefix)}, []string{"NOTIFY_A_SECRETS: each secret must be whsec_"}},
		"http":         {variables{"NOTIFY": "a=http://a.example/" + hidden, "NOTIFY_A_SECRETS": ok, "NOTIFY_ALLOW_PRIVATE": "true"}, []string{"the endpoint a: its URL must begin with https://"}},
		"http here":    {variables{"NOTIFY": "a=http://localhost/" + hidden, "NOTIFY_A_SECRETS": ok}, []string{"when NOTIFY_ALLOW_PRIVATE is true"}},
		"a user":       {variables{"NOTIFY": "a=https://u:" + hidden + "@a.example", "NOTIFY_A_SECRETS": ok}, []string{"must not have a user"}},
		"no host":      {variables{"NOTIFY": "a=https:///" + hidden, "NOTIFY_A_SECRETS": ok}, []string{"its URL can't be read"}},
		"mail alone":   {variables{"NOTIFY": "m=mailto:ops@example.com"}, []string{"NOTIFY_SMTP: it is needed", "NOTIFY_FROM: it is needed"}},
		"mail form":    {variables{"NOTIFY": "m=mailto:ops"}, []string{"it must be like mailto:ops@example.com"}},
		"mail subject": {variables{"NOTIFY": "m=mailto:ops@example.com?subject=" + hidden}, []string{"it must be like mailto:ops@example.com"}},
		"mail headers": {variables{"NOTIFY": "m=mailto:ops@example.com?bcc=" + hidden + "@x.example"}, []string{"it must be like mailto:ops@example.com"}},
		"smtp":         {variables{"NOTIFY_SMTP": "http://u:" + hidden + "@mail.example"}, []string{"NOTIFY_SMTP: it can't be read"}},
		"smtp port":    {variables{"NOTIFY_SMTP": "smtp://u:" + hidden + "@mail.example:99999"}, []string{"NOTIFY_SMTP: its port"}},
		"from":         {variables{"NOTIFY_FROM": "nobody"}, []string{"NOTIFY_FROM: "}},
		"not a yes":    {variables{"NOTIFY_ALLOW_PRIVATE": "yes"}, []string{`NOTIFY_ALLOW_PRIVATE: "yes" is not true or false`}},
		"no CA":        {variables{"NOTIFY_CA_FILE": "/nowhere"}, []string{"NOTIFY_CA_FILE: "}},
		"nobody's":     {variables{"NOTIFY_OPS_SECRETS": hidden}, []string{"NOTIFY_OPS_SECRETS: no endpoint of NOTIFY has such a setting"}},
		"several at once": {
			variables{"NOTIFY": "a=https://a.example,b=ftp://b.example", "NOTIFY_ALLOW_PRIVATE": "1"},
			[]string{"NOTIFY_A_SECRETS", "NOTIFY_B_SECRETS", "the endpoint b", "NOTIFY_ALLOW_PRIVATE"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, wrong := readSettings(test.v)
			all := strings.Join(wrong, "\n")
			for _, want := range test.want {
				require.Contains(t, all, want)
			}
			require.NotContains(t, all, hidden)
		})
	}
}
