package bootstrap

import (
	"sync"
	"time"

	"muster/store"
)

const (
	credentialMemory = time.Second
	credentialBound  = 1024
)

// credentials remembers credentials for a second. When a fleet enrols with one token, the token is then read once a second, and not once
// for each node. That is safe: a token's key never changes, and the write that uses the token decides whether it is still good. The zero
// value is ready. It is safe for concurrent use.
type credentials struct {
	mu      sync.Mutex
	known   map[string]knownCredential
	version uint64 // every forget raises it: keep ignores what was read before that
}

type knownCredential struct {
	token store.Token
	at    time.Time
}

// find returns a credential that is remembered. If it is not found, the caller reads it and gives the version to keep.
func (c *credentials) find(id string, now time.Time) (token store.Token, version uint64, found bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, found := c.known[id]
	age := now.Sub(k.at)
	return k.token, c.version, found && age >= 0 && age < credentialMemory
}

// forget forgets all credentials. Whoever ends one calls it.
func (c *credentials) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known = nil
	c.version++
}

// keep remembers a credential. If there are too many, it drops the old ones, and if that is not enough, all.
func (c *credentials) keep(t store.Token, now time.Time, version uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if version != c.version {
		return
	}
	if len(c.known) >= credentialBound {
		for id, k := range c.known {
			if now.Sub(k.at) >= credentialMemory {
				delete(c.known, id)
			}
		}
	}
	if c.known == nil || len(c.known) >= credentialBound {
		c.known = map[string]knownCredential{}
	}
	c.known[t.ID] = knownCredential{t, now}
}
