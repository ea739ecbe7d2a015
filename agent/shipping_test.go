package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestShippingPolicy: an owner who lets nobody read the logs of a node, or only those with a key, has none of them shipped. A policy that
// cannot be read forbids too.
func TestShippingPolicy(t *testing.T) {
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
