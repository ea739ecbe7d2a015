package metrics

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/account"
	"muster/gateway/internal/audit"
	"muster/gateway/internal/httpserver"
	"muster/gateway/internal/kit"
	"muster/gateway/internal/reply"
	"muster/gateway/internal/view"
	"muster/store"
)

func some[T any](v T) *T { return &v }

// noPSKs knows no PSK.
type noPSKs struct{}

func (noPSKs) PSKIn(context.Context, ...string) string { return "" }

func (noPSKs) PSKInPath(_ context.Context, segments []string) (id, without string) { return "", "" }

// stand is the API over a fleet that a test made.
type stand struct {
	*testing.T
	api     *API
	store   *store.Store
	rows    []*api.NodeRow
	asked   view.Query
	ready   bool
	gateway Gateway
	made    int // accounts
	at      time.Time
}

func newStand(t *testing.T) *stand {
	t.Helper()
	s := kit.Store(t, nil)
	info := &reply.Info{Epoch: "epoch"}
	d := &stand{T: t, store: s, ready: true, at: time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)}
	d.api = &API{
		Gate: account.NewGate(account.Config{Store: s, Info: info, Audit: audit.New(audit.Config{Store: s}), PSKs: noPSKs{},
			Address: func(*http.Request) string { return "192.0.2.1" }}),
		Info: info, Ready: func() bool { return d.ready }, Rows: d.picked, Gateway: func(context.Context) Gateway { return d.gateway },
		Events: &Tally{}, Room: &Room{},
	}
	return d
}

// picked is the picture's rule for tenants, and notes what was asked for.
func (d *stand) picked(q view.Query) (rows []*api.NodeRow) {
	d.asked = q
	for _, n := range d.rows {
		if q.Tenant == "" || n.Tenant == q.Tenant {
			rows = append(rows, n)
		}
	}
	return rows
}

// account makes an account and gives its token.
func (d *stand) account(tenant string, scopes ...string) string {
	d.Helper()
	d.made++
	a := store.Account{Name: fmt.Sprint("prometheus-", d.made), Tenant: tenant, Scopes: scopes, CreatedAt: d.at}
	token, err := account.Mint(&a, nil)
	if err == nil {
		err = d.store.CreateAccount(d.Context(), a)
	}
	if err != nil {
		d.Fatal(err)
	}
	return token.Reveal()
}

func (d *stand) get(path, token string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(d.Context(), http.MethodGet, path, nil)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	d.api.Routes().ServeHTTP(w, r)
	return w
}

// scrape is the answer to who may see everything.
func (d *stand) scrape() string {
	d.Helper()
	w := d.get(Path, d.account("", api.ScopeMetricsRead))
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != TextType {
		d.Fatalf("got %d %s %.300s", w.Code, w.Header(), w.Body)
	}
	return w.Body.String()
}

func code(w *httptest.ResponseRecorder) string {
	var refused wire.Error
	_ = json.Unmarshal(w.Body.Bytes(), &refused)
	return refused.Error.Code
}

// fullNode has all that a node can say.
func fullNode(name, tenant string, at time.Time) *api.NodeRow {
	return &api.NodeRow{
		ID: "n-" + name, Name: name, Tenant: tenant, Provider: "vast_ai", InstanceID: "39467543", State: wire.StateUnavailable,
		StateReasons: []string{wire.ReasonConflict}, StateSince: at.Add(-time.Hour), Status: wire.StatusOnline, LastSeen: some(at),
		CreatedAt: at, AgentVersion: "v1", Address: "203.0.113.7", Labels: map[string]string{"tier": "sovereign", "a.b": "1", "a-b": "2"},
		IntervalSeconds: some(30.0), RenewalOverdue: true, NotAfter: some(at.Add(24 * time.Hour)), Probe: wire.ProbeOK, ReadAt: some(at),
		Fresh: true, GPUsExpected: some(2), CPUs: some(16), MemoryUsedMiB: some(int64(1)), MemoryMiB: some(int64(2)),
		DiskUsedMiB: some(int64(3)), DiskMiB: some(int64(4)), Load1: some(1.25), PricePerHour: some(1.99), IdleSince: some(at),
		GPUs: []api.GPU{{
			UUID: "GPU-1", Name: "NVIDIA H100 80GB HBM3", MemoryUsedMiB: some(int64(39233)), MemoryMiB: some(int64(81559)),
			MemoryFreeMiB: some(int64(41712)), MemorySource: wire.MemoryUnified, UtilizationPercent: some(57.0), TemperatureCelsius: some(64.0),
			PowerWatts: some(612.5), PowerLimitWatts: some(700.0), MIG: some(false), Health: []string{"gpu_is_lost", "gpu_is_lost"},
			IdleSince: some(at), Row: fullRow(),
		}},
		Xids: &wire.Xids{State: wire.KernelRead, Events: []wire.Xid{
			{At: at.Add(-time.Hour), Kind: wire.XidReport, UUID: "GPU-1", Code: some(31)},
			{At: at.Add(-time.Minute), Kind: wire.XidReport, UUID: "GPU-1", Code: some(79)},
			{At: at.Add(-time.Second), Kind: wire.XidPowerCable, UUID: "GPU-1"},
			{At: at, Kind: wire.XidReport, UUID: "GPU-2", Code: some(13)},
		}},
		Findings: []api.Finding{{Rule: "power_cable", Severity: wire.SeveritySevere, GPU: "GPU-1"},
			{Rule: "gpu_hot", Severity: wire.SeverityWarn, GPU: "GPU-1"}, {Rule: "gpu_hot", Severity: wire.SeverityWarn, GPU: "GPU-2"}},
	}
}

// fullRow is a GPU that says all that is shown in detail.
func fullRow() *wire.GPU {
	return &wire.GPU{
		MemoryReservedMiB: some(int64(614)), MemoryUtilizationPercent: some(40.0), EncoderUtilizationPercent: some(5.0),
		DecoderUtilizationPercent: some(6.0), MemoryTemperatureCelsius: some(70.0), FanPercent: some(30.0), PowerMaxLimitWatts: some(750.0),
		PerformanceState: some(0), RetiredPagesPending: some(false),
		Clocks: &wire.Clocks{SMMHz: some(int64(1980)), MemoryMHz: some(int64(2619)), Reasons: []string{"sw_power_cap", "hw_slowdown"}},
		PCIe:   &wire.PCIe{Generation: some(5), GenerationMax: some(5), Width: some(8), WidthMax: some(16)},
		ECC: &wire.ECC{Enabled: some(true), CorrectedVolatile: some(int64(1)), UncorrectedVolatile: some(int64(2)),
			CorrectedAggregate: some(int64(3)), UncorrectedAggregate: some(int64(4))},
		RemappedRows: &wire.Remaps{Correctable: some(int64(5)), Uncorrectable: some(int64(6)), Pending: some(true), Failure: some(false)},
		NVLinks:      &wire.NVLinks{Total: some(18), Down: some(1)}, Processes: &wire.Processes{Count: some(2), MemoryUsedMiB: some(int64(1024))},
	}
}

// fullGateway has all that a gateway can say.
func fullGateway(at time.Time) Gateway {
	return Gateway{
		Version: "v1", Started: at, DatabaseBytes: some(int64(1)), HistoryBytes: some(int64(2)), HistoryMost: some(int64(3)),
		DiskFreeBytes: some(int64(4)), DiskBytes: some(int64(5)), Writable: true,
		Feed:        view.Lag{Waiting: 1, Offered: 2, Dropped: 3, Since: at},
		Connections: Connections{Open: 5, Unproven: 2, Limits: httpserver.Limits{Network: 9}, Closed: map[string]int64{"slow_request": 1}},
		Tasks:       map[string]int{wire.TaskQueued: 7},
		Shipping: []api.LogShipping{{Name: "prod", Sent: 9, Dropped: map[string]int64{"buffer": 2}, Waiting: 3, BufferBytes: 4096, LagSeconds: 60,
			FailingSince: &at}},
		HeldBatches:  map[string]int64{"lab": 1},
		Rollouts:     []Rollout{{"stable", "halted", map[string]int{"failed": 2}}, {Channel: "new"}},
		Certificates: Certificates{Serving: some(at), Intermediate: some(at), Roots: map[string]time.Time{"sha256:x": at}},
		Failed:       []string{"tasks"},
	}
}

// full is a stand where every metric has a sample.
func full(t *testing.T) *stand {
	d := newStand(t)
	d.rows = []*api.NodeRow{fullNode("gpu-1", "platform", d.at), fullNode("gpu-2", "research", d.at)}
	d.gateway = fullGateway(d.at)
	d.api.Events.Take(t.Context(), []store.Event{{Kind: "admin.refused", Outcome: wire.CodeForbidden}})
	return d
}

// broken is a writer that fails after some bytes.
type broken struct{ left int }

func (b *broken) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, io.ErrClosedPipe
	}
	return len(p), nil
}
