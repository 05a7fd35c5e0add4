package serve

import (
	"payonce/activities"
	"payonce/internal/httprail"
)

// railSlots bounds what a worker asks of one rail at once.
const railSlots = 50

// servedRail is a rail that the worker has settings for.
type servedRail struct {
	name string
	rail *httprail.Rail
	acts *activities.Rails
}

// openRails prepares the rails. It does not connect: a rail that can't be reached holds up what is asked of it, and nothing
// else.
func (s *server) openRails() error {
	for _, setting := range s.config.Rails {
		rail, err := httprail.New(setting)
		if err != nil {
			return err
		}
		var wrapped activities.Rail = rail
		if s.config.WrapRail != nil {
			wrapped = s.config.WrapRail(setting.Name, wrapped)
		}
		s.rails = append(s.rails, &servedRail{name: setting.Name, rail: rail, acts: activities.NewRails(
			map[string]activities.ServedRail{setting.Name: {Rail: wrapped, KeysKept: setting.KeysKept}},
		)})
	}
	return nil
}

func (s *server) closeRails() {
	for _, r := range s.rails {
		r.rail.Close()
	}
}

// rail is the rail of a name, or nil.
func (s *server) rail(name string) *httprail.Rail {
	for _, r := range s.rails {
		if r.name == name {
			return r.rail
		}
	}
	return nil
}
