package picture

import (
	"fmt"
	"strings"

	"muster/gateway/api"
)

// Count is how many nodes of a channel are in one state.
type Count struct {
	Name  string
	Nodes int
}

// CountsOf returns the counts that are not 0, and the first two always.
func CountsOf(c api.RolloutCounts) []Count {
	all := []Count{{"nodes", c.Nodes}, {"running", c.Running}, {"waiting", c.Waiting}, {"admitted", c.Admitted}, {"failed", c.Failed},
		{"silent", c.Silent}, {"held", c.Held}, {"pinned", c.Pinned}, {"unable", c.Unable}, {"offline", c.Offline}}
	kept := all[:2:2]
	for _, one := range all[2:] {
		if one.Nodes > 0 {
			kept = append(kept, one)
		}
	}
	return kept
}

// WaveText says how far a rollout is.
func WaveText(c api.Channel) string {
	if c.Waves == 0 || c.Wave == 0 {
		return Unknown
	}
	return fmt.Sprintf("%d of %d", c.Wave, c.Waves)
}

// Short cuts a digest for a list.
func Short(digest string) string {
	name, rest, ok := strings.Cut(digest, ":")
	if !ok || len(rest) < 12 {
		return Dash(digest)
	}
	return name + ":" + rest[:12]
}
