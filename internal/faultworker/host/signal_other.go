//go:build unix && !linux

package host

import (
	"syscall"
	"time"
)

// killSelf ends the process as if from outside. It does not return.
func killSelf() {
	signalSelf(syscall.SIGKILL)
	select {}
}

// freezeSelf stops the process as if from outside, and returns after it is continued.
func freezeSelf() {
	signalSelf(syscall.SIGSTOP)
	// Another thread may have taken the signal, and this one goes on for a moment.
	timer := time.NewTimer(100 * time.Millisecond)
	defer timer.Stop()
	<-timer.C
}

func signalSelf(signal syscall.Signal) {
	if err := syscall.Kill(syscall.Getpid(), signal); err != nil {
		panic(err)
	}
}
