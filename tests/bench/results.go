package main

import (
	"slices"
	"time"
)

// results are what the bench writes as JSON. Rates are transfers per second, times milliseconds; each figure is the median of
// several runs, taken in turn with what it is compared with.
type results struct {
	Machine  machine         `json:"machine"`
	Ledger   ledgerResults   `json:"ledger,omitzero"`
	Temporal temporalResults `json:"temporal,omitzero"`
	Batch    batchResults    `json:"batch,omitzero"`
}

type machine struct {
	CPU        string  `json:"cpu"`
	Cores      int     `json:"cores"`
	MemoryGiB  float64 `json:"memory_gib"`
	OS         string  `json:"os"`
	Go         string  `json:"go"`
	PostgreSQL string  `json:"postgresql"`
	// PostgreSQLSettings are those that are not its defaults. Commits are durable.
	PostgreSQLSettings map[string]string `json:"postgresql_settings"`
	Temporal           string            `json:"temporal"`
	// Fdatasync is how long a small write takes to be durable, in microseconds.
	Fdatasync float64 `json:"fdatasync_us"`
	// Load is the machine's load average before the bench: far above 0, the figures are those of a busy machine.
	Load float64   `json:"load_before"`
	At   time.Time `json:"at"`
	Runs int       `json:"runs"`
}

type ledgerResults struct {
	Batch500        float64            `json:"batch500_per_s"`
	BulkLimit       float64            `json:"bulk_limit_per_s"`
	Batch500Two     float64            `json:"batch500_two_at_once_per_s"`
	BulkLimitOne    float64            `json:"bulk_limit_one_at_a_time_per_s"`
	ByBatch         map[string]float64 `json:"by_batch"`
	Single256       float64            `json:"single256_per_s"`
	Single256P50    float64            `json:"single256_p50_ms"`
	Baseline256     float64            `json:"baseline256_per_s"`
	Hot             float64            `json:"hot_per_s"`
	HotRatio        float64            `json:"hot_ratio"`
	HotBatch500     float64            `json:"hot_batch500_per_s"`
	Entries10MRatio float64            `json:"entries10m_ratio"`
	VerifySeconds   float64            `json:"verify10m_seconds"`
	VerifyPeakMB    float64            `json:"verify10m_peak_mb"`
}

type temporalResults struct {
	Single             float64 `json:"single_per_s"`
	SingleP50          float64 `json:"single_p50_ms"`
	Template           float64 `json:"template_per_s"`
	TemplateP50        float64 `json:"template_p50_ms"`
	TemplateApart      float64 `json:"template_apart_per_s"`
	TemplateApartP50   float64 `json:"template_apart_p50_ms"`
	Floor              float64 `json:"floor_per_s"`
	FloorApart         float64 `json:"floor_apart_per_s"`
	SingleApart        float64 `json:"single_apart_per_s"`
	SingleApartP50     float64 `json:"single_apart_p50_ms"`
	Grouped256         float64 `json:"grouped256_per_s"`
	Grouped256P50      float64 `json:"grouped256_p50_ms"`
	Grouped256P99      float64 `json:"grouped256_p99_ms"`
	Grouped1024        float64 `json:"grouped1024_per_s"`
	Grouped1024P50     float64 `json:"grouped1024_p50_ms"`
	Grouped256Apart    float64 `json:"grouped256_apart_per_s"`
	Grouped256ApartP50 float64 `json:"grouped256_apart_p50_ms"`
	Grouped1024Apart   float64 `json:"grouped1024_apart_per_s"`
	EventsPerTransfer  int64   `json:"events_per_transfer"`
	StateTransitions   int64   `json:"state_transitions_per_transfer"`
}

type batchResults struct {
	RowsPerSecond float64 `json:"rows_per_s"`
	Rows          int     `json:"rows"`
	WorkerPeakMB  float64 `json:"worker_peak_mb"`
	ClientPeakMB  float64 `json:"client_peak_mb"`
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1_000 }
