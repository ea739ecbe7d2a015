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

// credentials remembers for a moment which credentials were read. When a fleet enrols with one token, the token is read once a second
// and not once a node. That is safe: the key never changes after the token was minted, and the write that uses the token decides
// whether it is still good. The zero value is ready. It is safe for concurrent use.
type credentials struct {
	mu      sync.Mutex
	known   map[string]knownCredential
	version uint64 // grows with every forget: what was read before that is not kept afterwards
}

type knownCredential struct {
	token store.Token
	at    time.Time
}

// find gives a credential that is remembered. Where there is none, the caller reads it and hands the version to keep.
func (c *credentials) find(id string, now time.Time) (token store.Token, version uint64, found bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, found := c.known[id]
	age := now.Sub(k.at)
	return k.token, c.version, found && age >= 0 && age < credentialMemory
}

// forget is called when a credential has ended.
func (c *credentials) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known = nil
	c.version++
}

// keep remembers one. When there are many it drops those that are too old, or all where that is not enough.
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
