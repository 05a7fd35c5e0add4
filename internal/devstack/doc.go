// Package devstack runs PostgreSQL and a Temporal server on this machine, for
// the demo, for development and for tests.
//
// It promises real servers with durable commits, on 127.0.0.1 and on ports of
// their own, so that any number of stacks run side by side; and that nothing is
// left behind. The servers are child processes that end with their parent,
// however it ends, a SIGKILL included. Temporary folders go with Stop, or, when
// the parent had no chance to call it, when the next server starts on this
// machine. PostgreSQL has a password of its own; Temporal's development server
// has none, and whoever is logged in on this machine can reach it.
//
// It does not promise anything fit for production: one PostgreSQL server
// without a replica or a backup, and Temporal's development server.
//
// Where DATABASE_URL or TEMPORAL_ADDRESS is set, the server it names is used
// instead. Such a server is never stopped, crashed or reconfigured: see
// [ErrExternal].
//
// Linux and macOS are supported. The context given to a Start function bounds
// the start alone; a server then runs until its Stop.
package devstack
