package serve

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/opentelemetry"
)

// latencyBuckets are the upper bounds of histograms, in seconds: from a local activity to a transfer that waits out a
// short outage.
var latencyBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}

// metrics are what the worker measures: Temporal's SDK, the ledgers' gates and pools, the Go runtime and the process.
type metrics struct {
	temporal client.MetricsHandler
	handler  http.Handler
	provider *metric.MeterProvider
	log      *slog.Logger
}

// newMetrics keeps its own registry: two workers in one process don't share metrics.
func newMetrics(s *server) (*metrics, error) {
	registry := prometheus.NewRegistry()
	version := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "payonce_worker_info", Help: "1, with the worker's version.",
		ConstLabels: prometheus.Labels{"version": s.config.Version},
	})
	version.Set(1)
	registry.MustRegister(version, &ledgerCollector{ledgers: s.ledgers, state: &s.state},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry),
		otelprometheus.WithoutScopeInfo(), otelprometheus.WithoutTargetInfo())
	if err != nil {
		return nil, err
	}
	provider := metric.NewMeterProvider(metric.WithReader(exporter), metric.WithView(metric.NewView(
		metric.Instrument{Kind: metric.InstrumentKindHistogram},
		metric.Stream{Aggregation: metric.AggregationExplicitBucketHistogram{Boundaries: latencyBuckets}},
	)))
	return &metrics{
		temporal: opentelemetry.NewMetricsHandler(opentelemetry.MetricsHandlerOptions{
			Meter:                provider.Meter("temporal-sdk-go"),
			UseMonotonicCounters: true,
			OnError:              func(err error) { s.log.Warn("a metric can't be recorded", "error", err) },
		}),
		handler:  promhttp.HandlerFor(registry, promhttp.HandlerOpts{Registry: registry}),
		provider: provider,
		log:      s.log,
	}, nil
}

func (m *metrics) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := m.provider.Shutdown(ctx); err != nil {
		m.log.Warn("metrics did not shut down", "error", err)
	}
}

// ledgerCollector reads the state of gates and pools when it is asked for it.
type ledgerCollector struct {
	ledgers []*servedLedger
	state   *state
}

var (
	descServing = prometheus.NewDesc("payonce_worker_serving", "1 while the worker polls its task queues.", nil, nil)

	descOpen = ledgerDesc("payonce_ledger_open", "1 while the ledger is in use, 0 while it can't be reached.")
	descLost = ledgerDesc("payonce_ledger_lost_total", "How often the ledger could not be reached any more.")

	descSlots      = ledgerDesc("payonce_ledger_slots", "Slots for the ledger's tasks.")
	descSlotsLimit = ledgerDesc("payonce_ledger_slots_limit", "Slots that may be in use now: 0 while the ledger can't be reached.")
	descSlotsInUse = ledgerDesc("payonce_ledger_slots_in_use", "Slots in use, by tasks and by polls for tasks.")

	descConnsMax          = ledgerDesc("payonce_pool_connections_max", "The size of the ledger's connection pool.")
	descConns             = ledgerDesc("payonce_pool_connections", "Open connections to the ledger.")
	descConnsInUse        = ledgerDesc("payonce_pool_connections_in_use", "Connections to the ledger in use.")
	descAcquired          = ledgerDesc("payonce_pool_acquired_total", "Connections taken from the pool.")
	descAcquiredAfterWait = ledgerDesc("payonce_pool_acquired_after_wait_total", "Connections that had to be waited for.")
	descAcquireWait       = ledgerDesc("payonce_pool_acquire_wait_seconds_total", "How long connections were waited for, in all.")
)

func ledgerDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, []string{"ledger"}, nil)
}

// Describe implements prometheus.Collector.
func (c *ledgerCollector) Describe(descs chan<- *prometheus.Desc) {
	prometheus.DescribeByCollect(c, descs)
}

// Collect implements prometheus.Collector.
func (c *ledgerCollector) Collect(out chan<- prometheus.Metric) {
	out <- prometheus.MustNewConstMetric(descServing, prometheus.GaugeValue, oneIf(c.state.serving()))
	for _, l := range c.ledgers {
		gauge := func(desc *prometheus.Desc, value float64) {
			out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, l.name)
		}
		counter := func(desc *prometheus.Desc, value float64) {
			out <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, value, l.name)
		}
		status := l.gate.status()
		gauge(descOpen, oneIf(status.open))
		counter(descLost, float64(status.lost))

		inUse, limit := l.gate.slots.use()
		gauge(descSlots, float64(l.gate.slots.MaxSlots()))
		gauge(descSlotsLimit, float64(limit))
		gauge(descSlotsInUse, float64(inUse))

		stat := l.books.PoolStat()
		gauge(descConnsMax, float64(stat.ConnsMax))
		gauge(descConns, float64(stat.ConnsTotal))
		gauge(descConnsInUse, float64(stat.ConnsInUse))
		counter(descAcquired, float64(stat.Acquired))
		counter(descAcquiredAfterWait, float64(stat.AcquiredAfterWait))
		counter(descAcquireWait, stat.AcquireWait.Seconds())
	}
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
