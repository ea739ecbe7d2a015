package adminapi_test

import (
	"context"
	"testing"
	"time"

	"muster/gateway/api"
)

// TestGateway: anybody with an account learns that the gateway is ready, and what is not known is null.
func TestGateway(t *testing.T) {
	h := newHouse(t)
	began := h.now.Add(-time.Hour)
	h.api.Gateway = api.Gateway{URL: "https://gw", StartedAt: began}
	few := h.account("few", "lab", api.ScopeAlertsRead)
	for _, ready := range []*bool{nil, new(bool)} {
		h.api.Ready = nil
		if ready != nil {
			h.api.Ready = func() bool { return *ready }
		}
		status, body := h.ask("GET", api.PathGateway, few, "")
		g := decode[api.Gateway](t, body)
		if status != 200 || !g.At.Equal(h.now) || !g.StartedAt.Equal(began) || (g.Ready == nil) != (ready == nil) || g.Ready != nil && *g.Ready {
			t.Errorf("got %d %s", status, body)
		}
	}
}

// TestHost: what the gateway's machine says, and when the newest backup began.
func TestHost(t *testing.T) {
	h := newHouse(t)
	reader := h.account("reader", "", api.ScopeNodesRead)
	status, body := h.ask("GET", api.PathGatewayHost, reader, "")
	if status != 200 || decode[api.GatewayHost](t, body) != (api.GatewayHost{}) {
		t.Errorf("nothing is known: %d %s", status, body)
	}
	free, beside := int64(5), true
	h.api.Host = func(context.Context) api.GatewayHost {
		return api.GatewayHost{DiskFreeBytes: &free, KeyWithData: &beside}
	}
	if err := h.store.NoteBackup(t.Context(), h.now); err != nil {
		t.Fatal(err)
	}
	status, body = h.ask("GET", api.PathGatewayHost, reader, "")
	g := decode[api.GatewayHost](t, body)
	if status != 200 || g.BackupAt == nil || !g.BackupAt.Equal(h.now) || *g.DiskFreeBytes != 5 || !*g.KeyWithData || g.DiskBytes != nil {
		t.Errorf("got %d %s", status, body)
	}
	if status, body := h.ask("GET", api.PathGatewayHost, h.account("one", "lab", api.ScopeNodesRead), ""); status != 403 {
		t.Errorf("an account of one tenant: %d %s", status, body)
	}
	h.store.Close()
	if status, body := h.ask("GET", api.PathGatewayHost, "", ""); status != 500 && status != 503 {
		t.Errorf("a store that is closed: %d %s", status, body)
	}
}
