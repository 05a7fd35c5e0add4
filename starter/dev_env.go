package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
)

// stackEnviron is the environment for a worker of the stack: ours, with the stack's settings in place of what ours says
// about ledgers and, unless that is a server from outside, about Temporal.
func stackEnviron(ours, stack []string, externalTemporal bool) []string {
	var env []string
	for _, setting := range ours {
		name, _, _ := strings.Cut(setting, "=")
		switch {
		case name == "DATABASE_URL" || name == "LEDGERS" || name == "MIGRATE_DATABASE_URL" || name == "MIGRATE_LEDGERS":
		case name == "TEMPORAL_ADDRESS" || name == "TEMPORAL_NAMESPACE":
		case strings.HasPrefix(name, "TEMPORAL_") && !externalTemporal:
		default:
			env = append(env, setting)
		}
	}
	if !externalTemporal {
		// A profile in the user's configuration is about another server: its certificates are not for this one.
		env = append(env, "TEMPORAL_CONFIG_FILE="+os.DevNull)
	}
	return append(env, stack...)
}

// environ is an environment other than the process's own.
type environ []string

// Environ and LookupEnv make it an envconfig.EnvLookup.
func (e environ) Environ() []string { return e }

func (e environ) LookupEnv(name string) (string, bool) {
	// The last one counts, as it does for a process.
	for _, setting := range slices.Backward(e) {
		if value, ok := strings.CutPrefix(setting, name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// optionsFrom are the settings of a Temporal client in an environment.
func optionsFrom(env []string) (client.Options, error) {
	return envconfig.LoadClientOptions(envconfig.LoadClientOptionsRequest{EnvLookup: environ(env)})
}

// exportLines are settings as a POSIX shell reads them.
func exportLines(settings []string) []string {
	lines := make([]string, len(settings))
	for i, setting := range settings {
		name, value, _ := strings.Cut(setting, "=")
		lines[i] = "export " + name + "=" + shellQuote(value)
	}
	return lines
}

// shellQuote makes a text one word of a POSIX shell.
func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func shellQuoteIfNeeded(s string) string {
	if strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-") == "" {
		return s
	}
	return shellQuote(s)
}

// envFile is a file of settings that we have written.
type envFile struct {
	path    string
	content []byte
}

// clearEnvFile makes way for a file that is written later: who waits for it must not find that of an earlier run that was
// killed, and a place where it can't be written is better known now.
func clearEnvFile(path string) error {
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		return usagef("env-file: %w", err)
	}
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return usagef("env-file: %w", err)
	case !info.Mode().IsRegular():
		return usagef("env-file: %s is there, and is not a file", path)
	}
	return os.Remove(path)
}

// writeEnvFile writes settings for a shell. Who finds the file finds it whole: it is written aside and renamed. Only its
// owner can read it, since there are passwords in it.
func writeEnvFile(path string, settings []string) (*envFile, error) {
	file := &envFile{path: path, content: []byte(strings.Join(exportLines(settings), "\n") + "\n")}
	aside, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return nil, fmt.Errorf("write the env file: %w", err)
	}
	// CreateTemp gives the file mode 0600.
	_, errWrite := aside.Write(file.content)
	err = errors.Join(errWrite, aside.Sync(), aside.Close())
	if err == nil {
		err = os.Rename(aside.Name(), path)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("write the env file: %w", err), os.Remove(aside.Name()))
	}
	return file, nil
}

// remove removes the file, unless somebody has written another one in its place.
func (f *envFile) remove() error {
	content, err := os.ReadFile(f.path)
	if errors.Is(err, fs.ErrNotExist) || (err == nil && !bytes.Equal(content, f.content)) {
		return nil
	}
	if err != nil {
		return err
	}
	return os.Remove(f.path)
}
