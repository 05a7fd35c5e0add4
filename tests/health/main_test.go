package health

import (
	"os"
	"testing"

	"payonce/tests/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }
