package release_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/release"
)

const benchNodes = 10_000

// BenchmarkHeard is what a heartbeat costs at the desk of a fleet of 10,000 nodes: of nodes that run what their channel says, of nodes that
// are told of a release, and of nodes whose agent cannot update itself. None of them says anything new, as nearly all heartbeats.
func BenchmarkHeard(b *testing.B) {
	for _, c := range []struct {
		name    string
		program string
		update  *wire.Update
		plan    *release.Plan
		wants   bool
	}{
		{name: "settled", program: program("new"), update: &wire.Update{Channel: wire.DefaultChannel, Sequence: 1}},
		{name: "offered", program: "sha256:old", update: &wire.Update{Channel: wire.DefaultChannel}, wants: true},
		{name: "waves", program: "sha256:old", update: &wire.Update{Channel: wire.DefaultChannel},
			plan: &release.Plan{Canary: "1", MaxFailed: "10%"}},
		{name: "unable", program: "sha256:old"},
	} {
		b.Run(c.name, func(b *testing.B) {
			h := newHall(b)
			digest := h.release("new")
			nodes := make([]release.Node, benchNodes)
			for i := range nodes {
				nodes[i] = release.Node{ID: fmt.Sprintf("n-%016x", i), Name: fmt.Sprintf("node-%05d", i), Tenant: "default", OS: "linux",
					Arch: "amd64", Digest: c.program, Interval: 30 * time.Second}
				_, _, _, err := h.Heard(context.Background(), nodes[i], c.update)
				must(b, err)
			}
			h.point(digest, c.plan)
			must(b, h.Look(context.Background()))
			b.ReportAllocs()
			told := 0
			i := 0
			for ; b.Loop(); i++ {
				wanted, _, _, err := h.Heard(context.Background(), nodes[i%benchNodes], c.update)
				must(b, err)
				if wanted != "" {
					told++
				}
			}
			if c.wants != (told > i/2) { // a canary is told too
				b.Errorf("%d of %d heartbeats were told of a release", told, i)
			}
		})
	}
}
