package serve

import (
	"io"
	"log/slog"

	"go.temporal.io/sdk/contrib/envconfig"
)

// NewLog returns the log that the settings ask for, which writes to w. The error is as that of ReadSettings.
func NewLog(env envconfig.EnvLookup, w io.Writer) (*slog.Logger, error) {
	r := reader{env: env}
	level, ok := logLevels()[orDefault(r.get(EnvLogLevel), "info")]
	if !ok {
		r.fail(EnvLogLevel, "%q is not debug, info, warn or error", r.get(EnvLogLevel))
	}
	options := &slog.HandlerOptions{Level: level}
	var handler slog.Handler
	switch format := orDefault(r.get(EnvLogFormat), "text"); format {
	case "text":
		handler = slog.NewTextHandler(w, options)
	case "json":
		handler = slog.NewJSONHandler(w, options)
	default:
		r.fail(EnvLogFormat, "%q is not text or json", format)
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	return slog.New(handler), nil
}

func orDefault(value, byDefault string) string {
	if value == "" {
		return byDefault
	}
	return value
}
