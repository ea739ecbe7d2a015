package diag

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"muster/agent/internal/identity"
)

func (c Collector) identity() (identity.State, error) { return identity.Read(c.State) }

// nodeName is the node's name in the form of a file name.
func (c Collector) nodeName() string {
	state, err := c.identity()
	if err != nil || state.Name == "" {
		return "node"
	}
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || r == '-' || r == '_' {
			return r
		}
		return '-'
	}, state.Name)
}

// pairs are the keys with their certificates.
func pairs(state identity.State) []identity.Pair {
	var all []identity.Pair
	for _, pair := range []*identity.Pair{state.Current, state.Previous} {
		if pair != nil {
			all = append(all, *pair)
		}
	}
	return all
}

// Node is identity.json in the archive: what the node is, without a key.
type Node struct {
	ID           string        `json:"id"`
	Name         string        `json:"name"`
	Tenant       string        `json:"tenant"`
	Provider     string        `json:"provider"`
	InstanceID   string        `json:"instance_id"`
	Gateway      string        `json:"gateway"`
	Interval     int           `json:"interval_seconds"`
	Certificates []Certificate `json:"certificates"` // the current one first
	Roots        []Certificate `json:"roots"`
}

// Certificate says when a certificate is good. It holds no key.
type Certificate struct {
	Subject     string    `json:"subject,omitempty"`
	Fingerprint string    `json:"fingerprint"` // SHA-256
	Generation  int       `json:"generation,omitempty"`
	NotBefore   time.Time `json:"not_before"`
	NotAfter    time.Time `json:"not_after"`
}

func (c Collector) readNode(context.Context) ([]byte, error) {
	state, err := c.identity()
	if err != nil {
		return nil, err
	}
	node := Node{
		ID: state.NodeID, Name: state.Name, Tenant: state.Tenant, Provider: state.Provider, InstanceID: state.InstanceID,
		Gateway: state.Gateway.URL, Interval: state.Gateway.IntervalSeconds,
	}
	for _, pair := range pairs(state) {
		chain, err := identity.ParseCertificates(pair.Certificate)
		if err != nil {
			return nil, err
		}
		node.Certificates = append(node.Certificates, describe(chain[0], pair.Generation))
	}
	roots, err := identity.ParseCertificates(state.Gateway.Roots)
	if err == nil {
		for _, root := range roots {
			node.Roots = append(node.Roots, describe(root, 0))
		}
	}
	return asJSON(node)
}

func describe(certificate *x509.Certificate, generation int) Certificate {
	sum := sha256.Sum256(certificate.Raw)
	return Certificate{
		Subject: certificate.Subject.String(), Fingerprint: hex.EncodeToString(sum[:]), Generation: generation,
		NotBefore: certificate.NotBefore, NotAfter: certificate.NotAfter,
	}
}

func (c Collector) readStatus(context.Context) ([]byte, error) {
	status, err := identity.ReadStatus(c.State)
	if err != nil {
		return nil, err
	}
	return asJSON(status)
}

// readTasks lists the tasks, a line for each. What they were asked is not in it.
func (c Collector) readTasks(context.Context) ([]byte, error) {
	if c.Tasks == nil {
		return nil, errAbsent
	}
	steps := c.Tasks()
	var out strings.Builder
	for _, id := range slices.Sorted(maps.Keys(steps)) {
		fmt.Fprintf(&out, "%s %s\n", id, steps[id])
	}
	return []byte(out.String()), nil
}

func (c Collector) readLook(context.Context) ([]byte, error) {
	if c.Reading == nil {
		return nil, errAbsent
	}
	return asJSON(c.Reading())
}

func asJSON(value any) ([]byte, error) {
	text, err := json.MarshalIndent(value, "", "  ")
	return append(text, '\n'), err
}
