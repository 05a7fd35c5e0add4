package faults

import (
	"os"
	"testing"
	"time"

	"payonce/tests/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

// patience is how long anything may take, on a busy machine.
const patience = time.Minute

// The exit codes of starter that are looked at here.
const (
	exitDone    = 0
	exitPending = 5
)
