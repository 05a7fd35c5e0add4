package main

import (
	"os"
	"testing"
)

// envProgram makes the test binary the program itself.
const envProgram = "RAILSIM_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(envProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}
