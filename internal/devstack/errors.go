package devstack

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

var (
	// ErrExternal is returned when a server that was given from outside, by
	// DATABASE_URL or TEMPORAL_ADDRESS, is asked to crash, shut down or restart.
	ErrExternal = errors.New("the server is not ours to stop or start")

	// ErrStopped is returned by operations on a server after its Stop.
	ErrStopped = errors.New("the server was stopped for good")

	// ErrInUse is returned when another live process runs a server in the same
	// folder.
	ErrInUse = errors.New("the folder is in use")

	// ErrDatabaseExists is returned by CreateDatabase when a copy of a template
	// was asked for under a name that is taken.
	ErrDatabaseExists = errors.New("the database exists")

	// ErrNoPostgres is returned when there is no PostgreSQL to run.
	ErrNoPostgres = errors.New("no PostgreSQL server found")

	// ErrNoTemporal is returned when there is no Temporal CLI to run and none
	// could be had.
	ErrNoTemporal = errors.New("no Temporal CLI found")
)

// exitError says that a server ended while it was still wanted.
type exitError struct {
	name  string
	state string
	tail  string
}

func (e *exitError) Error() string {
	if e.tail == "" {
		return fmt.Sprintf("%s ended early (%s) without a word", e.name, e.state)
	}
	return fmt.Sprintf("%s ended early (%s); its last lines:\n%s", e.name, e.state, indent(e.tail))
}

// portTaken reports whether a server ended because someone else took a port
// between our choosing it and the server's binding it. Neither server has an
// exit status of its own for this.
func portTaken(err error) bool {
	exit, ok := errors.AsType[*exitError](err)
	return ok && strings.Contains(strings.ToLower(exit.tail), "address already in use")
}

func indent(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n  ")
}

// tailOf returns the last lines that a log file has after an offset, or "" when
// there are none.
func tailOf(path string, from int64) string {
	const bytesMax, linesMax = 8 << 10, 20
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	buf := make([]byte, max(0, min(info.Size()-from, bytesMax)))
	n, _ := f.ReadAt(buf, info.Size()-int64(len(buf)))
	return lastLines(string(buf[:n]), linesMax)
}

func lastLines(text string, linesMax int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-linesMax):], "\n")
}
