package storm

// Planted faults, by name: what the program in tests/chaos/planted can do wrong, in its books, and at a payment rail.
const (
	PlantKeyBefore        = "key-before-effect"
	PlantKeyAfter         = "key-after-effect"
	PlantNoKey            = "no-key"
	PlantRunKey           = "key-with-run-id"
	PlantAttemptKey       = "key-with-attempt"
	PlantUnresolved       = "refund-without-resolve"
	PlantLooksOnly        = "resolve-does-not-seal"
	PlantRefusalForgotten = "refusal-not-recorded"
	PlantLateApplied      = "late-attempt-not-refused"
	PlantEntryLost        = "entry-lost"
	PlantEntryChanged     = "old-entry-changed"
	PlantBalanceCached    = "balance-cached"

	PlantSubmitNoKey    = "submit-without-key"
	PlantLostIsRejected = "lost-answer-is-rejected"
	PlantUnknownIsNever = "unknown-is-never"
	PlantTakenIsSettled = "taken-is-settled"
)

// The settings of a worker with a planted fault: its name, and the ledgers' databases as their owner.
const (
	EnvPlant        = "PAYONCE_PLANT"
	EnvPlantLedgers = "PAYONCE_PLANT_LEDGERS"
)
