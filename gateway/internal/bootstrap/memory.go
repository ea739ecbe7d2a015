package bootstrap

import (
	"muster/agent/wire"
	"muster/gateway/internal/httpserver/limit"
)

const (
	nonceMemory  = 2 * wire.EnrollWindow // for so long a request could be accepted again
	nonceBound   = 1_000_000             // only somebody with a credential can add nonces
	failsAllowed = 20                    // wrong proofs from one address in a minute
	failBound    = 50_000                // keys that a limiter remembers
)

// newNonces makes the memory of the nonces of proven register requests.
func newNonces() *limit.Memory { return &limit.Memory{Bound: nonceBound, Window: wire.EnrollWindow} }
