package storm

import (
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// stream is the random numbers of one subject of a round. Streams of one seed don't touch each other.
func stream(seed uint64, subject string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(subject))
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// between is a random duration from least to most.
func between(random *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(random.Int64N(int64(most-least)+1))
}

func pick[T any](random *rand.Rand, from []T) T { return from[random.IntN(len(from))] }

// weighted is one choice of several, with how often it is taken.
type weighted[T any] struct {
	value  T
	weight int
}

func pickWeighted[T any](random *rand.Rand, from []weighted[T]) T {
	total := 0
	for _, w := range from {
		total += w.weight
	}
	n := random.IntN(total)
	for _, w := range from {
		if n -= w.weight; n < 0 {
			return w.value
		}
	}
	panic("storm: weights that don't add up")
}
