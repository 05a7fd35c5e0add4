package serve

import (
	"payonce/internal/httprail"
	"payonce/internal/notify"
)

// Variable is one environment variable that the worker knows.
type Variable struct {
	Name string
	// Flag is the flag that wins over it, without dashes; "" for none.
	Flag string
	// Default is what holds when it is not set, for people; "" for nothing.
	Default string
	Meaning string
	// Secret variables hold passwords or keys: keep them out of what others can read.
	Secret bool
	// Prefix: Name is the beginning of any number of variables.
	Prefix bool
	// Commands of the worker that read it.
	Commands []string
}

// The worker's own variables. An empty one counts as not set.
const (
	EnvDatabaseURL        = "DATABASE_URL"
	EnvLedgers            = "LEDGERS"
	EnvMigrateDatabaseURL = "MIGRATE_DATABASE_URL"
	EnvMigrateLedgers     = "MIGRATE_LEDGERS"
	EnvWorkerRole         = "PAYONCE_WORKER_ROLE"
	EnvListen             = "PAYONCE_LISTEN"
	EnvLogLevel           = "PAYONCE_LOG_LEVEL"
	EnvLogFormat          = "PAYONCE_LOG_FORMAT"
	EnvStopTimeout        = "PAYONCE_STOP_TIMEOUT"
	EnvPoolSize           = "PAYONCE_POOL_SIZE"
	EnvAttemptsMax        = "PAYONCE_ATTEMPTS_MAX"
	EnvOutageBudget       = "PAYONCE_OUTAGE_BUDGET"
	EnvStatementsDir      = "PAYONCE_STATEMENTS_DIR"
	EnvRailPatience       = "PAYONCE_RAIL_PATIENCE"
	EnvRailPollMax        = "PAYONCE_RAIL_POLL_MAX"
	EnvRails              = httprail.EnvRails
)

// The worker's commands that read settings.
const (
	CommandRun     = "run"
	CommandMigrate = "migrate"
	CommandVerify  = "verify"
)

// Variables are all variables that the worker's commands read, in the order in which they are explained.
func Variables() []Variable {
	all := []string{CommandRun, CommandMigrate, CommandVerify}
	logged := []string{CommandRun, CommandMigrate}
	run := []string{CommandRun}
	migrate := []string{CommandMigrate}
	asking := []string{CommandRun, CommandVerify} // verify only with --temporal
	temporal := func(name, byDefault, meaning string) Variable {
		return Variable{Name: name, Default: byDefault, Meaning: meaning, Commands: asking}
	}
	secret := func(v Variable) Variable {
		v.Secret = true
		return v
	}
	return []Variable{
		{
			Name: EnvDatabaseURL, Secret: true, Commands: all,
			Meaning: "the one ledger, `main`: `postgres://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=verify-full`, as the worker's role",
		},
		{
			Name: EnvLedgers, Secret: true, Commands: all,
			Meaning: "several ledgers, instead of `DATABASE_URL`: `us=postgres://…,eu=postgres://…`",
		},
		{
			Name: EnvMigrateDatabaseURL, Secret: true, Commands: migrate, Default: "`DATABASE_URL`",
			Meaning: "the one ledger as the role that owns its tables",
		},
		{
			Name: EnvMigrateLedgers, Secret: true, Commands: migrate, Default: "`LEDGERS`",
			Meaning: "several ledgers as the role that owns their tables",
		},
		{
			Name: EnvWorkerRole, Flag: "worker-role", Commands: migrate,
			Meaning: "the database role of the worker, which gets the rights it needs and no others; unset, no rights are given",
		},
		{
			Name: EnvListen, Flag: "listen", Commands: run,
			Meaning: "where to answer `/metrics`, `/healthz`, `/readyz`, and rails' callbacks: `:9090`, `127.0.0.1:9090`; unset, nowhere",
		},
		{
			Name: EnvLogLevel, Flag: "log-level", Default: "`info`", Commands: logged,
			Meaning: "`debug`, `info`, `warn` or `error`",
		},
		{
			Name: EnvLogFormat, Flag: "log-format", Default: "`text`", Commands: logged,
			Meaning: "`text` or `json`; the log goes to standard error",
		},
		{
			Name: EnvStopTimeout, Flag: "stop-timeout", Default: "`30s`", Commands: run,
			Meaning: "how long a worker that is told to stop finishes what it holds; what kills it must wait longer",
		},
		{
			Name: EnvPoolSize, Default: "`10`", Commands: run,
			Meaning: "database connections per ledger, 2 to 1000; it also bounds how much the worker does at once",
		},
		{
			Name: EnvAttemptsMax, Default: "`10`", Commands: run,
			Meaning: "how often post, withdraw and deposit are tried before their outcome is decided",
		},
		{
			Name: EnvOutageBudget, Default: "`24h`", Commands: run,
			Meaning: "how long a step waits, in all, for a ledger or a rail that can't be reached",
		},
		{
			Name: EnvRails, Commands: run,
			Meaning: "the rails of payouts that the worker serves: `bank=https://bank.example/v1,card=https://…`; unset, none",
		},
		{
			Name: "RAIL_", Prefix: true, Secret: true, Commands: run,
			Meaning: "the settings of one rail, by its name: `RAIL_BANK_TOKEN`, `…_HMAC_SECRET`, `…_CA_FILE`, `…_KEYS_KEPT`, `…_PLAIN_HTTP`",
		},
		{
			Name: EnvRailPatience, Default: "`24h`", Commands: run,
			Meaning: "how long a rail that does not know a payout, or does not tell of it, is asked before a person is",
		},
		{
			Name: EnvRailPollMax, Default: "`1h`", Commands: run,
			Meaning: "the longest time between two questions about a payout that is pending at its rail",
		},
		{
			Name: EnvStatementsDir, Flag: "statements-dir", Commands: run,
			Meaning: "the folder where statements are written, on a disk that all workers of a ledger share; unset, none are",
		},
		{
			Name: notify.EnvNotify, Secret: true, Commands: run,
			Meaning: "the endpoints that can be told of an end: `ops=https://hooks.example/payonce,mail=mailto:ops@example.com`; unset, none",
		},
		{
			Name: notify.EnvPrefix, Prefix: true, Secret: true, Commands: run,
			Meaning: "`NOTIFY_OPS_SECRETS`: what webhooks to the endpoint `ops` are signed with, `whsec_…`; several, with commas, while it changes",
		},
		{
			Name: notify.EnvSMTP, Secret: true, Commands: run,
			Meaning: "the server that takes e-mail: `smtp://USER:PASSWORD@HOST:587`; STARTTLS is required, but on this machine",
		},
		{
			Name: notify.EnvFrom, Commands: run,
			Meaning: "who e-mail is from: `payonce@example.com`",
		},
		{
			Name: notify.EnvCAFile, Default: "the system's", Commands: run,
			Meaning: "who may have signed the certificates of endpoints and of the e-mail server, a PEM file",
		},
		{
			Name: notify.EnvAllowPrivate, Default: "`false`", Commands: run,
			Meaning: "`true`: webhooks may go to private addresses, and by `http://` to this machine",
		},

		temporal("TEMPORAL_ADDRESS", "`localhost:7233`", "Temporal's frontend, host:port"),
		temporal("TEMPORAL_NAMESPACE", "`default`", "the namespace"),
		secret(temporal("TEMPORAL_API_KEY", "", "an API key; it turns TLS on")),
		temporal("TEMPORAL_TLS", "", "`true` or `false`: TLS on or off whatever else is set"),
		temporal("TEMPORAL_TLS_CLIENT_CERT_PATH", "", "the client's certificate (mTLS), a PEM file"),
		secret(temporal("TEMPORAL_TLS_CLIENT_CERT_DATA", "", "the same, as PEM text")),
		temporal("TEMPORAL_TLS_CLIENT_KEY_PATH", "", "the client's private key (mTLS), a PEM file"),
		secret(temporal("TEMPORAL_TLS_CLIENT_KEY_DATA", "", "the same, as PEM text")),
		temporal("TEMPORAL_TLS_SERVER_CA_CERT_PATH", "", "who signed the server's certificate, a PEM file"),
		temporal("TEMPORAL_TLS_SERVER_CA_CERT_DATA", "", "the same, as PEM text"),
		temporal("TEMPORAL_TLS_SERVER_NAME", "", "the name that the server's certificate must have"),
		temporal("TEMPORAL_TLS_DISABLE_HOST_VERIFICATION", "", "`true`: don't check it; not for production"),
		temporal("TEMPORAL_CLIENT_AUTHORITY", "", "the `:authority` of requests, for a proxy that routes by it"),
		secret(Variable{
			Name: "TEMPORAL_GRPC_META_", Prefix: true, Commands: asking,
			Meaning: "`TEMPORAL_GRPC_META_X_Y=v` sends the header `x-y: v` with each request",
		}),
		temporal("TEMPORAL_CONFIG_FILE", "`temporalio/temporal.toml` in the user's configuration folder", "a file with profiles of these settings"),
		temporal("TEMPORAL_PROFILE", "`default`", "the profile in that file; variables win over it"),
		temporal("TEMPORAL_CODEC_ENDPOINT", "", "read and not used: a worker does not send payloads to a remote codec"),
		secret(temporal("TEMPORAL_CODEC_AUTH", "", "read and not used, as above")),
	}
}
