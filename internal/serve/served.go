package serve

import (
	"context"
	"errors"
	"sync"

	"payonce/activities"
	"payonce/ledger"
	"payonce/ledger/postgres"
)

// servedLedger is a ledger that the worker holds.
type servedLedger struct {
	name    string
	books   *postgres.Ledger
	gate    *gate
	monitor *monitor
}

var errNotChecked = errors.New("it has not been reached yet")

// openLedgers prepares the connections. It does not connect.
func (s *server) openLedgers(ctx context.Context) error {
	for _, setting := range s.config.Ledgers {
		// The pool outlives ctx: work that is finished after it needs connections.
		books, err := postgres.Open(context.WithoutCancel(ctx), postgres.Config{
			Name: setting.Name, URL: setting.URL.Reveal(), ConnsMax: s.config.PoolSize,
		})
		if err != nil {
			return err
		}
		g := newGate(setting.Name, newSlots(s.slotsPerLedger()), errNotChecked)
		s.ledgers = append(s.ledgers, &servedLedger{
			name: setting.Name, books: books, gate: g,
			monitor: &monitor{gate: g, books: books, pacing: defaultPacing(), log: s.log},
		})
	}
	return nil
}

// checkLedgers opens the gates of the ledgers that can be used. One that can't be reached stays closed for now; one that
// has other tables than this program knows is an error.
func (s *server) checkLedgers(ctx context.Context) error {
	errs := make([]error, len(s.ledgers))
	var checking sync.WaitGroup
	for i, l := range s.ledgers {
		checking.Go(func() {
			switch err := l.monitor.check(ctx, true); {
			case err == nil:
				l.monitor.open()
			case errors.Is(err, ledger.ErrUnavailable):
				l.gate.explain(err)
				s.log.Warn("the ledger can't be reached; its task queue waits until it can", "ledger", l.name, "error", err)
			default:
				errs[i] = err
			}
		})
	}
	checking.Wait()
	return errors.Join(errs...)
}

// activities are those of all ledgers, each behind its gate.
func (s *server) activities() *activities.Activities {
	books := make(map[string]activities.Ledger, len(s.ledgers))
	for _, l := range s.ledgers {
		var wrapped activities.Ledger = l.books
		if s.config.WrapLedger != nil {
			wrapped = s.config.WrapLedger(l.name, wrapped)
		}
		books[l.name] = &guard{books: wrapped, gate: l.gate}
	}
	acts := activities.New(books)
	acts.StatementsDir = s.config.StatementsDir
	return acts
}

// closeLedgers closes the connections. With work left it does not wait for that.
func (s *server) closeLedgers(workLeft bool) {
	for _, l := range s.ledgers {
		if workLeft {
			go l.books.Close()
		} else {
			l.books.Close()
		}
	}
}
