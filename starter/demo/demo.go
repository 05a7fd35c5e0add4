package demo

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Run plays the scenarios, one after the other, and has the books verified. The report says whether everything went as it
// must. The error is that of a context that ended before; the report is then of what was played.
//
// No worker is left when it returns. A repeat is safe: each run has accounts and transfers of its own.
func Run(ctx context.Context, config Config) (Report, error) {
	begun := time.Now()
	report := Report{Scenarios: []ScenarioReport{}}
	if err := CheckNames(config.Scenarios); err != nil {
		return report, err
	}
	chosen := choose(config.Scenarios)
	config.Timeline.head()
	run := strings.ToLower(rand.Text()[:5])
	for i, s := range chosen {
		config.Timeline.begin(i+1, len(chosen), s)
		played := playScenario(ctx, &config, s, run)
		if ctx.Err() != nil {
			return report, context.Cause(ctx)
		}
		report.Scenarios = append(report.Scenarios, played)
		config.Timeline.end(s, &played)
	}
	config.Timeline.beginVerify()
	var err error
	if report.Verify, err = verify(ctx, &config); err != nil {
		return report, err
	}
	report.finish()
	report.ElapsedMS = time.Since(begun).Milliseconds()
	config.Timeline.finish(&report)
	return report, nil
}

// Names are the scenarios' names, in the demo's order.
func Names() []string {
	var names []string
	for _, s := range scenarios() {
		names = append(names, s.name)
	}
	return names
}

// CheckNames says whether all names are scenarios'.
func CheckNames(names []string) error {
	for _, name := range names {
		if !slices.Contains(Names(), name) {
			return fmt.Errorf("there is no scenario %q: there are %s", name, strings.Join(Names(), ", "))
		}
	}
	return nil
}

// choose returns the named scenarios, or all, in the demo's order.
func choose(names []string) []*scenario {
	if len(names) == 0 {
		return scenarios()
	}
	return slices.DeleteFunc(scenarios(), func(s *scenario) bool { return !slices.Contains(names, s.name) })
}
