package statement_test

import (
	"fmt"
	"os"
	"testing"

	"payonce/internal/statement"
)

// envWriter makes the test program a process that writes two statements in turn to a path until it is killed.
const envWriter = "PAYONCE_TEST_STATEMENT"

func TestMain(m *testing.M) {
	if path := os.Getenv(envWriter); path != "" {
		for i := 0; ; i++ {
			b := twoBooks()[i%2]
			if _, err := statement.Write(path, &b.Statement, b.all()); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
		}
	}
	os.Exit(m.Run())
}
