package main

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"payonce/internal/serve"
)

func TestCommands(t *testing.T) {
	do := func(args ...string) (code int, stdout, stderr string) {
		var out, errOut bytes.Buffer
		code = run(t.Context(), args, strings.NewReader(""), &out, &errOut)
		return code, out.String(), errOut.String()
	}

	t.Run("version", func(t *testing.T) {
		code, stdout, stderr := do("version")
		assert.Equal(t, exitOK, code)
		assert.Regexp(t, `^payonce worker dev \(go1\..*\)\n$`, stdout)
		assert.Empty(t, stderr)
	})

	t.Run("help", func(t *testing.T) {
		for _, args := range [][]string{nil, {"help"}, {"--help"}} {
			code, stdout, stderr := do(args...)
			assert.Equal(t, exitOK, code)
			assert.Contains(t, stdout, "Available Commands:")
			assert.Empty(t, stderr)
		}
	})

	t.Run("help of each command explains its settings", func(t *testing.T) {
		for _, command := range []string{serve.CommandRun, serve.CommandMigrate, serve.CommandVerify} {
			code, stdout, _ := do(command, "--help")
			assert.Equal(t, exitOK, code)
			for _, v := range serve.Variables() {
				listed := strings.Contains(stdout, "\n  "+v.Name+" ") || strings.Contains(stdout, "\n  "+v.Name+"…")
				assert.Equal(t, reads(command, v), listed, "%s in the help of %s", v.Name, command)
				if v.Flag != "" && reads(command, v) {
					assert.Contains(t, stdout, "--"+v.Flag)
				}
			}
		}
	})

	t.Run("completion", func(t *testing.T) {
		code, stdout, _ := do("completion", "bash")
		assert.Equal(t, exitOK, code)
		assert.Contains(t, stdout, "bash completion")
	})

	t.Run("wrong usage", func(t *testing.T) {
		for _, args := range [][]string{{"fly"}, {"--fly"}, {"version", "now"}, {"migrate", "--fly"}, {"run", "--listen"}} {
			code, stdout, stderr := do(args...)
			assert.Equal(t, exitUsage, code, args)
			assert.Empty(t, stdout)
			assert.Contains(t, stderr, "--help")
		}
	})
}

func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := newProgress(&out, 2)
		time.Sleep(2500 * time.Millisecond) //nolint:forbidigo // the bubble's clock
		synctest.Wait()
		p.hide()
		assert.Equal(t, clearLine+"checking 2 ledgers: 1s"+clearLine+"checking 2 ledgers: 2s"+clearLine, out.String())
		p.stop()
		p.stop()
	})
	t.Run("nothing on anything but a terminal", func(t *testing.T) {
		var out bytes.Buffer
		p := startProgress(&out, nil)
		p.hide()
		p.stop()
		assert.Nil(t, p.out)
	})
}
