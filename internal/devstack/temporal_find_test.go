package devstack

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const sayVersion = `echo "temporal version 1.0.0"`

func noDownload(context.Context, string) (string, error) {
	return "", errors.New("no network")
}

var saysHowLong = regexp.MustCompile(`\(about 5 minutes, once\): [0-9ms]+ so far`)

func cacheIn(dir string) func() (string, error) { return func() (string, error) { return dir, nil } }

// fakeGo is a Go that builds a CLI which works, and takes notes. GOENV's flags
// are what go env reports.
func fakeGo(t testing.TB, dir, notes, build string) {
	t.Helper()
	script(t, filepath.Join(dir, "go"), `
if [ "$1" = env ]; then
  shift
  for name in "$@"; do
    case $name in
      GOFLAGS) echo "-mod=mod -trimpath -modfile=x";;
      GOBIN) echo "$FAKE_GOBIN";;
      GOCACHE) echo /proc/nowhere/cache;;
      GOPATH) echo /proc/nowhere/path;;
    esac
  done
  exit
fi
echo "$@ in $PWD: GOFLAGS=$GOFLAGS GOBIN=$GOBIN GOCACHE=$GOCACHE GOPATH=$GOPATH" >> `+notes+`
`+build)
}

func TestTemporalSearch(t *testing.T) {
	ctx := within(t)
	root := t.TempDir()
	in := func(parts ...string) string { return filepath.Join(append([]string{root}, parts...)...) }
	script(t, in("path", "temporal"), sayVersion)
	script(t, in("stranger", "temporal"), "echo a calendar, version 7")
	script(t, in("cached", "temporal-"+temporalVersion), sayVersion)
	script(t, in("gobin", "temporal"), sayVersion)
	fakeGo(t, in("go"), in("notes"), "exit 1")
	system := ":/usr/bin:/bin"
	t.Setenv("GOBIN", "")
	t.Setenv("GOPATH", in("empty"))

	for _, c := range []struct {
		name   string
		search temporalSearch
		want   string
	}{
		{"PATH first", temporalSearch{path: in("path"), cacheDir: cacheIn(in("cached"))}, in("path", "temporal")},
		{"the cache next", temporalSearch{path: in("stranger"), cacheDir: cacheIn(in("cached"))}, in("cached", "temporal-"+temporalVersion)},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := c.search.find(ctx, nil)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
	t.Run("what Go installed", func(t *testing.T) {
		t.Setenv("FAKE_GOBIN", in("gobin"))
		got, err := temporalSearch{path: in("go") + system, cacheDir: cacheIn(t.TempDir())}.find(ctx, nil)
		require.NoError(t, err)
		require.Equal(t, in("gobin", "temporal"), got)
	})
	t.Run("the download", func(t *testing.T) {
		cache := t.TempDir()
		search := temporalSearch{cacheDir: cacheIn(cache), download: func(_ context.Context, dir string) (string, error) {
			return script(t, filepath.Join(dir, "temporal-cli"), sayVersion), nil
		}}
		got, err := search.find(ctx, nil)
		require.NoError(t, err)
		require.True(t, isTemporal(ctx, got))
		search.download = noDownload
		again, err := search.find(ctx, nil)
		require.NoError(t, err)
		require.Equal(t, got, again)
		requireNoStage(t, cache)
	})
	t.Run("nothing", func(t *testing.T) {
		_, err := temporalSearch{cacheDir: cacheIn(t.TempDir()), download: noDownload}.find(ctx, nil)
		require.ErrorIs(t, err, ErrNoTemporal)
		for _, part := range []string{"no network", "there is no Go on PATH", "TEMPORAL_ADDRESS"} {
			require.ErrorContains(t, err, part)
		}
	})
	t.Run("a build that fails", func(t *testing.T) {
		cache := t.TempDir()
		fakeGo(t, in("badgo"), in("notes"), "echo no space left; exit 1")
		_, err := temporalSearch{path: in("badgo") + system, cacheDir: cacheIn(cache), download: noDownload}.find(ctx, nil)
		require.ErrorIs(t, err, ErrNoTemporal)
		require.ErrorContains(t, err, "no space left")
		requireNoStage(t, cache)
	})
	t.Run("a build that does not work", func(t *testing.T) {
		fakeGo(t, in("oddgo"), in("notes"), `echo '#!/bin/sh' > "$GOBIN/temporal"; chmod +x "$GOBIN/temporal"`)
		_, err := temporalSearch{path: in("oddgo") + system, cacheDir: cacheIn(t.TempDir()), download: noDownload}.find(ctx, nil)
		require.ErrorContains(t, err, "does not run")
	})
}

func requireNoStage(t testing.TB, cache string) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(cache, "fetch-*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// TestTemporalBuiltOnce has several at once find no CLI: one builds it, the
// others wait for that one.
func TestTemporalBuiltOnce(t *testing.T) {
	ctx := within(t)
	interval := heartbeatInterval
	heartbeatInterval = 5 * time.Millisecond
	defer func() { heartbeatInterval = interval }()
	t.Setenv("GOBIN", "/nowhere")
	t.Setenv("GOFLAGS", "-mod=vendor")
	t.Setenv("GOPATH", "")
	t.Setenv("HOME", "/proc/nowhere")

	root, cache := t.TempDir(), t.TempDir()
	notes, goOn := filepath.Join(root, "notes"), filepath.Join(root, "go-on")
	fakeGo(t, filepath.Join(root, "bin"), notes, `
while ! [ -e `+goOn+` ]; do sleep 0.01; done
printf '#!/bin/sh\n`+sayVersion+`\n' > "$GOBIN/temporal"; chmod +x "$GOBIN/temporal"`)
	left := filepath.Join(cache, "fetch-temporal-left")
	require.NoError(t, os.Mkdir(left, 0o755))

	log := &logBuffer{}
	search := temporalSearch{path: filepath.Join(root, "bin") + ":/usr/bin:/bin", cacheDir: cacheIn(cache), download: noDownload}
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			got, err := search.find(ctx, log)
			assert.NoError(t, err)
			assert.Equal(t, filepath.Join(cache, "temporal-"+temporalVersion), got)
		})
	}
	eventually(t, "one builds and says how long for, two wait", func() bool {
		said := log.String()
		return strings.Count(said, "so far") > 5 && saysHowLong.MatchString(said) &&
			strings.Count(said, "waiting for another process that fetches temporal\n") == 2
	})
	require.NoError(t, os.WriteFile(goOn, nil, 0o644))
	wg.Wait()

	raw, err := os.ReadFile(notes)
	require.NoError(t, err)
	note := string(raw)
	require.Equal(t, 1, strings.Count(note, "\n"), note)
	require.Contains(t, note, "install "+temporalPackage+"@"+temporalVersion+" in "+cache)
	require.Contains(t, note, "GOFLAGS=-buildvcs=false -trimpath -modcacherw ")
	require.Contains(t, note, "GOBIN="+cache)
	require.Contains(t, note, "GOCACHE="+cache, "a user without a home has caches all the same")
	require.Contains(t, note, "GOPATH="+cache)
	requireNoStage(t, cache)
}

func TestTemporalBuildIsCancelled(t *testing.T) {
	t.Setenv("GOPATH", t.TempDir())
	t.Setenv("GOBIN", "")
	ctx, cancel := context.WithCancel(within(t))
	root, cache := t.TempDir(), t.TempDir()
	pid := filepath.Join(root, "pid")
	fakeGo(t, filepath.Join(root, "bin"), filepath.Join(root, "notes"), "echo $$ > "+pid+"; exec sleep 1000")
	search := temporalSearch{path: filepath.Join(root, "bin") + ":/usr/bin:/bin", cacheDir: cacheIn(cache), download: noDownload}
	ended := make(chan error, 1)
	go func() {
		_, err := search.find(ctx, nil)
		ended <- err
	}()
	var builder int
	eventually(t, "the build runs", func() bool {
		raw, _ := os.ReadFile(pid)
		builder = number(strings.TrimSpace(string(raw)))
		return builder != 0
	})
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.True(t, gone(builder))
	requireNoStage(t, cache)
}

// TestTemporalDownload has the SDK try. Where it can't, it must say so soon;
// where it can, what it brings must work.
func TestTemporalDownload(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	file, err := downloadTemporal(ctx, t.TempDir())
	if err == nil {
		require.True(t, isTemporal(ctx, file))
		return
	}
	require.NoError(t, ctx.Err())
}

func TestCacheOfAUserWithoutAHome(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("HOME", "/proc/nowhere")
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("TMPDIR", tmp)
	dir, err := cacheDir(nil)
	require.NoError(t, err)
	require.Equal(t, tmp, filepath.Dir(dir))

	// A folder that others may write to could hold anything.
	require.NoError(t, os.Chmod(dir, 0o777))
	require.ErrorContains(t, makeCache(dir, nil), "we alone")
}
