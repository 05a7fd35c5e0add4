package main

import (
	"encoding/json"
	"io"

	"payonce/internal/reconcile"
	"payonce/ledger/postgres"
)

// jsonReport writes one JSON object at the end: a reconcile.View.
type jsonReport struct {
	out    io.Writer
	viewer reconcile.Viewer
}

func (r *jsonReport) report() reconcile.Report { return r.viewer.Report() }

func (r *jsonReport) endBooks(s postgres.Summary) error { return r.write(r.viewer.EndBooks(s)) }

func (r *jsonReport) end(s reconcile.Summary) error { return r.write(r.viewer.End(s)) }

func (r *jsonReport) write(view reconcile.View) error {
	encoder := json.NewEncoder(r.out)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(view)
}
