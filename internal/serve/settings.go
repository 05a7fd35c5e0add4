package serve

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"

	"payonce/internal/httprail"
	"payonce/internal/notify"
	"payonce/internal/setting"
	"payonce/ledger"
	"payonce/ledger/postgres"
	"payonce/workflows"
)

// Settings are what an operator sets for a worker that runs.
type Settings struct {
	Ledgers     []LedgerSetting
	Rails       []httprail.Settings
	Notify      notify.Settings
	Temporal    client.Options
	Listen      string // "" is nowhere
	StopTimeout time.Duration
	PoolSize    int
	Workflows   workflows.Options
	// StatementsDir is a folder that is there; "": the worker keeps no statements.
	StatementsDir string
}

// VerifySettings are what an operator sets for a verification.
type VerifySettings struct {
	Ledgers  []LedgerSetting
	Temporal client.Options
}

// MigrateSettings are what an operator sets for a migration.
type MigrateSettings struct {
	Ledgers    []LedgerSetting // as the role that owns the tables
	WorkerRole string          // "" gives no rights to anyone
}

// The bounds of PAYONCE_POOL_SIZE. One connection would not do: health checks must not wait behind work.
const (
	poolSizeMin     = 2
	poolSizeMax     = 1000
	poolSizeDefault = postgres.ConnsMaxDefault

	attemptsMaxMax = 10_000

	stopTimeoutDefault = 30 * time.Second
)

// SettingError says which setting is wrong and what would be right. It never has a setting's secret value.
type SettingError struct {
	Variable string
	Reason   string
}

func (e *SettingError) Error() string { return e.Variable + ": " + e.Reason }

// ReadSettings reads what a running worker needs. The error is all wrong settings, joined; each is a *SettingError.
func ReadSettings(env envconfig.EnvLookup) (Settings, error) {
	r := reader{env: env}
	s := Settings{
		Ledgers:     r.ledgers(EnvDatabaseURL, EnvLedgers),
		Rails:       httprail.ReadSettings(env, r.told),
		Notify:      notify.ReadSettings(env, r.told),
		Temporal:    r.temporal(),
		Listen:      r.listen(),
		StopTimeout: r.duration(EnvStopTimeout, stopTimeoutDefault),
		PoolSize:    r.integer(EnvPoolSize, poolSizeDefault, poolSizeMin, poolSizeMax),
		Workflows:   workflows.DefaultOptions(),

		StatementsDir: r.folder(EnvStatementsDir),
	}
	s.Workflows.Forward.AttemptsMax = int32(r.integer(EnvAttemptsMax, int(s.Workflows.Forward.AttemptsMax), 1, attemptsMaxMax)) //nolint:gosec // bounded
	s.Workflows.Outage.Budget = r.duration(EnvOutageBudget, s.Workflows.Outage.Budget)
	s.Workflows.Rail.Patience = r.duration(EnvRailPatience, s.Workflows.Rail.Patience)
	s.Workflows.Rail.PollMax = r.duration(EnvRailPollMax, s.Workflows.Rail.PollMax)
	return s, r.err()
}

// ReadVerifySettings reads what a verification needs: of Temporal only if it is asked too. The error is as that of
// ReadSettings.
func ReadVerifySettings(env envconfig.EnvLookup, withTemporal bool) (VerifySettings, error) {
	r := reader{env: env}
	s := VerifySettings{Ledgers: r.ledgers(EnvDatabaseURL, EnvLedgers)}
	if withTemporal {
		s.Temporal = r.temporal()
	}
	return s, r.err()
}

// ReadMigrateSettings reads what a migration needs: the ledgers as their owner, or, if that is not set, as the worker.
// If both are set they must name the same ledgers. The error is as that of ReadSettings.
func ReadMigrateSettings(env envconfig.EnvLookup) (MigrateSettings, error) {
	r := reader{env: env}
	s := MigrateSettings{WorkerRole: r.get(EnvWorkerRole)}
	ownersSet := r.get(EnvMigrateDatabaseURL) != "" || r.get(EnvMigrateLedgers) != ""
	workersSet := r.get(EnvDatabaseURL) != "" || r.get(EnvLedgers) != ""
	switch {
	case !ownersSet:
		s.Ledgers = r.ledgers(EnvDatabaseURL, EnvLedgers)
	case !workersSet:
		s.Ledgers = r.ledgers(EnvMigrateDatabaseURL, EnvMigrateLedgers)
	default:
		s.Ledgers = r.ledgers(EnvMigrateDatabaseURL, EnvMigrateLedgers)
		workers := r.ledgers(EnvDatabaseURL, EnvLedgers)
		if len(r.errs) == 0 && !slices.Equal(sortedNames(s.Ledgers), sortedNames(workers)) {
			r.fail(EnvMigrateLedgers, "it names %s, and the worker's setting names %s: a ledger that is left out would stay as it is",
				strings.Join(sortedNames(s.Ledgers), ", "), strings.Join(sortedNames(workers), ", "))
		}
	}
	return s, r.err()
}

func sortedNames(settings []LedgerSetting) []string {
	names := make([]string, len(settings))
	for i, s := range settings {
		names[i] = s.Name
	}
	slices.Sort(names)
	return names
}

// reader reads variables and collects what is wrong.
type reader struct {
	env  envconfig.EnvLookup
	errs []error
}

func (r *reader) err() error { return errors.Join(r.errs...) }

func (r *reader) fail(variable, format string, args ...any) {
	r.errs = append(r.errs, &SettingError{Variable: variable, Reason: fmt.Sprintf(format, args...)})
}

func (r *reader) told(variable, reason string) { r.fail(variable, "%s", reason) }

// get is a variable's value; an empty one is as good as none.
func (r *reader) get(variable string) string {
	value, _ := r.env.LookupEnv(variable)
	return strings.TrimSpace(value)
}

func (r *reader) ledgers(one, several string) []LedgerSetting {
	single, list := r.get(one), r.get(several)
	switch {
	case single != "" && list != "":
		r.fail(one, "%s is set too: set %s for one ledger, named %s, or %s for several", several, one, ledger.DefaultLedger, several)
	case single != "":
		if err := checkURL(single); err != nil {
			r.fail(one, "%s", err)
			return nil
		}
		return []LedgerSetting{{Name: ledger.DefaultLedger, URL: Secret(single)}}
	case list != "":
		settings, err := parseLedgers(list)
		if err != nil {
			r.fail(several, "%s", err)
		}
		return settings
	default:
		r.fail(one, "no ledger is set: set %s for one ledger, named %s, or %s for several", one, ledger.DefaultLedger, several)
	}
	return nil
}

func (r *reader) temporal() client.Options {
	options, err := envconfig.LoadClientOptions(envconfig.LoadClientOptionsRequest{EnvLookup: r.env})
	if err != nil {
		r.fail("TEMPORAL_…", "%s", err)
		return options
	}
	if options.HostPort == "" {
		options.HostPort = client.DefaultHostPort
	}
	if options.Namespace == "" {
		options.Namespace = client.DefaultNamespace
	}
	return options
}

func (r *reader) listen() string {
	address := r.get(EnvListen)
	if address == "" {
		return ""
	}
	if _, port, err := net.SplitHostPort(address); err != nil || port == "" {
		r.fail(EnvListen, "%q is not host:port, such as :9090 or 127.0.0.1:9090", address)
	}
	return address
}

// folder is one that is there. It is not made: where a disk is not mounted, files must not be kept beside it.
func (r *reader) folder(variable string) string {
	dir := r.get(variable)
	if dir == "" {
		return ""
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() || !filepath.IsAbs(dir) {
		r.fail(variable, "%q is not the absolute path of a folder that is there", dir)
	}
	return dir
}

func (r *reader) duration(variable string, byDefault time.Duration) time.Duration {
	return setting.NewReader(r.env, r.told).Duration(variable, byDefault)
}

func (r *reader) integer(variable string, byDefault, low, high int) int {
	value := r.get(variable)
	if value == "" {
		return byDefault
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < low || n > high {
		r.fail(variable, "%q is not a whole number from %d to %d", value, low, high)
		return byDefault
	}
	return n
}

// overlay is an environment in which some variables have other values.
type overlay struct {
	envconfig.EnvLookup
	values map[string]string
}

// Overlay returns env with some variables replaced: flags win over the environment.
func Overlay(env envconfig.EnvLookup, values map[string]string) envconfig.EnvLookup {
	return overlay{EnvLookup: env, values: values}
}

func (o overlay) LookupEnv(name string) (string, bool) {
	if value, ok := o.values[name]; ok {
		return value, true
	}
	return o.EnvLookup.LookupEnv(name)
}

func logLevels() map[string]slog.Level {
	return map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}
}
