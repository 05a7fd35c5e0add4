package serve

import (
	"payonce/activities"
	"payonce/internal/notify"
)

// notifySlots bounds how many endpoints a worker tells at once. Each holds its slot for some seconds if the endpoint is slow.
const notifySlots = 50

// openEndpoints prepares the endpoints. It does not connect.
func (s *server) openEndpoints() error {
	if len(s.config.Notify.Endpoints) == 0 {
		return nil
	}
	endpoints, err := notify.New(s.config.Notify)
	if err != nil {
		return err
	}
	s.notify = activities.NewNotifications(endpoints)
	return nil
}
