package serve

import "sync/atomic"

// state is how far the worker is.
type state struct{ value atomic.Int32 }

const (
	stateStarting int32 = iota
	stateServing
	stateStopping
	stateStopped
)

func (s *state) set(value int32) { s.value.Store(value) }

func (s *state) serving() bool { return s.value.Load() == stateServing }

func (s *state) String() string {
	switch s.value.Load() {
	case stateStarting:
		return "starting"
	case stateServing:
		return "serving"
	case stateStopping:
		return "stopping"
	default:
		return "stopped"
	}
}
