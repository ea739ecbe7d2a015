package provider

import (
	"muster/gateway/internal/provider"
	"muster/gateway/internal/provider/lease"
	"muster/gateway/internal/provider/rent"
)

// Service is what the routes ask. A tenant bounds what an answer shows and what may be changed; empty: all tenants.
type Service struct {
	Accounts *provider.Service
	Leases   *lease.Service
	Rents    *rent.Service
}
