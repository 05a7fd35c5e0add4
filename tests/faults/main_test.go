package faults

import (
	"os"
	"testing"
	"time"

	"payonce/tests/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

// patience is how long anything may take, on a busy machine.
const patience = 2 * time.Minute

// exitDone is the programs' exit code when all is well.
const exitDone = 0
