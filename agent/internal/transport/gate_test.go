package transport_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/internal/transport"
	"muster/agent/internal/transport/gatewaytest"
	"muster/agent/wire"
)

// under is the fingerprint of the identity that a request was made with.
func under(q gatewaytest.Request) string {
	if q.Signature != nil {
		return q.Signature.Fingerprint
	}
	sum := sha256.Sum256(q.Peer.Raw)
	return hex.EncodeToString(sum[:])
}

// gated is a client in synthetic time. Its gateway answers /long/<duration> after that duration.
func gated(t *testing.T, secure bool, change func(*transport.Config)) (*gatewaytest.Gateway, *transport.Client) {
	t.Helper()
	g := gatewaytest.New(t)
	g.Route = func(q gatewaytest.Request) *gatewaytest.Reply {
		if length, err := time.ParseDuration(strings.TrimPrefix(q.Path, "/long/")); err == nil {
			time.Sleep(length)
		}
		return nil
	}
	certificate := g.Serving(t)
	if !secure {
		certificate = nil
	}
	client := connect(t, g, certificate, change)
	for range 2 {
		if _, err := call(client); err != nil {
			t.Fatal(err)
		}
	}
	return g, client
}

func long(client *transport.Client, length string) error {
	_, err := client.Do(context.Background(), transport.Request{Path: "/long/" + length, Timeout: time.Minute})
	return err
}

// TestNothingGoesOutUnderTheIdentityBefore: a call that runs when the identity changes may end. Its connection is not used again.
func TestNothingGoesOutUnderTheIdentityBefore(t *testing.T) {
	for name, secure := range map[string]bool{"mtls": true, "signed": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, client := gated(t, secure, nil)
				var group sync.WaitGroup
				group.Go(func() {
					if err := long(client, "3s"); err != nil {
						t.Error(err)
					}
				})
				synctest.Wait()
				next := g.Identity(t)
				began := time.Now()
				client.Use(next)
				if took := time.Since(began); took != 3*time.Second {
					t.Errorf("the identity was changed after %s", took)
				}
				changed := len(g.Requests(""))
				group.Wait()
				for range 5 {
					group.Go(func() {
						if err := long(client, "1s"); err != nil {
							t.Error(err)
						}
					})
				}
				group.Wait()
				for _, q := range g.Requests("")[changed:] {
					if under(q) != next.Signer.Fingerprint {
						t.Errorf("%s went out under the identity before", q.Path)
					}
				}
			})
		})
	}
}

// TestCallsAreCutWhenTheIdentityChanges: a call that takes too long ends with ErrIdentityChanged, and can be made again.
func TestCallsAreCutWhenTheIdentityChanges(t *testing.T) {
	for name, secure := range map[string]bool{"mtls": true, "signed": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, client := gated(t, secure, nil)
				failed := make(chan error, 1)
				go func() { failed <- long(client, "50s") }()
				synctest.Wait()
				began := time.Now()
				client.Use(g.Identity(t))
				if took := time.Since(began); took != 5*time.Second {
					t.Errorf("the identity was changed after %s", took)
				}
				if err := <-failed; !errors.Is(err, transport.ErrIdentityChanged) || errors.Is(err, context.Canceled) {
					t.Errorf("error %v", err)
				}
				if err := long(client, "50s"); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestRefusalAtTheChange: a refusal that has come when the identity changes is told, because nothing has to be asked again.
func TestRefusalAtTheChange(t *testing.T) {
	for name, secure := range map[string]bool{"mtls": true, "signed": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var came atomic.Bool
				var change func()
				g, client := gated(t, secure, func(c *transport.Config) {
					c.Now = func() time.Time {
						if came.CompareAndSwap(true, false) { // the answer is being looked at
							change()
						}
						return time.Now()
					}
				})
				g.Route = func(gatewaytest.Request) *gatewaytest.Reply {
					now := g.Now().UTC()
					came.Store(true)
					return g.JSON(403, wire.Error{Error: wire.ErrorDetail{Code: wire.CodeRevoked}, Time: &now})
				}
				next := g.Identity(t)
				var group sync.WaitGroup
				change = func() {
					group.Go(func() { client.Use(next) })
					time.Sleep(6 * time.Second) // until the calls are cut
				}
				_, err := client.Do(t.Context(), transport.Request{Path: "/refused"})
				group.Wait()
				var refusal *transport.Refusal
				if !errors.As(err, &refusal) || refusal.Code != wire.CodeRevoked {
					t.Errorf("error %v", err)
				}
			})
		})
	}
}

// TestNewCallsWaitForTheNextIdentity: while calls drain, none begins under the identity before.
func TestNewCallsWaitForTheNextIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, client := gated(t, true, nil)
		var group sync.WaitGroup
		group.Go(func() { _ = long(client, "4s") })
		synctest.Wait()
		next := g.Identity(t)
		group.Go(func() { client.Use(next) })
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := client.Do(ctx, transport.Request{Path: "/impatient"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		if err := long(client, "0s"); err != nil {
			t.Error(err)
		}
		group.Wait()
		got := g.Requests("/long/0s")
		if len(got) != 1 || under(got[0]) != next.Signer.Fingerprint || len(g.Requests("/impatient")) > 0 {
			t.Errorf("%d requests", len(got))
		}
	})
}
