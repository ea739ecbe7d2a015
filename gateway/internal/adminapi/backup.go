package adminapi

import (
	"muster/agent/wire"
	"muster/gateway/internal/adminapi/backup"
)

// backup sends a consistent copy of the database and, where the query asks for it, of the registry. A failure to copy the database is
// answered as an error, and not in the middle.
func (s *server) backup(c *call, f struct {
	Registry bool `json:"registry"`
}) (any, error) {
	if s.Scratch == "" {
		return nil, wire.Refuse(wire.CodeBadRequest, "this gateway has no place for a copy of its database", "start it with a data directory")
	}
	m := backup.Maker{Store: s.Store, Fleet: s.Fleet, Artifacts: s.Artifacts, Releases: s.Releases, Scratch: s.Scratch, Now: s.now,
		Event: c.event, Logger: s.Logger}
	if f.Registry {
		return streamed{}, m.SendAll(c.r.Context(), c.w)
	}
	return streamed{}, m.Send(c.r.Context(), c.w)
}
