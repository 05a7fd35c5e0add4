// Package tests holds what must be true across processes: the programs as they are shipped, on a real PostgreSQL and a real
// Temporal server. Package tests/harness runs them.
package tests
