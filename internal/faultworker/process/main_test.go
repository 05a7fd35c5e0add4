package process_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"payonce/internal/faultworker/fault"
	"payonce/internal/faultworker/process"
)

// envRole has this test program be a worker that only announces, or a parent of one.
const envRole = "PAYONCE_TEST_ROLE"

const (
	roleDying    = "dying"    // announces, and ends
	roleFrozen   = "frozen"   // announces, and freezes
	roleStubborn = "stubborn" // announces, and ignores SIGTERM
	roleParent   = "parent"   // starts a frozen one, prints its PID and waits
)

func TestMain(m *testing.M) {
	switch os.Getenv(envRole) {
	case "":
		os.Exit(m.Run())
	case roleDying:
		announce(fault.Event{Event: fault.EventReady})
		announce(fault.Event{Event: fault.EventFault, Point: point, Action: fault.ActionFail})
		fmt.Fprint(os.Stdout, `{"event":"cut o`)
	case roleFrozen:
		announce(fault.Event{Event: fault.EventReady})
		announce(fault.Event{Event: fault.EventFault, Point: point, Action: fault.ActionFreeze})
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		announce(fault.Event{Event: fault.EventResumed, Point: point})
	case roleStubborn:
		signal.Ignore(syscall.SIGTERM)
		announce(fault.Event{Event: fault.EventReady})
		select {}
	case roleParent:
		w, err := process.Start(config(roleFrozen))
		if err != nil {
			panic(err)
		}
		if _, err := w.AwaitFault(context.Background(), point); err != nil {
			panic(err)
		}
		fmt.Fprintln(os.Stdout, w.PID)
		select {}
	}
}

var point = fault.Point{Kind: fault.KindDeposit, Moment: fault.Before}
