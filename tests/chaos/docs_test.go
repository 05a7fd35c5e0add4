package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"payonce/tests/chaos/storm"
)

var (
	declaresTest = regexp.MustCompile(`(?m)^func (Test[A-Z]\w*)\(t \*testing\.T\)`)
	namesTest    = regexp.MustCompile("`(Test[A-Z]\\w*)`")
)

// docs/reliability.md names each fault, each planted fault and each named fault test, and no test that is not there.
func TestReliabilityPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/reliability.md")
	require.NoError(t, err)
	for _, name := range storm.AllFaults() {
		require.Contains(t, string(page), "| `"+name+"` |")
	}
	for _, row := range planted {
		require.Contains(t, string(page), "| `"+row.plant+"` |")
	}
	here, there := testsIn(t, "."), testsIn(t, "../faults")
	for _, name := range there {
		require.Contains(t, string(page), "`"+name+"`")
	}
	for _, named := range namesTest.FindAllSubmatch(page, -1) {
		require.Contains(t, append(here, there...), string(named[1]))
	}
}

func testsIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, declared := range declaresTest.FindAllSubmatch(source, -1) {
			names = append(names, string(declared[1]))
		}
	}
	return names
}
