package harness

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
)

// testsAtOnce is how many parallel tests run at once when nobody says: they mostly wait for others.
const testsAtOnce = 4

// exitInterrupted is what a shell says of a program that an interrupt has ended.
const exitInterrupted = 130

// Main runs the tests of a package, takes everything down that they have started, and returns the exit code. It belongs
// into TestMain of every package that makes worlds. Parallel tests are more than the cores, unless -parallel says.
func Main(m *testing.M) int {
	flag.Parse()
	setParallel(testsAtOnce * runtime.GOMAXPROCS(0))
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		<-interrupts
		signal.Stop(interrupts) // the next one ends us at once
		fmt.Fprintln(os.Stderr, "harness: interrupted, taking everything down")
		_ = shared.close()
		os.Exit(exitInterrupted) // the tests that run can't be told to return
	}()

	code := m.Run()
	if err := shared.close(); err != nil {
		fmt.Fprintf(os.Stderr, "harness: taking everything down: %v\n", err)
		code = max(code, 1)
	}
	return code
}

func setParallel(n int) {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		// The flag is package testing's own; it exists in every test binary.
		if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
			panic(err)
		}
	}
}

// everything is what this process has started and made, to be taken down.
type everything struct {
	mu     sync.Mutex
	closed bool
	ends   map[int]func() error // what ends a process, by a number of its own
	next   int
	last   []func() error // what is taken down after the processes, the latest first
}

var shared = &everything{ends: make(map[int]func() error)}

var errClosed = errors.New("the tests are ending")

// watch starts something that must be ended when the tests are. After the end began, it is not started.
func (e *everything) watch(start func() (end func() error, err error)) (forget func(), err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, errClosed
	}
	end, err := start()
	if err != nil {
		return nil, err
	}
	id := e.next
	e.next++
	e.ends[id] = end
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.ends, id)
	}, nil
}

// atLast has something done after all processes have ended.
func (e *everything) atLast(do func() error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last = append(e.last, do)
}

func (e *everything) close() error {
	e.mu.Lock()
	e.closed = true
	ends, last := e.ends, e.last
	e.ends, e.last = nil, nil
	e.mu.Unlock()
	var errs []error
	for _, end := range ends {
		errs = append(errs, end())
	}
	for _, do := range slices.Backward(last) {
		errs = append(errs, do())
	}
	return errors.Join(errs...)
}
