package storm

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Tally is what all rounds of a run come to.
type Tally struct {
	Rounds     int            `json:"rounds"`
	Transfers  int            `json:"transfers"`
	Faults     map[string]int `json:"faults"`
	Violations int            `json:"violations"`
	Seed       uint64         `json:"seed"`
}

// NewTally is an empty one.
func NewTally(seed uint64) *Tally { return &Tally{Faults: make(map[string]int), Seed: seed} }

// Add adds a round.
func (t *Tally) Add(o *Outcome, violations int) {
	t.Rounds++
	t.Transfers += o.Transfers
	t.Violations += violations
	for name, n := range o.Faults {
		t.Faults[name] += n
	}
}

// Missing are the faults that have never struck.
func (t *Tally) Missing() []string {
	return slices.DeleteFunc(AllFaults(), func(name string) bool { return t.Faults[name] > 0 })
}

// String is a round in one line.
func (o *Outcome) String() string {
	faults := 0
	for _, n := range o.Faults {
		faults += n
	}
	return fmt.Sprintf("%d transfers (%s), %d faults (%s), stormed %s, settled %s, gathered %s", o.Transfers, counts(o.Ends), faults,
		counts(o.Faults), o.Stormed.Round(100*time.Millisecond), o.Settled.Round(100*time.Millisecond), o.Gathered.Round(100*time.Millisecond))
}

func counts(of map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		parts = append(parts, fmt.Sprintf("%d %s", of[name], name))
	}
	return strings.Join(parts, ", ")
}
