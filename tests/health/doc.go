// Package health holds that poison among many transfers costs the others next to nothing. It is a package of its own because it
// measures.
package health
