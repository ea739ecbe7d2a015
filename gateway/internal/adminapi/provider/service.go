package provider

import (
	"muster/gateway/internal/provider"
	"muster/gateway/internal/provider/lease"
	"muster/gateway/internal/provider/rent"
)

// Service has the functions that the routes call. tenant limits what an answer shows and what may be changed; empty: all tenants.
type Service struct {
	Accounts *provider.Service
	Leases   *lease.Service
	Rents    *rent.Service
}
