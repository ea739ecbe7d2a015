package wire

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Gateways returns the URLs of a list to which a node may go: https with a host, perhaps with a port, and nothing else. It leaves out
// repeated URLs, and returns MaxGateways at most. It reads both the list that a node is told and the list that it has kept.
func Gateways(list []string) []string {
	var all []string
	for _, text := range list {
		if u := gateway(text); u != "" && !slices.Contains(all, u) && len(all) < MaxGateways {
			all = append(all, u)
		}
	}
	return all
}

// gateway is a URL in the form in which it stands in a list; empty: it has no place there.
func gateway(text string) string {
	if len(text) > MaxGatewayURL {
		return ""
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return ""
	}
	host := strings.ToLower(u.Host)
	plain := strings.Trim(host, "abcdefghijklmnopqrstuvwxyz0123456789-._:[]") == ""
	if port, err := strconv.ParseUint(u.Port(), 10, 16); u.Port() != "" && (err != nil || port == 0) || u.Hostname() == "" || !plain {
		return ""
	}
	return "https://" + host
}
