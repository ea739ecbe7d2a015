package condition

import (
	"fmt"
	"strings"
	"time"

	"muster/gateway/api"
)

// Silence says since when a node is not heard from, and what it has cost since, or costs.
func Silence(n *api.NodeRow, now time.Time) string {
	if n.LastSeen == nil {
		return "never heard from"
	}
	silent := now.Sub(*n.LastSeen)
	text := fmt.Sprintf("not heard from since %s (%s)", n.LastSeen.UTC().Format(time.RFC3339), span(silent))
	switch {
	case n.DownCost != nil:
		return fmt.Sprintf("%s, and its company says that it does not run: it costs %.4g an hour now", text, *n.DownCost)
	case n.PricePerHour == nil:
		return text
	}
	return fmt.Sprintf("silent and still billing: %s, and that has cost %.2f at %.4g an hour", text, max(silent.Hours(), 0)**n.PricePerHour,
		*n.PricePerHour)
}

// span is a duration as people say it: its seconds do not matter once it has hours.
func span(d time.Duration) string {
	if d < time.Hour {
		return d.Round(time.Second).String()
	}
	return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
}
