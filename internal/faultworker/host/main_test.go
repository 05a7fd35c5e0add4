package host

import (
	"context"
	"fmt"
	"os"
	"testing"

	"payonce/internal/faultworker/fault"
	"payonce/ledger"
)

// envFault has this test program be a process that carries one write out, under the fault that it names.
const envFault = "PAYONCE_TEST_FAULT"

func TestMain(m *testing.M) {
	if text := os.Getenv(envFault); text != "" {
		os.Exit(writeOnce(text))
	}
	os.Exit(m.Run())
}

// writeOnce writes "wrote" when the ledger is asked, and "returned" and what, when the write returns.
func writeOnce(text string) int {
	f, err := fault.Parse(text)
	if err != nil {
		panic(err)
	}
	letGo := listen(os.Stdin, func() {})
	plan := newPlan([]fault.Fault{f}, newAnnouncer(os.Stdout), newPolls(nil, true, nil), letGo)
	books := &fakeLedger{onPost: func(context.Context) { fmt.Fprintln(os.Stdout, "wrote") }}
	outcome, err := (&faultyLedger{Ledger: books, plan: plan}).Post(context.Background(), anOperation("transfer/a/withdraw"))
	fmt.Fprintln(os.Stdout, "returned", outcome.State, err)
	return 0
}

func anOperation(key ledger.Key) ledger.Operation {
	return ledger.Operation{Key: key, Kind: ledger.KindWithdraw}
}
