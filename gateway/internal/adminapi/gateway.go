package adminapi

import (
	"errors"

	"muster/gateway/api"
	"muster/store"
)

// showGateway says where the gateway is, how it proves itself, and since when it serves.
func (s *server) showGateway(*call) (any, error) {
	answer := s.Gateway
	answer.PublicURLs = append([]string{}, answer.PublicURLs...)
	answer.At = s.now()
	if s.Authority != nil {
		answer.RootPin = s.Authority.RootPin()
	}
	if s.Ready != nil {
		ready := s.Ready()
		answer.Ready = &ready
	}
	return answer, nil
}

// showHost says how the gateway's machine does.
func (s *server) showHost(c *call) (any, error) {
	var answer api.GatewayHost
	if s.Host != nil {
		answer = s.Host(c.r.Context())
	}
	at, err := s.Store.BackupAt(c.r.Context())
	if err == nil {
		answer.BackupAt = &at
	}
	if errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	return answer, err
}
