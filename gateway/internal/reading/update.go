package reading

import (
	"encoding/json"
	"strconv"

	"muster/agent/wire"
)

// update reads what a heartbeat says about releases. Nearly always that is the channel and its number alone, which needs no
// encoding/json.
func (b *Heartbeat) update(value []byte) bool {
	b.Update = &wire.Update{}
	return usualUpdate(value, b.Update) || json.Unmarshal(value, resetUpdate(b.Update)) == nil
}

// resetUpdate forgets what usualUpdate has read before it gave up.
func resetUpdate(u *wire.Update) *wire.Update {
	*u = wire.Update{}
	return u
}

// usualUpdate reads an update without anything else than a channel and its number, each once.
func usualUpdate(value []byte, into *wire.Update) bool {
	s := Scan(value)
	var channel, sequence bool
	for s.Next() {
		switch string(s.Name) {
		case "channel":
			text, ok := s.Plain()
			if !ok || channel {
				return false
			}
			channel = true
			into.Channel = text
		case "seq":
			n, err := strconv.ParseInt(string(s.Value), 10, 64)
			if err != nil || sequence {
				return false
			}
			sequence = true
			into.Sequence = n
		default:
			return false
		}
	}
	return s.Whole()
}
