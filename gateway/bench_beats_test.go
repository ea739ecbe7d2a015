package main

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	connectTime = "5m"        // the longest that all nodes may take to connect
	signedConns = 128         // connections that nodes which sign share, as behind a proxy
	proofTime   = time.Second // of one round of signatures alone
)

// overMTLS compares heartbeats of nodes that each have a connection with a handler that reads the same bytes and does nothing.
// Both sides keep all connections through all rounds.
func (m *bench) overMTLS(t *table) {
	c := m.nodes()
	g := m.serve(c.data)
	noop, url := m.noop()
	args := []string{"-nodes", decimal(c.nodes), "-keep", c.keep, "-transport", "mtls"}
	ours := m.player(g.url(), args...)
	theirs := m.player(url, append(args, "-peer")...)
	for _, p := range []*player{ours, theirs} {
		p.turn("-beats", "1", "-duration", connectTime)
	}
	for _, gpus := range []string{"1", "8"} {
		flags := []string{"-gpus", gpus, "-duration", benchTime.String()}
		measured := inTurn(
			func() float64 { return ours.turn(flags...)["heartbeat"].PerSecond },
			func() float64 { return theirs.turn(flags...)["heartbeat"].PerSecond },
		)
		t.compare(fmt.Sprintf("heartbeats, mTLS keep-alive, %d nodes, GPUs: %s", c.nodes, gpus), "/s", measured, "no-op handler",
			limit{least: 0.45},
			"handshakes. The database is included, and so is the client's processor time, which is the same on both sides")
	}
	ours.leave()
	theirs.leave()
	g.end()
	noop.kill()
}

// signed compares signed heartbeats with the two signatures that each cannot do without, on all cores.
func (m *bench) signed(t *table) {
	c := m.nodes()
	g := m.serve(c.data)
	p := m.player(g.url(), "-nodes", decimal(c.nodes), "-keep", c.keep, "-transport", "signed", "-conns", decimal(signedConns))
	p.turn("-beats", "1", "-duration", connectTime)
	flags := []string{"-duration", benchTime.String()}
	measured := inTurn(
		func() float64 { return p.turn(flags...)["heartbeat"].PerSecond },
		m.proofs(),
	)
	t.compare(fmt.Sprintf("heartbeats, signed, over TLS, %d nodes", c.nodes), "/s", measured, "P-256 verify + Ed25519 sign", limit{least: 0.4},
		fmt.Sprintf("handshakes, and the nodes' own signatures, which are made before. %d connections, as through a proxy", signedConns))
	p.leave()
	g.end()
}

// proofs is how many times a second all cores together verify a P-256 signature and make an Ed25519 one.
func (m *bench) proofs() func() float64 {
	key := m.newKey()
	_, answer, err := ed25519.GenerateKey(nil)
	m.must(err)
	message := []byte(strings.Repeat("x", 400))
	sum := sha256.Sum256(message)
	signature, err := ecdsa.SignASN1(rand.Reader, key, sum[:])
	m.must(err)
	return func() float64 {
		var done atomic.Int64
		var cores sync.WaitGroup
		began := time.Now()
		for range runtime.GOMAXPROCS(0) {
			cores.Go(func() {
				for ; time.Since(began) < proofTime; done.Add(1) {
					sum := sha256.Sum256(message)
					if !ecdsa.VerifyASN1(&key.PublicKey, sum[:], signature) {
						m.Error("a good signature does not verify")
					}
					ed25519.Sign(answer, message)
				}
			})
		}
		cores.Wait()
		return float64(done.Load()) / time.Since(began).Seconds()
	}
}
