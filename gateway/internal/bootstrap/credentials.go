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

// credentials remembers for a moment what credentials were read: a fleet that enrols with one token has it read once a second,
// not once a node. What a proof takes of a credential never changes after it was minted; whether it is still good, and for how
// many more, is decided by the write that uses it. The zero value is ready; it is safe for concurrent use.
type credentials struct {
	mu      sync.Mutex
	known   map[string]knownCredential
	version uint64 // grows with every forget, so that a reading that began before one is not kept after it
}

type knownCredential struct {
	token store.Token
	at    time.Time
}

// find gives what was read of a credential. Where that was nothing, keep wants the version that comes with it.
func (c *credentials) find(id string, now time.Time) (token store.Token, version uint64, found bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, found := c.known[id]
	age := now.Sub(k.at)
	return k.token, c.version, found && age >= 0 && age < credentialMemory
}

// forget is for whoever ended a credential.
func (c *credentials) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known = nil
	c.version++
}

// keep adds one. What is too old goes when there are many, and all of it where that is not enough.
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
