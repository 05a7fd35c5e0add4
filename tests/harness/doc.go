// Package harness runs payonce's real programs for tests: worker, starter and faultworker as processes, on a real
// PostgreSQL and a real Temporal server.
//
// A test makes a World, starts workers in it, moves money, and looks at what came of it:
//
//	func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }
//
//	func TestRent(t *testing.T) {
//		t.Parallel()
//		w := harness.New(t, harness.Config{})
//		w.StartWorker(t, harness.WorkerConfig{})
//		alice, bob := w.Account(t, "us", "20.00"), w.Account(t, "eu", "")
//		done := w.CLITransfer(t, workflows.TransferInput{ID: "rent", From: alice, To: bob, Amount: "10", Asset: "USD"})
//		require.Equal(t, 0, done.Code)
//		require.Equal(t, "10.00", w.Balance(t, bob))
//	}
//
// The promise: worlds do not meet. Each has databases and a Temporal namespace of its own, so that the same ledgers' names,
// task queues and transfer IDs are free in each, and tests run in parallel. What a world says about the books (Balance,
// Operations, AssertBooks) it reads with SQL of its own, never through the product, so that a fault of the product can't
// hide itself. When its test ends, a world audits its books, with its own SQL and with `worker verify`, fails the test if
// they are wrong, if a worker died by itself, or if a fault that was asked for did not strike; and it shows what its
// programs printed if the test has failed. Nothing is left behind, also when a test fails or is interrupted; what a killed
// test process leaves in the folder for temporary files, the next one removes.
//
// What it does not promise: times. Wait for conditions, with Eventually and the Await methods; never for a while.
//
// The servers are shared by the tests of one process and start with the first world. DATABASE_URL and TEMPORAL_ADDRESS
// name others to use in their place, PAYONCE_BIN a folder with programs that are built already.
package harness
