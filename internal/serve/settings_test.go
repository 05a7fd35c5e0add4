package serve

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"payonce/workflows"
)

// fakeEnv is an environment that remembers what it was asked for.
type fakeEnv struct {
	values map[string]string
	asked  map[string]bool
}

func env(values map[string]string) *fakeEnv {
	return &fakeEnv{values: values, asked: make(map[string]bool)}
}

func (e *fakeEnv) LookupEnv(name string) (string, bool) {
	e.asked[name] = true
	value, ok := e.values[name]
	return value, ok
}

func (e *fakeEnv) Environ() []string {
	var all []string
	for name, value := range e.values {
		all = append(all, name+"="+value)
	}
	return all
}

const (
	password = "tr0ub4dor"
	usURL    = "postgres://app:" + password + "@us.example:5432/us"
	euURL    = "postgres://app:" + password + "@eu.example:5432/eu"
)

func readLedgers(e *fakeEnv) ([]LedgerSetting, error) {
	settings, err := ReadVerifySettings(e, false)
	return settings.Ledgers, err
}

func TestReadLedgers(t *testing.T) {
	for name, test := range map[string]struct {
		env  map[string]string
		want []LedgerSetting
		err  string // a part of it
	}{
		"one": {
			env:  map[string]string{"DATABASE_URL": usURL},
			want: []LedgerSetting{{"main", usURL}},
		},
		"one, as keywords": {
			env:  map[string]string{"DATABASE_URL": "host=us.example dbname=us password=" + password},
			want: []LedgerSetting{{"main", "host=us.example dbname=us password=" + password}},
		},
		"several": {
			env:  map[string]string{"LEDGERS": "us=" + usURL + ",eu=" + euURL},
			want: []LedgerSetting{{"us", usURL}, {"eu", euURL}},
		},
		"an empty variable is not set": {
			env:  map[string]string{"DATABASE_URL": "", "LEDGERS": "us=" + usURL},
			want: []LedgerSetting{{"us", usURL}},
		},
		"blanks and line breaks between entries": {
			env:  map[string]string{"LEDGERS": " us = " + usURL + " ,\n  eu=" + euURL + "\n"},
			want: []LedgerSetting{{"us", usURL}, {"eu", euURL}},
		},
		"a URL with several hosts": {
			env: map[string]string{"LEDGERS": "us=postgresql://app@h1:5432,h2:5433/us?target_session_attrs=read-write,eu=" + euURL},
			want: []LedgerSetting{
				{"us", "postgresql://app@h1:5432,h2:5433/us?target_session_attrs=read-write"}, {"eu", euURL},
			},
		},
		"a comma in a password": {
			env:  map[string]string{"LEDGERS": "us=postgres://app:a,b@h/us,eu=" + euURL},
			want: []LedgerSetting{{"us", "postgres://app:a,b@h/us"}, {"eu", euURL}},
		},
		"an encoded comma": {
			env:  map[string]string{"LEDGERS": "us=postgres://app@h/us?options=-c%20search_path%3Da%2Cb"},
			want: []LedgerSetting{{"us", "postgres://app@h/us?options=-c%20search_path%3Da%2Cb"}},
		},

		"none": {err: "DATABASE_URL: no ledger is set: set DATABASE_URL for one ledger, named main, or LEDGERS for several"},
		"both": {
			env: map[string]string{"DATABASE_URL": usURL, "LEDGERS": "eu=" + euURL},
			err: "DATABASE_URL: LEDGERS is set too",
		},
		"no name":          {env: map[string]string{"LEDGERS": usURL}, err: "LEDGERS: it must be like us=postgres://"},
		"an empty name":    {env: map[string]string{"LEDGERS": "=" + usURL}, err: "does not name a ledger"},
		"a malformed name": {env: map[string]string{"LEDGERS": "us=" + usURL + ",EU=" + euURL}, err: `entry 2: name: "EU" does not name a ledger`},
		"a name twice":     {env: map[string]string{"LEDGERS": "us=" + usURL + ",us=" + euURL}, err: "the ledger us is there twice"},
		"not a URL":        {env: map[string]string{"LEDGERS": "us=host=x password=" + password}, err: "it must be like us=postgres://"},
		"then not a URL": {
			env: map[string]string{"LEDGERS": "us=" + usURL + ",eu=host=x password=" + password},
			err: "the ledger us: there is a comma after the hosts of its URL",
		},
		"a trailing comma": {env: map[string]string{"LEDGERS": "us=" + usURL + ","}, err: "there is a comma after the hosts"},
		"something before": {env: map[string]string{"LEDGERS": password + ",us=" + usURL}, err: "it must be like us=postgres://"},
		"an unencoded password": {
			env: map[string]string{"LEDGERS": "us=postgres://app:" + password + "/@h/us"},
			err: "the ledger us: its URL can't be read",
		},
		"an unknown sslmode": {
			env: map[string]string{"DATABASE_URL": usURL + "?sslmode=" + password},
			err: "DATABASE_URL: its URL can't be read",
		},
		"a missing file": {
			env: map[string]string{"DATABASE_URL": usURL + "?sslmode=verify-full&sslrootcert=/no/such/file.pem"},
			err: "/no/such/file.pem",
		},
		"no comma between entries": {
			env: map[string]string{"LEDGERS": "us=" + usURL + "?sslrootcert=/us.pem eu=" + euURL},
			err: "the ledger us: there is a second URL in its URL",
		},
		"garbage": {env: map[string]string{"DATABASE_URL": password}, err: "its URL can't be read"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := readLedgers(env(test.env))
			if test.err == "" {
				require.NoError(t, err)
				assert.Equal(t, test.want, got)
				return
			}
			require.ErrorContains(t, err, test.err)
			var setting *SettingError
			require.ErrorAs(t, err, &setting)
			assert.NotContains(t, err.Error(), password)
			assert.NotContains(t, err.Error(), "example:")
		})
	}
}

func TestReadMigrateSettings(t *testing.T) {
	for name, test := range map[string]struct {
		env  map[string]string
		want MigrateSettings
		err  string
	}{
		"as the worker": {
			env:  map[string]string{"LEDGERS": "us=" + usURL},
			want: MigrateSettings{Ledgers: []LedgerSetting{{"us", usURL}}},
		},
		"as the owner alone": {
			env:  map[string]string{"MIGRATE_LEDGERS": "us=" + usURL, "PAYONCE_WORKER_ROLE": "app"},
			want: MigrateSettings{Ledgers: []LedgerSetting{{"us", usURL}}, WorkerRole: "app"},
		},
		"the owner's wins": {
			env:  map[string]string{"DATABASE_URL": euURL, "MIGRATE_DATABASE_URL": usURL},
			want: MigrateSettings{Ledgers: []LedgerSetting{{"main", usURL}}},
		},
		"in another order": {
			env:  map[string]string{"LEDGERS": "us=" + usURL + ",eu=" + euURL, "MIGRATE_LEDGERS": "eu=" + euURL + ",us=" + usURL},
			want: MigrateSettings{Ledgers: []LedgerSetting{{"eu", euURL}, {"us", usURL}}},
		},
		"one ledger is left out": {
			env: map[string]string{"LEDGERS": "us=" + usURL + ",eu=" + euURL, "MIGRATE_LEDGERS": "us=" + usURL},
			err: "MIGRATE_LEDGERS: it names us, and the worker's setting names eu, us",
		},
		"one and several": {
			env: map[string]string{"LEDGERS": "us=" + usURL + ",eu=" + euURL, "MIGRATE_DATABASE_URL": usURL},
			err: "it names main, and the worker's setting names eu, us",
		},
		"none": {err: "DATABASE_URL: no ledger is set"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ReadMigrateSettings(env(test.env))
			if test.err == "" {
				require.NoError(t, err)
				assert.Equal(t, test.want, got)
				return
			}
			require.ErrorContains(t, err, test.err)
			assert.NotContains(t, err.Error(), password)
		})
	}
}

func TestReadSettings(t *testing.T) {
	// No profile of the user who runs the tests takes part.
	base := map[string]string{"DATABASE_URL": usURL, "TEMPORAL_CONFIG_FILE": t.TempDir() + "/none.toml"}
	with := func(values map[string]string) *fakeEnv {
		all := maps.Clone(base)
		maps.Copy(all, values)
		return env(all)
	}

	t.Run("defaults", func(t *testing.T) {
		got, err := ReadSettings(with(nil))
		require.NoError(t, err)
		assert.Equal(t, "localhost:7233", got.Temporal.HostPort)
		assert.Equal(t, "default", got.Temporal.Namespace)
		assert.Empty(t, got.Listen)
		assert.Equal(t, 30*time.Second, got.StopTimeout)
		assert.Equal(t, 10, got.PoolSize)
		assert.Equal(t, workflows.DefaultOptions(), got.Workflows)
	})

	t.Run("all set", func(t *testing.T) {
		got, err := ReadSettings(with(map[string]string{
			"PAYONCE_LISTEN": ":9090", "PAYONCE_STOP_TIMEOUT": "1m", "PAYONCE_POOL_SIZE": "32",
			"PAYONCE_ATTEMPTS_MAX": "3", "PAYONCE_OUTAGE_BUDGET": "90m", "PAYONCE_STATEMENTS_DIR": "/",
			"TEMPORAL_ADDRESS": "temporal.example:7233", "TEMPORAL_NAMESPACE": "money", "TEMPORAL_API_KEY": password,
		}))
		require.NoError(t, err)
		assert.Equal(t, ":9090", got.Listen)
		assert.Equal(t, time.Minute, got.StopTimeout)
		assert.Equal(t, 32, got.PoolSize)
		assert.EqualValues(t, 3, got.Workflows.Forward.AttemptsMax)
		assert.Equal(t, 90*time.Minute, got.Workflows.Outage.Budget)
		assert.Equal(t, "/", got.StatementsDir)
		assert.Equal(t, "temporal.example:7233", got.Temporal.HostPort)
		assert.Equal(t, "money", got.Temporal.Namespace)
		assert.NotNil(t, got.Temporal.Credentials)
		assert.NotNil(t, got.Temporal.ConnectionOptions.TLS, "an API key turns TLS on")
	})

	t.Run("a flag wins", func(t *testing.T) {
		got, err := ReadSettings(Overlay(with(map[string]string{"PAYONCE_LISTEN": ":9090"}), map[string]string{"PAYONCE_LISTEN": ""}))
		require.NoError(t, err)
		assert.Empty(t, got.Listen)
	})

	for name, test := range map[string]struct{ variable, value, err string }{
		"no port":             {"PAYONCE_LISTEN", "localhost", "is not host:port"},
		"no duration":         {"PAYONCE_STOP_TIMEOUT", "30", `PAYONCE_STOP_TIMEOUT: "30" is not a duration above zero, such as 30s or 24h`},
		"a negative duration": {"PAYONCE_OUTAGE_BUDGET", "-1h", "PAYONCE_OUTAGE_BUDGET: "},
		"no time":             {"PAYONCE_STOP_TIMEOUT", "0s", "PAYONCE_STOP_TIMEOUT: "},
		"no number":           {"PAYONCE_POOL_SIZE", "many", `PAYONCE_POOL_SIZE: "many" is not a whole number from 2 to 1000`},
		"too few":             {"PAYONCE_POOL_SIZE", "1", "from 2 to 1000"},
		"no attempts":         {"PAYONCE_ATTEMPTS_MAX", "0", "PAYONCE_ATTEMPTS_MAX: "},
		"no folder":           {"PAYONCE_STATEMENTS_DIR", "/no/such/folder", `PAYONCE_STATEMENTS_DIR: "/no/such/folder" is not the absolute path of a folder`},
		"a folder somewhere":  {"PAYONCE_STATEMENTS_DIR", ".", "PAYONCE_STATEMENTS_DIR: "},
		"a file":              {"PAYONCE_STATEMENTS_DIR", "/etc/passwd", "PAYONCE_STATEMENTS_DIR: "},
		"no such profile":     {"TEMPORAL_PROFILE", "nobody", "TEMPORAL_…: unable to find profile nobody"},
		"no such key":         {"TEMPORAL_TLS_CLIENT_KEY_PATH", "/no/such.pem", "TEMPORAL_…: invalid TLS config"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ReadSettings(with(map[string]string{test.variable: test.value}))
			require.ErrorContains(t, err, test.err)
		})
	}

	t.Run("all that is wrong is told at once", func(t *testing.T) {
		_, err := ReadSettings(with(map[string]string{"DATABASE_URL": "", "PAYONCE_LISTEN": "x", "PAYONCE_POOL_SIZE": "x"}))
		require.Error(t, err)
		for _, variable := range []string{"DATABASE_URL", "PAYONCE_LISTEN", "PAYONCE_POOL_SIZE"} {
			assert.ErrorContains(t, err, variable)
		}
	})
}

func TestNewLog(t *testing.T) {
	var out strings.Builder
	log, err := NewLog(env(map[string]string{"PAYONCE_LOG_LEVEL": "warn", "PAYONCE_LOG_FORMAT": "json"}), &out)
	require.NoError(t, err)
	log.Info("quiet")
	log.Warn("loud")
	var line map[string]any
	require.NoError(t, json.Unmarshal([]byte(out.String()), &line))
	assert.Equal(t, "loud", line["msg"])

	_, err = NewLog(env(map[string]string{"PAYONCE_LOG_LEVEL": "loud", "PAYONCE_LOG_FORMAT": "xml"}), io.Discard)
	require.ErrorContains(t, err, `PAYONCE_LOG_LEVEL: "loud" is not debug, info, warn or error`)
	require.ErrorContains(t, err, `PAYONCE_LOG_FORMAT: "xml" is not text or json`)
}

// TestVariablesAreThoseThatAreRead holds the list of variables against what the readers look up.
func TestVariablesAreThoseThatAreRead(t *testing.T) {
	read := make(map[string]map[string]bool)
	note := func(command string, e *fakeEnv) {
		if read[command] == nil {
			read[command] = make(map[string]bool)
		}
		maps.Copy(read[command], e.asked)
	}
	e := env(nil)
	_, _ = ReadSettings(e)
	_, _ = NewLog(e, io.Discard)
	note(CommandRun, e)
	e = env(nil)
	_, _ = ReadMigrateSettings(e)
	_, _ = NewLog(e, io.Discard)
	note(CommandMigrate, e)
	e = env(nil)
	_, _ = ReadVerifySettings(e, true)
	note(CommandVerify, e)

	listed := make(map[string]map[string]bool)
	for _, v := range Variables() {
		assert.NotEmpty(t, v.Meaning, v.Name)
		if v.Prefix {
			continue // looked for in the whole environment
		}
		for _, command := range v.Commands {
			if listed[command] == nil {
				listed[command] = make(map[string]bool)
			}
			assert.False(t, listed[command][v.Name], "%s is listed twice", v.Name)
			listed[command][v.Name] = true
		}
	}
	for _, command := range []string{CommandRun, CommandMigrate, CommandVerify} {
		assert.Equal(t, slices.Sorted(maps.Keys(read[command])), slices.Sorted(maps.Keys(listed[command])), command)
	}
}

func TestSecretIsNeverShown(t *testing.T) {
	setting := LedgerSetting{Name: "us", URL: usURL}
	var out strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%t"} {
		fmt.Fprintf(&out, verb+"\n", setting)
		fmt.Fprintf(&out, verb+"\n", &setting)
		fmt.Fprintf(&out, verb+"\n", setting.URL)
	}
	fmt.Fprintln(&out, Settings{Ledgers: []LedgerSetting{setting}})
	raw, err := json.Marshal(setting)
	require.NoError(t, err)
	out.Write(raw)
	for _, handler := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(handler).Info("all", "setting", setting, "url", setting.URL, "list", []LedgerSetting{setting})
	}
	assert.NotContains(t, out.String(), password)
	assert.NotContains(t, out.String(), "example")
	assert.Equal(t, usURL, setting.URL.Reveal())
}
