package picture

import (
	"fmt"
	"math"
	"strings"

	"muster/agent/wire"
)

// Clock says how far a node's clock is from the gateway's. The skew is the gateway's clock minus the node's, in milliseconds.
func Clock(skew *int64) string {
	if skew == nil {
		return Unknown
	}
	seconds := float64(*skew) / 1000
	switch {
	case math.Abs(seconds) < 0.05:
		return "as the gateway's"
	case seconds < 0:
		return fmt.Sprintf("%.1f s ahead of the gateway", -seconds)
	}
	return fmt.Sprintf("%.1f s behind the gateway", seconds)
}

// OwnMemory says how much memory an agent holds.
func OwnMemory(cost *wire.Cost) string {
	if cost == nil || cost.RSSKiB == nil {
		return Unknown
	}
	return Bytes(*cost.RSSKiB * 1024)
}

// Browser returns the part of a User-Agent header that people know.
func Browser(text string) string {
	for _, name := range []string{"Firefox", "Edg", "OPR", "Chrome", "Safari", "curl"} {
		if strings.Contains(text, name+"/") {
			return strings.NewReplacer("Edg", "Edge", "OPR", "Opera").Replace(name)
		}
	}
	return Dash(text)
}
