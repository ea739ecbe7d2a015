package bootstrap

import (
	"muster/agent/wire"
	"muster/gateway/internal/replay"
)

const (
	nonceMemory  = 2 * wire.EnrollWindow // as long as a request's time could still be accepted
	nonceBound   = 1_000_000             // only holders of credentials can fill it
	failsAllowed = 20                    // wrong proofs of one address in a minute
	failBound    = 50_000                // addresses
)

// newNonces makes the memory of the nonces of proven register requests.
func newNonces() *replay.Memory { return &replay.Memory{Bound: nonceBound, Window: wire.EnrollWindow} }
