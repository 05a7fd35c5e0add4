package devstack

import (
	"archive/zip"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
	"github.com/stretchr/testify/require"
)

// fakePostgres makes a folder with programs that know their version.
func fakePostgres(t testing.TB, dir, version string) {
	t.Helper()
	script(t, filepath.Join(dir, "postgres"), `echo "postgres (PostgreSQL) `+version+` (Debian)"`)
	script(t, filepath.Join(dir, "initdb"), "exit 0")
}

func TestPostgresSearch(t *testing.T) {
	t.Parallel()
	root := publicDir(t)
	in := func(parts ...string) string { return filepath.Join(append([]string{root}, parts...)...) }
	fakePostgres(t, in("lib", "9.6", "bin"), "9.6.24")
	fakePostgres(t, in("lib", "15", "bin"), "15.13")
	fakePostgres(t, in("lib", "17", "bin"), "17.5")
	fakePostgres(t, in("lib", "9", "bin"), "9.0")
	fakePostgres(t, in("onpath"), "16.9")
	fakePostgres(t, in("asked"), "14.1")
	script(t, in("config", "pg_config"), `echo "`+in("asked")+`"`)
	require.NoError(t, os.MkdirAll(in("links"), 0o755))
	require.NoError(t, os.Symlink(in("onpath", "postgres"), in("links", "postgres")))
	script(t, in("half", "postgres"), "exit 0") // without initdb
	fakePostgres(t, in("old"), "12.4")

	nothing := func(context.Context, *account, io.Writer) (string, error) { return "", errors.New("no network") }
	acc, err := serverAccount()
	require.NoError(t, err)
	for _, c := range []struct {
		name   string
		search postgresSearch
		major  int
		want   string
	}{
		{"PATH first", postgresSearch{path: in("onpath"), patterns: []string{in("lib", "*", "bin")}}, 0, in("onpath")},
		{"where a link leads", postgresSearch{path: in("links")}, 0, in("onpath")},
		{"pg_config next", postgresSearch{path: in("config"), patterns: []string{in("lib", "*", "bin")}}, 0, in("asked")},
		{"the highest version", postgresSearch{patterns: []string{in("lib", "*", "bin")}}, 0, in("lib", "17", "bin")},
		{"the cluster's version", postgresSearch{path: in("onpath"), patterns: []string{in("lib", "*", "bin")}}, 15, in("lib", "15", "bin")},
		{"passing over", postgresSearch{path: in("half") + ":" + in("old") + ":relative", patterns: []string{in("lib", "15", "bin")}}, 0, in("lib", "15", "bin")},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.search.download = nothing
			b, err := c.search.find(within(t), acc, c.major, testLog(t))
			require.NoError(t, err)
			require.Equal(t, c.want, b.dir)
		})
	}

	t.Run("nothing", func(t *testing.T) {
		_, err := startPostgres(within(t), PostgresConfig{}, postgresSearch{path: in("old"), patterns: []string{in("none")}, download: nothing})
		require.ErrorIs(t, err, ErrNoPostgres)
		for _, part := range []string{"no network", "version 12.4, older than 13", in("none"), "apt install postgresql", "DATABASE_URL"} {
			require.ErrorContains(t, err, part)
		}
	})
	t.Run("the download", func(t *testing.T) {
		search := postgresSearch{download: func(context.Context, *account, io.Writer) (string, error) { return in("asked"), nil }}
		b, err := search.find(within(t), acc, 0, nil)
		require.NoError(t, err)
		require.Equal(t, "14.1", b.version)
	})
}

// repository serves a folder of programs the way embedded-postgres expects it.
func repository(t testing.TB, programs string) string {
	t.Helper()
	xz, err := exec.LookPath("xz")
	if err != nil {
		t.Skip("packing the archive needs xz")
	}
	archive := filepath.Join(t.TempDir(), "postgres.tar")
	require.NoError(t, exec.Command("tar", "-C", programs, "-cf", archive, ".").Run())
	require.NoError(t, exec.Command(xz, archive).Run())
	packed, err := os.ReadFile(archive + ".xz")
	require.NoError(t, err)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, ".jar") {
			http.NotFound(w, r)
			return
		}
		z := zip.NewWriter(w)
		f, err := z.Create("postgres.txz")
		if err == nil {
			_, err = f.Write(packed)
		}
		if err == nil {
			err = z.Close()
		}
		if err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestPostgresDownload(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	acc, err := serverAccount()
	require.NoError(t, err)

	t.Run("arrives once", func(t *testing.T) {
		programs := publicDir(t)
		fakePostgres(t, filepath.Join(programs, "bin"), "18.3")
		// Like the real one: it refuses the locale that does not exist.
		script(t, filepath.Join(programs, "bin", "initdb"), `case "$*" in *no_such_locale*) exit 1;; esac`)
		script(t, filepath.Join(programs, "bin", "pg_ctl"), "exit 1")
		config := embeddedpostgres.DefaultConfig().BinaryRepositoryURL(repository(t, programs))
		cache := publicDir(t)
		dir, err := fetchPostgres(ctx, config, cache, acc, testLog(t))
		require.NoError(t, err)
		b, err := inspectPostgres(ctx, dir, acc)
		require.NoError(t, err)
		require.Equal(t, 18, b.major)
		left, err := filepath.Glob(filepath.Join(cache, "fetch-*"))
		require.NoError(t, err)
		require.Empty(t, left)

		again, err := fetchPostgres(ctx, config.BinaryRepositoryURL("http://127.0.0.1:1"), cache, acc, nil)
		require.NoError(t, err)
		require.Equal(t, dir, again)
	})
	t.Run("does not work", func(t *testing.T) {
		programs := publicDir(t)
		script(t, filepath.Join(programs, "bin", "initdb"), "exit 1")
		cache := publicDir(t)
		_, err := fetchPostgres(ctx, embeddedpostgres.DefaultConfig().BinaryRepositoryURL(repository(t, programs)), cache, acc, nil)
		require.Error(t, err)
		require.NoDirExists(t, filepath.Join(cache, "postgresql-"+string(embeddedpostgres.V18)))
	})
	t.Run("does not arrive", func(t *testing.T) {
		_, err := fetchPostgres(ctx, embeddedpostgres.DefaultConfig().BinaryRepositoryURL("http://127.0.0.1:1"), publicDir(t), acc, nil)
		require.ErrorContains(t, err, "unable to connect")
	})
}
