package fleet

import "sync"

// identityCache holds identities by fingerprint. Every drop raises version, and notes it for its node. A lookup that began before a drop
// of its node has an older version, and so cannot put back what was dropped.
type identityCache struct {
	sync.RWMutex
	byFingerprint map[string]*Identity
	byNode        map[string][]string
	version       uint64
	dropped       map[string]uint64 // the version of each node's last drop
	droppedAll    uint64            // and that of the last drop of all
}

func (c *identityCache) init() {
	c.byFingerprint = map[string]*Identity{}
	c.byNode = map[string][]string{}
	c.dropped = map[string]uint64{}
}

func (c *identityCache) lookup(fingerprint string) (*Identity, uint64) {
	c.RLock()
	defer c.RUnlock()
	return c.byFingerprint[fingerprint], c.version
}

func (c *identityCache) keep(id *Identity, version uint64) {
	c.Lock()
	defer c.Unlock()
	if version < max(c.droppedAll, c.dropped[id.NodeID]) || c.byFingerprint[id.Fingerprint] != nil {
		return
	}
	c.byFingerprint[id.Fingerprint] = id
	c.byNode[id.NodeID] = append(c.byNode[id.NodeID], id.Fingerprint)
}

// drop forgets a node's identities. The nonces that they have used stay: see replay.
func (c *identityCache) drop(nodeID string) {
	c.Lock()
	defer c.Unlock()
	c.version++
	c.dropped[nodeID] = c.version
	for _, fingerprint := range c.byNode[nodeID] {
		delete(c.byFingerprint, fingerprint)
	}
	delete(c.byNode, nodeID)
}

// dropAll forgets every identity.
func (c *identityCache) dropAll() {
	c.Lock()
	defer c.Unlock()
	c.version++
	c.droppedAll = c.version
	c.init()
}

// Forget drops a node's identities from the cache. Whoever changes a node's row or certificates calls it before answering.
func (f *Fleet) Forget(nodeID string) { f.cache.drop(nodeID) }
