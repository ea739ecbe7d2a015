package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"path/filepath"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/adminapi/metrics"
	"muster/gateway/internal/datadir"
)

// measure is how the gateway itself is now.
func (g *gateway) measure(ctx context.Context) metrics.Gateway {
	m := metrics.Gateway{Version: version, Started: g.started, Writable: g.outage.Writable(), Feed: g.feed.Behind()}
	open, unproven := g.limiter.Open()
	m.Connections = metrics.Connections{Open: open, Unproven: unproven, Limits: g.limiter.Limits(), Closed: g.limiter.Closed()}
	m.DatabaseBytes = metrics.SizeOf(filepath.Join(g.settings.Data, datadir.Database))
	if g.history != nil {
		m.HistoryBytes = metrics.SizeOf(filepath.Join(g.settings.Data, datadir.History))
		most := int64(g.settings.History)
		m.HistoryMost = &most
	}
	m.DiskFreeBytes, m.DiskBytes = metrics.DiskOf(g.settings.Data)
	m.Shipping = g.shipping.Rules("")
	m.HeldBatches = g.shipping.Held()
	for what, ask := range map[string]func(context.Context, *metrics.Gateway) error{
		"tasks": g.measureTasks, "rollouts": g.measureRollouts, "certificates": g.measureCertificates,
	} {
		if err := ask(ctx, &m); err != nil {
			g.log.Debug("metrics lack a part", "what", what, "error", err)
			m.Failed = append(m.Failed, what)
		}
	}
	return m
}

func (g *gateway) measureTasks(ctx context.Context, m *metrics.Gateway) error {
	var err error
	m.Tasks, err = g.store.OpenTasks(ctx)
	return err
}

func (g *gateway) measureRollouts(ctx context.Context, m *metrics.Gateway) error {
	channels, err := g.releases.Channels(ctx)
	for _, c := range channels {
		m.Rollouts = append(m.Rollouts, metrics.Rollout{Channel: c.Channel, State: c.State, Nodes: metrics.Standing(c.Counts)})
	}
	return err
}

func (g *gateway) measureCertificates(ctx context.Context, m *metrics.Gateway) error {
	var err error
	if m.Serving, err = g.servingEnd(); err != nil {
		return err
	}
	ca, err := g.authority.Overview(ctx)
	if err != nil {
		return err
	}
	m.Intermediate = &ca.Intermediate.NotAfter
	m.Roots = map[string]time.Time{}
	for _, root := range ca.Roots {
		m.Roots[root.Pin] = root.NotAfter
	}
	return nil
}

// servingEnd is when the certificate ends that the gateway serves with now.
func (g *gateway) servingEnd() (*time.Time, error) {
	pair, err := g.serving.GetCertificate(&tls.ClientHelloInfo{})
	if err != nil {
		return nil, err
	}
	leaf := pair.Leaf
	if leaf == nil {
		if leaf, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
			return nil, err
		}
	}
	end := leaf.NotAfter.UTC()
	return &end, nil
}

// host is how this machine does, as muster doctor asks.
func (g *gateway) host(context.Context) api.GatewayHost {
	answer := api.GatewayHost{KeyWithData: &g.keyWithData}
	answer.DiskFreeBytes, answer.DiskBytes = metrics.DiskOf(g.settings.Data)
	var err error
	if answer.ServingNotAfter, err = g.servingEnd(); err != nil {
		g.log.Warn("the end of the serving certificate cannot be told", "error", err)
	}
	return answer
}
