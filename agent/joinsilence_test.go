package main

import (
	"strings"
	"testing"

	"muster/agent/internal/transport/gatewaytest"
	"muster/agent/wire"
)

// TestJoinOfARecycledBox: join waits until the former node of this machine is silent, and says so. If it waits in vain, it ends with
// the next step.
func TestJoinOfARecycledBox(t *testing.T) { // by itself: it measures time
	for _, c := range []struct {
		name  string
		waits []int // what the gateway says, one request after the other; the last one again and again
		code  int
		want  []string
		not   string
	}{
		{"silent after a while", []int{1, 1, 0}, 0,
			[]string{"node gpu-1 of this instance was heard 3s ago", "waiting until that node counts as silent: about 1s",
				"still waiting for that node to be silent: about 1s", "[2/5] enrolled as gpu-1"}, "failed"},
		{"it goes on reporting", []int{1}, 1,
			[]string{"[2/5] failed: not enrolled: ", "it still reports after " + brief().String(), "stop that one",
				"do something", "the token is not lost"}, ""},
		{"much too long", []int{601}, 1, []string{"[2/5] failed: not enrolled: ", "too long to wait here", "do something",
			"the token is not lost"}, "waiting until"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := systemdBox(t)
			asked := 0
			b.rule(func(q gatewaytest.Request) *gatewaytest.Reply {
				if q.Path != wire.PathRegister {
					return nil
				}
				wait := c.waits[min(asked, len(c.waits)-1)]
				if asked++; wait == 0 {
					return nil
				}
				return gatewaytest.NotYet(wait)
			})
			var out, errs screen
			p := b.program(&out, &errs)
			p.Patience = brief()
			code := execute(t.Context(), p, []string{"join", "--gateway", b.url, "--state", b.base, "--name", "gpu-1", "--no-gpu", "--token",
				b.token})
			text := out.String() + errs.String()
			if code != c.code || strings.Contains(text, b.token) || c.not != "" && strings.Contains(text, c.not) {
				t.Errorf("exit %d\n%s", code, text)
			}
			for _, want := range c.want {
				if !strings.Contains(text, want) {
					t.Errorf("no %q in\n%s", want, text)
				}
			}
		})
	}
}
