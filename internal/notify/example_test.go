package notify_test

import (
	"encoding/json"
	"io"
	"net/http"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// store is the receiver's own database.
type store interface {
	// BookOnce books what a transfer's end means to the receiver and keeps id, in one database transaction. If id is there already
	// it does nothing.
	BookOnce(id, transfer, state string) error
}

// The receiver of docs/notifications.md: a test holds the page against this text, and the compiler this text against the
// library.

// Receive takes webhooks of payonce.
func Receive(verifier *standardwebhooks.Webhook, db store) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err == nil {
			err = verifier.Verify(body, r.Header) // before anything in it is believed
		}
		var event struct {
			Type string `json:"type"` // "transfer.completed"
			Data struct {
				ID    string `json:"id"`
				State string `json:"state"`
			} `json:"data"`
		}
		if err == nil {
			err = json.Unmarshal(body, &event)
		}
		if err != nil {
			http.Error(w, "not one of payonce's", http.StatusBadRequest)
			return
		}
		if err := db.BookOnce(r.Header.Get("webhook-id"), event.Data.ID, event.Data.State); err != nil {
			http.Error(w, "not booked", http.StatusInternalServerError) // it comes again
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}
}
