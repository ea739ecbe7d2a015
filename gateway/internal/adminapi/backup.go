package adminapi

import (
	"muster/agent/wire"
	"muster/gateway/internal/adminapi/backup"
)

// backup sends a consistent copy of the database and, where the query asks for it, of the registry. A failure to copy the database is
// answered as an error, and not in the middle.
func (c *call) backup(f struct {
	Registry bool `json:"registry"`
}) (any, error) {
	if c.Scratch == "" {
		return nil, wire.Refuse(wire.CodeBadRequest, "this gateway has no place for a copy of its database", "start it with a data directory")
	}
	m := backup.Maker{Store: c.Store, Fleet: c.Fleet, Artifacts: c.Artifacts, Releases: c.Releases, Scratch: c.Scratch, Now: c.now,
		Event: c.event, Logger: c.Logger}
	if f.Registry {
		return streamed{}, m.SendAll(c.Context(), c.W)
	}
	return streamed{}, m.Send(c.Context(), c.W)
}
