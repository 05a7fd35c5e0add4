package serve

import (
	"container/list"
	"context"
	"sync"

	"go.temporal.io/sdk/worker"
)

// slots hands out the slots of a ledger's activity worker: the SDK reserves one before it asks Temporal for a task, so
// that a worker without slots takes no work. There are never more than size in use, nor, for new ones, more than limit,
// which the gate lowers to 0 and raises again.
type slots struct {
	size int

	mu      sync.Mutex
	limit   int
	issued  int
	waiters list.List // of chan struct{}, closed when its slot is issued
}

var _ worker.SlotSupplier = (*slots)(nil)

// newSlots returns slots with limit 0.
func newSlots(size int) *slots { return &slots{size: size} }

// setLimit changes how many slots may be in use. Those in use above a lower limit stay.
func (s *slots) setLimit(limit int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limit = min(limit, s.size)
	s.serve()
}

// serve gives free slots to who waits longest. The caller holds mu.
func (s *slots) serve() {
	for s.issued < s.limit && s.waiters.Len() > 0 {
		granted, _ := s.waiters.Remove(s.waiters.Front()).(chan struct{})
		s.issued++
		close(granted)
	}
}

// ReserveSlot waits for a slot or for the end of ctx.
func (s *slots) ReserveSlot(ctx context.Context, _ worker.SlotReservationInfo) (*worker.SlotPermit, error) {
	s.mu.Lock()
	if permit := s.take(); permit != nil {
		s.mu.Unlock()
		return permit, nil
	}
	granted := make(chan struct{})
	place := s.waiters.PushBack(granted)
	s.mu.Unlock()

	select {
	case <-granted:
		return &worker.SlotPermit{}, nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-granted:
		// Granted at the same moment, and nobody will use it.
		s.issued--
		s.serve()
	default:
		s.waiters.Remove(place)
	}
	return nil, ctx.Err()
}

// TryReserveSlot returns nil when no slot is free.
func (s *slots) TryReserveSlot(worker.SlotReservationInfo) *worker.SlotPermit {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.take()
}

func (s *slots) take() *worker.SlotPermit {
	if s.issued >= s.limit || s.waiters.Len() > 0 {
		return nil
	}
	s.issued++
	return &worker.SlotPermit{}
}

// MarkSlotUsed does nothing: a slot counts from its reservation on.
func (s *slots) MarkSlotUsed(worker.SlotMarkUsedInfo) {}

// ReleaseSlot takes a slot back.
func (s *slots) ReleaseSlot(worker.SlotReleaseInfo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.issued--
	s.serve()
}

// MaxSlots is the size, whatever the limit is now.
func (s *slots) MaxSlots() int { return s.size }

// use returns the slots in use and the limit now.
func (s *slots) use() (issued, limit int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.issued, s.limit
}
