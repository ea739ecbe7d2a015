package command

import (
	"context"
	"errors"
	"testing"

	"muster/agent/internal/identity"
	"muster/agent/internal/transport"
)

// TestEachGateway: a program that calls once asks all gateways that it knows, until one gives a verdict.
func TestEachGateway(t *testing.T) {
	var state identity.State
	state.Gateway.Gateways = []string{"https://gw1.test", "https://gw2.test"}
	away := errors.New("nobody answers")
	for name, c := range map[string]struct {
		says  []error
		calls int
	}{
		"all are away":  {[]error{away, away, away, away}, 3},
		"the second":    {[]error{away, nil}, 2},
		"a verdict":     {[]error{&transport.Refusal{Status: 403}}, 1},
		"a late answer": {[]error{away, &transport.Refusal{Status: 403}}, 2},
	} {
		calls := 0
		err := eachGateway(t.Context(), state, func() error {
			calls++
			return c.says[calls-1]
		})
		if calls != c.calls || !errors.Is(err, c.says[calls-1]) {
			t.Errorf("%s: %d calls, %v", name, calls, err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	calls := 0
	if err := eachGateway(ended, state, func() error { calls++; return away }); calls != 1 || err == nil {
		t.Errorf("a caller who is gone: %d calls, %v", calls, err)
	}
}
