package nodeapi

import "muster/gateway/internal/limit"

const (
	// paceBurst is how many renewals a node may ask for in a row: lost answers and restarts take a few, a hundred are a fault.
	paceBurst = 10
	// paceKeys is more than there are nodes, so that none shares its allowance.
	paceKeys = 1 << 20
)

// pace bounds how often one node may have a certificate made, so that a faulty node fills neither the database nor
// the log of events.
func (c *Config) pace() *limit.Limiter {
	return limit.New(limit.Config{Burst: paceBurst, Every: c.RenewEvery, Keys: paceKeys, Now: c.Now})
}
