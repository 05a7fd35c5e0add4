package host

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// killSelf ends the process as if from outside. It does not return.
func killSelf() {
	signalSelf(unix.SIGKILL)
	select {}
}

// freezeSelf stops the process as if from outside, and returns when it is continued.
func freezeSelf() { signalSelf(unix.SIGSTOP) }

// signalSelf signals this very thread, so that the signal takes effect before the call returns: one that is sent to the
// process may be taken by another thread, while this one goes on for a moment.
func signalSelf(signal unix.Signal) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Tgkill(unix.Getpid(), unix.Gettid(), signal); err != nil {
		panic(err)
	}
}
