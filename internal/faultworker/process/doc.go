// Package process runs fault workers as child processes and listens to what they announce, for the demo and for tests.
//
// The promise: a worker does not outlive its parent. Stop and Kill end a frozen one too; a parent that is killed takes its
// workers with it on Linux, and elsewhere those that are not frozen. What it does not promise: that a worker that has
// announced a fault is hit by it already. Wait for its end, or look at what it did.
package process
