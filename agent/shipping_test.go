package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/internal/identity"
	"muster/agent/internal/logs"
	"muster/agent/internal/service"
	"muster/agent/internal/workload"
	"muster/agent/wire"
)

// TestShippingPolicy: an owner who lets nobody read the logs of a node, or only those with a key, has none of them shipped. A policy that
// cannot be read forbids too.
func TestShippingPolicy(t *testing.T) {
	t.Parallel()
	owners := filepath.Join(t.TempDir(), "policy.json")
	if err := mayShip([]string{owners}); err != nil {
		t.Fatalf("without a policy: %v", err)
	}
	const key = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for policy, may := range map[string]bool{
		`{}`:                           true,
		`{"forbid":["session.shell"]}`: true,
		`{"forbid":["session.logs"]}`:  false,
		`{"allow":["workload.*"]}`:     false,
		`{"operator_keys":{"session.*":["` + key + `"]}}`: false,
		`{`: false,
	} {
		if err := os.WriteFile(owners, []byte(policy), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := mayShip([]string{owners}); (err == nil) != may {
			t.Errorf("%s: %v", policy, err)
		}
	}
}

// TestShippingPace: what a rule of log shipping costs on a quiet node are the looks, so there is one in two seconds.
func TestShippingPace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &foreground{}
		a.State = t.TempDir()
		a.Getenv = func(string) string { return "" }
		path := service.Layout{Base: a.State}.Log()
		const line = `{"time":"2026-11-22T15:00:00.000Z","level":"info","msg":"one"}` + "\n"
		if err := os.WriteFile(path, []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		came := make(chan string)
		ended := make(chan error)
		go func() {
			shipping := a.shipping(identity.State{}, a.logs(workload.Host{State: a.State}))
			ended <- shipping.Follow(ctx, wire.LogAgent, logs.Place{}, func(l wire.LogLine, _ string) error {
				came <- l.Message
				return nil
			})
		}()
		<-came
		synctest.Wait()
		began := time.Now()
		if err := os.WriteFile(path, []byte(line+line), 0o600); err != nil {
			t.Fatal(err)
		}
		if <-came; time.Since(began) != 2*time.Second {
			t.Errorf("a line came after %s", time.Since(began))
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}
