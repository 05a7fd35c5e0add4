package main

import (
	_ "embed"
	"html/template"
	"io"
	"maps"
	"slices"
	"strconv"
)

//go:embed report.html.tmpl
var reportText string

// bar is one bar of a plot.
type bar struct {
	Label string
	Value float64
	Width float64 // of 100
	Ours  bool
}

// plot is bars that are to be compared.
type plot struct {
	Title, Unit, Says string
	Bars              []bar
}

// writeReport writes the results as a page that needs nothing else.
func writeReport(out io.Writer, r *results) error {
	page, err := template.New("report").Parse(reportText)
	if err != nil {
		return err
	}
	return page.Execute(out, map[string]any{"Results": r, "Plots": plotsOf(r)})
}

func plotsOf(r *results) []plot {
	l, t := &r.Ledger, &r.Temporal
	bySize := plot{Title: "The ledger, by batch size", Unit: "transfers/s", Says: "One batch after another, over 1,000 accounts."}
	sizes := slices.Sorted(func(yield func(int) bool) {
		for size := range maps.Keys(l.ByBatch) {
			if n, err := strconv.Atoi(size); err != nil || !yield(n) {
				return
			}
		}
	})
	for _, size := range sizes {
		text := strconv.Itoa(size)
		bySize.Bars = append(bySize.Bars, bar{Label: text, Value: l.ByBatch[text], Ours: true})
	}
	bySize.Bars = append(bySize.Bars, bar{Label: "bulk-load limit", Value: l.BulkLimit})
	plots := []plot{
		bySize,
		{
			Title: "The ledger, single calls, 256 at once", Unit: "transfers/s",
			Says: "Concurrent calls share database transactions. The usual way is one for each transfer.",
			Bars: []bar{{Label: "payonce", Value: l.Single256, Ours: true}, {Label: "payonce, one account pays all", Value: l.Hot, Ours: true}, {Label: "the usual way", Value: l.Baseline256}},
		},
		{
			Title: "Through Temporal, a workflow for each transfer", Unit: "transfers/s", Says: "32 callers; the template's shape is two ordinary activities. The floor is a workflow that only posts, in a local activity.",
			Bars: []bar{{Label: "payonce, one process", Value: t.Single, Ours: true}, {Label: "payonce, apart", Value: t.SingleApart, Ours: true}, {Label: "template", Value: t.Template}, {Label: "template, apart", Value: t.TemplateApart}, {Label: "floor", Value: t.Floor}, {Label: "floor, apart", Value: t.FloorApart}},
		},
		{
			Title: "Through Temporal, the time of one transfer", Unit: "ms, p50", Says: "One caller. Less is better.",
			Bars: []bar{{Label: "payonce, one process", Value: t.SingleP50, Ours: true}, {Label: "payonce, apart", Value: t.SingleApartP50, Ours: true}, {Label: "template", Value: t.TemplateP50}, {Label: "template, apart", Value: t.TemplateApartP50}},
		},
		{
			Title: "Through Temporal, transfers that share workflows", Unit: "transfers/s", Says: "Each is a call of its own, with an answer of its own.",
			Bars: []bar{
				{Label: "256 callers, one process", Value: t.Grouped256, Ours: true},
				{Label: "256 callers, apart", Value: t.Grouped256Apart, Ours: true},
				{Label: "1,024 callers, one process", Value: t.Grouped1024, Ours: true},
				{Label: "1,024 callers, apart", Value: t.Grouped1024Apart, Ours: true},
			},
		},
	}
	measured := plots[:0]
	for _, p := range plots {
		most := 0.0
		for _, b := range p.Bars {
			most = max(most, b.Value)
		}
		if most == 0 {
			continue // this part was not measured
		}
		for i := range p.Bars {
			p.Bars[i].Width = 100 * p.Bars[i].Value / most
		}
		measured = append(measured, p)
	}
	return measured
}
