package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/internal/logs"
	"muster/agent/internal/service"
	"muster/agent/wire"
)

// TestShippingPolicy: an owner who lets nobody read the logs of a node, or only those with a key, has none of them shipped. A policy that
// cannot be read forbids too. One that comes later ends what is followed.
func TestShippingPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		state := t.TempDir()
		path := service.Layout{Base: state}.Log()
		owners := filepath.Join(t.TempDir(), "policy.json")
		write := func(path, text string) {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		write(path, `{"time":"2026-11-23T06:00:00Z","level":"info","msg":"hello"}`+"\n")
		shipped := 0
		follow := func(most time.Duration) error {
			ctx, cancel := context.WithTimeout(t.Context(), most)
			defer cancel()
			return followLog(ctx, logs.Host{State: state}, []string{owners}, logs.Ask{Source: wire.LogAgent, Follow: true},
				func(wire.LogLine, string) error { shipped++; return nil })
		}
		if err := follow(time.Second); !errors.Is(err, context.DeadlineExceeded) || shipped != 1 {
			t.Fatalf("without a policy: %d lines, %v", shipped, err)
		}
		const key = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
		for _, policy := range []string{`{"forbid":["session.logs"]}`, `{"allow":["workload.*"]}`, `{"operator_keys":{"session.*":["` + key + `"]}}`,
			`{`} {
			write(owners, policy)
			if err := follow(time.Second); err == nil || errors.Is(err, context.DeadlineExceeded) || shipped != 1 {
				t.Errorf("%s: %d lines, %v", policy, shipped, err)
			}
		}
		write(owners, `{}`)
		time.AfterFunc(time.Minute/2, func() { write(owners, `{"forbid":["session.logs"]}`) })
		if err := follow(time.Hour); err == nil || errors.Is(err, context.DeadlineExceeded) || shipped != 2 {
			t.Errorf("a policy that came later: %d lines, %v", shipped, err)
		}
	})
}
