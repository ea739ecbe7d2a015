package adminapi

import (
	"errors"

	"muster/gateway/api"
	"muster/store"
)

// showGateway says where the gateway is, how it proves itself, and since when it serves.
func (c *call) showGateway() (any, error) {
	answer := c.Gateway
	answer.PublicURLs = append([]string{}, answer.PublicURLs...)
	answer.At = c.now()
	if c.Authority != nil {
		answer.RootPin = c.Authority.RootPin()
	}
	if c.Ready != nil {
		ready := c.Ready()
		answer.Ready = &ready
	}
	return answer, nil
}

// showHost says how the gateway's machine does.
func (c *call) showHost() (any, error) {
	var answer api.GatewayHost
	if c.Host != nil {
		answer = c.Host(c.Context())
	}
	at, err := c.Store.BackupAt(c.Context())
	if err == nil {
		answer.BackupAt = &at
	}
	if errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	return answer, err
}
