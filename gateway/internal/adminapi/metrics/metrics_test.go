package metrics

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
)

// names are the names of an answer's samples.
func names(all []sample) map[string]int {
	by := map[string]int{}
	for _, s := range all {
		by[s.name]++
	}
	return by
}

// TestEveryFamily: where all is known, every row of the tables has a sample, and nothing else has.
func TestEveryFamily(t *testing.T) {
	got := names(read(t, full(t).scrape()))
	want := []family{leftOut()}
	for _, f := range nodeFamilies() {
		want = append(want, f.family)
	}
	for _, f := range append(gpuFamilies(), detailFamilies()...) {
		want = append(want, f.family)
	}
	for _, f := range gatewayFamilies() {
		want = append(want, f.family)
	}
	for _, f := range want {
		if got[f.name] == 0 {
			t.Errorf("%s has no sample", f.name)
		}
		delete(got, f.name)
		if !strings.HasPrefix(f.name, "muster_") || f.kind == counter != strings.HasSuffix(f.name, "_total") || !strings.HasSuffix(f.help, ".") ||
			strings.ContainsAny(f.help, "\\\n") {
			t.Errorf("%+v", f)
		}
	}
	if len(got) > 0 {
		t.Errorf("in no table: %v", got)
	}
}

// TestContract: names and labels of DESIGN 14, word by word.
func TestContract(t *testing.T) {
	d := full(t)
	all := read(t, d.scrape())
	gpu := []string{"gpu", "model", "node", "tenant", "uuid"}
	for name, want := range map[string]struct {
		labels []string
		value  float64
	}{
		"muster_node_info":                        {[]string{"agent_version", "instance_id", "node", "provider", "state", "tenant"}, 1},
		"muster_node_up":                          {[]string{"node", "tenant"}, 1},
		"muster_node_last_seen_timestamp_seconds": {[]string{"node", "tenant"}, float64(d.at.Unix())},
		"muster_gpu_utilization_ratio":            {gpu, 0.57},
		"muster_gpu_memory_used_bytes":            {gpu, 39233 << 20},
		"muster_gpu_memory_total_bytes":           {gpu, 81559 << 20},
		"muster_gpu_temperature_celsius":          {gpu, 64},
		"muster_gpu_power_watts":                  {gpu, 612.5},
		"muster_gpu_unhealthy":                    {append([]string{"reason"}, gpu...), 1},
		"muster_gpu_sm_clock_hertz":               {gpu, 1.98e9},
		"muster_gpu_clock_reason":                 {append([]string{"reason"}, gpu...), 1},
		"muster_gpu_pcie_link_width":              {gpu, 8},
		"muster_gpu_nvlink_links_down":            {gpu, 1},
		"muster_gpu_ecc_aggregate_errors_total":   {append([]string{"kind"}, gpu...), 3},
		"muster_gpu_remapped_rows_total":          {append([]string{"kind"}, gpu...), 5},
		"muster_gpu_row_remap_pending":            {gpu, 1},
		"muster_gpu_encoder_utilization_ratio":    {gpu, 0.05},
		"muster_gpu_processes_memory_bytes":       {gpu, 1 << 30},
		"muster_gpu_xid_code":                     {gpu, 79},
		"muster_gpu_xid_timestamp_seconds":        {gpu, float64(d.at.Add(-time.Minute).Unix())},
	} {
		at := slices.IndexFunc(all, func(s sample) bool { return s.name == name && s.labels["node"] == "gpu-1" })
		if at < 0 {
			t.Errorf("%s is not there", name)
			continue
		}
		var labels []string
		for label := range all[at].labels {
			labels = append(labels, label)
		}
		slices.Sort(labels)
		slices.Sort(want.labels)
		if !slices.Equal(labels, want.labels) || all[at].value != want.value {
			t.Errorf("%s: got %v %v, want %v %v", name, labels, all[at].value, want.labels, want.value)
		}
	}
}

// TestUnknown: what is not known is not there. A node that is silent says only what the gateway knows by itself.
func TestUnknown(t *testing.T) {
	d := newStand(t)
	blank := &api.NodeRow{Name: "blank", Tenant: "t", State: wire.StateEnrolled, Status: wire.StatusPending,
		GPUs:  []api.GPU{{UUID: "GPU-1"}},
		Fresh: true}
	silent := fullNode("silent", "t", d.at)
	silent.Status = wire.StatusStale
	silent.Fresh = false
	d.rows = []*api.NodeRow{blank, silent}
	of := map[string][]string{}
	for _, s := range read(t, d.scrape()) {
		of[s.labels["node"]] = append(of[s.labels["node"]], s.name)
	}
	if got, want := of["blank"], []string{"muster_node_info", "muster_node_up", "muster_node_gpus_seen"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, name := range of["silent"] {
		if strings.HasPrefix(name, "muster_gpu") || strings.HasSuffix(name, "_bytes") || name == "muster_node_gpus_seen" ||
			name == "muster_node_load1" || name == "muster_node_cpus" {
			t.Errorf("a silent node has %s", name)
		}
	}
	for _, want := range []string{"muster_node_up", "muster_node_last_seen_timestamp_seconds", "muster_node_price_per_hour",
		"muster_node_gpus_expected"} {
		if !slices.Contains(of["silent"], want) {
			t.Errorf("a silent node lacks %s", want)
		}
	}
	for _, name := range []string{"muster_tasks", "muster_gateway_database_bytes", "muster_gateway_history_bytes", "muster_rollout_state",
		"muster_gateway_certificate_expiry_timestamp_seconds", "muster_events_total"} {
		if slices.Contains(of[""], name) {
			t.Errorf("a gateway that knows nothing says %s", name)
		}
	}
}

// TestTenant: an account of one tenant sees its own nodes, and nothing of the gateway. An answer to a part of the fleet has nothing of the
// gateway either: it would be there once for each part.
func TestTenant(t *testing.T) {
	d := full(t)
	theirs := d.account("research", api.ScopeMetricsRead)
	all := d.account("", api.ScopeMetricsRead)
	for name, c := range map[string]struct{ path, token, want string }{
		"an account of the tenant": {Path, theirs, "gpu-2"},
		"the same, named":          {Path + "?tenant=research", theirs, "gpu-2"},
		"a tenant of all":          {Path + "?tenant=platform", all, "gpu-1"},
	} {
		w := d.get(c.path, c.token)
		for _, s := range read(t, w.Body.String()) {
			if s.name != leftOut().name && s.labels["node"] != c.want {
				t.Errorf("%s: sees %v", name, s)
			}
		}
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s: got %d %.200s", name, w.Code, w.Body)
		}
	}
	if w := d.get(Path+"?selector=tier%3Dsovereign", all); strings.Contains(w.Body.String(), "muster_gateway") || len(d.asked.Terms) != 1 {
		t.Errorf("by a selector: %v, %.200s", d.asked, w.Body)
	}
	if w := d.get(Path+"/targets", theirs); strings.Contains(w.Body.String(), "platform") || !strings.Contains(w.Body.String(), "gpu-2") {
		t.Errorf("targets: %s", w.Body)
	}
}

func TestRefusals(t *testing.T) {
	d := full(t)
	reader := d.account("", api.ScopeMetricsRead)
	one := d.account("research", api.ScopeMetricsRead)
	nodes := d.account("other", api.ScopeNodesRead)
	for _, c := range []struct {
		path, token, want string
		status            int
	}{
		{Path, "", wire.CodeUnauthorized, 401},
		{Path, nodes, wire.CodeForbidden, 403},
		{Path + "/targets", nodes, wire.CodeForbidden, 403},
		{Path + "/dashboard.json", nodes, wire.CodeForbidden, 403},
		{Path + "/alerts.yaml", "", wire.CodeUnauthorized, 401},
		{Path + "?tenant=platform", one, wire.CodeForbidden, 403},
		{Path + "?colour=red", reader, wire.CodeBadRequest, 400},
		{Path + "?tenant=a&tenant=b", reader, wire.CodeBadRequest, 400},
		{Path + "?tenant=%zz", reader, wire.CodeBadRequest, 400},
		{Path + "?selector=,", reader, wire.CodeBadSelector, 400},
		{Path + "?selector=state%3Dgone", reader, wire.CodeBadSelector, 400},
		{Path + "/targets?port=0", reader, wire.CodeBadRequest, 400},
		{Path + "/targets?port=x", reader, wire.CodeBadRequest, 400},
		{Path + "/targets?selector=,", reader, wire.CodeBadSelector, 400},
		{Path + "/alerts.yaml?x=1", reader, wire.CodeBadRequest, 400},
		{Path + "/nothing", reader, wire.CodeNotFound, 404},
	} {
		if w := d.get(c.path, c.token); w.Code != c.status || code(w) != c.want {
			t.Errorf("%s: got %d %.200s, want %d %s", c.path, w.Code, w.Body, c.status, c.want)
		}
	}
	d.ready = false
	for _, path := range []string{Path, Path + "/targets"} {
		if w := d.get(path, reader); w.Code != 503 || code(w) != wire.CodeUnavailable {
			t.Errorf("%s before all nodes are read: got %d %s", path, w.Code, w.Body)
		}
	}
}

// TestPacked: who takes gzip gets it, and reads the same.
func TestPacked(t *testing.T) {
	d := newStand(t)
	d.rows = []*api.NodeRow{fullNode("gpu-1", "platform", d.at)}
	token := d.account("platform", api.ScopeMetricsRead)
	plain := d.get(Path, token)
	packed := d.get(Path, token, "Accept-Encoding", "deflate, gzip;q=0.5")
	if plain.Header().Get("Content-Encoding") != "" || packed.Header().Get("Content-Encoding") != "gzip" {
		t.Fatalf("got %v and %v", plain.Header(), packed.Header())
	}
	z, err := gzip.NewReader(packed.Body)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil || string(text) != plain.Body.String() {
		t.Errorf("%v: got\n%s\nwant\n%s", err, text, plain.Body)
	}
}

// failing is an answer whose reader has gone.
type failing struct {
	broken
	header http.Header
}

func (f *failing) Header() http.Header { return f.header }

func (f *failing) WriteHeader(int) {}

// TestCut: an answer that cannot be sent whole is cut, so that nobody takes it for the whole.
func TestCut(t *testing.T) {
	defer func() {
		if got := recover(); got != http.ErrAbortHandler {
			t.Error(got)
		}
	}()
	c := &call{w: &failing{header: http.Header{}}, r: httptest.NewRequest(http.MethodGet, Path, nil)}
	c.send(TextType, func(w io.Writer) error {
		out := newText(w)
		writeNodes(out, full(t).rows, append(gpuFamilies(), detailFamilies()...))
		return out.end()
	})
}

func TestHead(t *testing.T) {
	d := full(t)
	r := httptest.NewRequest(http.MethodHead, Path, nil)
	r.Header.Set("Authorization", "Bearer "+d.account("", api.ScopeMetricsRead))
	w := httptest.NewRecorder()
	d.api.Routes().ServeHTTP(w, r)
	if w.Code != 200 || w.Body.Len() != 0 || w.Header().Get("Content-Type") != TextType {
		t.Errorf("got %d %v, %d bytes", w.Code, w.Header(), w.Body.Len())
	}
}

// TestRoom: an account has so many answers at once, so have all accounts of a tenant, and all together have so many; who has ended makes
// room.
func TestRoom(t *testing.T) {
	d := full(t)
	token := d.account("", api.ScopeMetricsRead)
	id := token[:strings.LastIndexByte(token, '_')]
	var leaves []func()
	for range mostOfCaller {
		leave, err := d.api.Room.enter(id)
		if err != nil {
			t.Fatal(err)
		}
		leaves = append(leaves, leave)
	}
	for _, path := range []string{Path, Path + "/targets"} {
		if w := d.get(path, token); w.Code != 429 {
			t.Errorf("%s: got %d", path, w.Code)
		}
	}
	leaves[0]()
	if w := d.get(Path, token); w.Code != 200 {
		t.Errorf("with room: got %d", w.Code)
	}
	var last string
	for range mostOfCaller {
		last = d.account("platform", api.ScopeMetricsRead)
		if _, err := d.api.Room.enter("tenant/platform"); err != nil {
			t.Fatal(err)
		}
	}
	if w := d.get(Path, last); w.Code != 429 {
		t.Errorf("a further account of a tenant that has its part: got %d", w.Code)
	}
	r := &Room{}
	for i := range mostAnswers {
		if _, err := r.enter(string(rune('a' + i))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.enter("last"); err == nil {
		t.Error("more than all")
	}
}

// TestBounds: what a node says cannot make the answer grow, and what is left out is counted.
func TestBounds(t *testing.T) {
	d := newStand(t)
	n := fullNode("gpu-1", "platform", d.at)
	g := n.GPUs[0]
	g.Health = make([]string, mostReasons+3)
	g.Name = strings.Repeat("x", mostLabel+1)
	n.StateReasons = make([]string, mostReasons+2)
	for i := range g.Health {
		g.Health[i] = string(rune('a' + i))
	}
	for i := range n.StateReasons {
		n.StateReasons[i] = string(rune('a' + i))
	}
	n.GPUs = []api.GPU{g, g, g} // two with the same labels
	for i := range mostGPUs + 5 {
		n.GPUs = append(n.GPUs, api.GPU{Index: i + 1, TemperatureCelsius: some(40.0)})
	}
	twins := fullNode("twins", "platform", d.at)
	twins.GPUs = append(twins.GPUs, twins.GPUs...)
	d.rows = []*api.NodeRow{n, twins}
	all := read(t, d.scrape())
	left := map[string]float64{}
	for _, s := range all {
		if s.name == leftOut().name {
			left[s.labels["what"]] = s.value
		}
	}
	by := names(all)
	if by["muster_gpu_temperature_celsius"] != mostGPUs+1 || by["muster_gpu_unhealthy"] != mostReasons+1 ||
		by["muster_node_state_reason"] != mostReasons+1 {
		t.Errorf("got %v", by)
	}
	if left["gpus"] != 9 || left["reasons"] != 3+2 || left["label_text"] == 0 {
		t.Errorf("left out: %v", left)
	}
}

// TestFindings: the findings of a rule are added up.
func TestFindings(t *testing.T) {
	got := map[string]float64{}
	for _, s := range read(t, full(t).scrape()) {
		if s.name == "muster_node_findings" && s.labels["node"] == "gpu-1" {
			got[s.labels["rule"]+" "+s.labels["severity"]] = s.value
		}
	}
	if len(got) != 2 || got["power_cable severe"] != 1 || got["gpu_hot warn"] != 2 {
		t.Errorf("got %v", got)
	}
}
