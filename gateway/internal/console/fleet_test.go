package console_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/console"
	"muster/gateway/internal/view"
	"muster/store"
)

// hear has the picture of the fleet hear a node with GPUs of the given utilisation; nil: the GPU does not say it.
func (h *house) hear(name string, busy ...*float64) {
	hardware := wire.Hardware{Probe: wire.Probe{State: wire.ProbeOK, SampledAt: &h.now}, GPUs: []wire.GPU{}}
	for i, v := range busy {
		hardware.GPUs = append(hardware.GPUs, wire.GPU{Index: i, UUID: fmt.Sprint("GPU-", i), Name: hostile, UtilizationPercent: v,
			MemoryUsedMiB: some(int64(2048)), MemoryTotalMiB: some(int64(4096)), MemorySource: wire.MemoryDevice, Health: []string{hostile}})
	}
	h.picture.Take(h.t.Context(), []view.Sample{{NodeID: "id-" + name, At: h.now, Interval: 30 * time.Second, Hardware: &hardware}})
}

// names are the nodes of a page in their order.
func names(page answer) string {
	var all []string
	for _, found := range regexp.MustCompile(`<tr data-id="id-([^"]+)"`).FindAllStringSubmatch(page.body, -1) {
		all = append(all, found[1])
	}
	return strings.Join(all, " ")
}

// TestFleetPage: the URL picks, sorts and groups nodes, and whatever a node says is only text.
func TestFleetPage(t *testing.T) {
	h := newHouse(t)
	b := h.operator()
	h.enrolled("a", "platform", map[string]string{"site": "fra", hostile: hostile})
	h.enrolled("b", "research", map[string]string{"site": "ams"})
	h.enrolled("c", "platform", nil)
	h.hear("a", some(10.0), nil)
	h.hear("b", some(90.0))
	h.picture.Findings("id-c", []api.Finding{{Rule: "x", Severity: api.SeveritySevere, Text: hostile, Next: hostile}})
	for query, want := range map[string]string{
		"": "c a b", "?sort=name": "a b c", "?sort=utilization": "b a c", "?sort=-name": "c b a", "?selector=tenant%3Dplatform": "c a", "?status=online": "a b",
		"?status=stale": "", "?unwell=true": "c", "?idle=true": "", "?state=active": "c a b", "?group=label:site": "b a c",
		"?group=tenant":   "c a b",
		"?group=provider": "c a b",
	} {
		got := b.get("/ui/fleet" + query)
		whole(t, query, got)
		if names(got) != want {
			t.Errorf("%s shows %q, want %q", query, names(got), want)
		}
		if want == "" && !strings.Contains(got.body, "No node matches") {
			t.Errorf("%s does not say that nothing matches", query)
		}
	}
	page := b.get("/ui/fleet?sort=utilization&selector=state%3Dactive").body
	for _, want := range []string{`aria-sort="descending"`, `sort=-utilization`,
		`selector=state%3Dactive&amp;sort=utilization&amp;status=online`,
		`<b>3</b><span>GPUs seen; nodes without a reading: 1`, `<b>50 %</b>`, `aria-label="Utilisation of each GPU: 10 %, –"`, `class="track"`, `url(#hatch)`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	heat := b.get("/ui/fleet?view=heat")
	whole(t, "heat", heat)
	if !strings.Contains(heat.body, `aria-label="a: 10 %, –"`) || !strings.Contains(heat.body, `class="s5"`) {
		t.Errorf("heat: %s", heat.body)
	}
	if got := b.get("/ui/fleet?selector=" + url.QueryEscape("a==b==c,")); got.status != http.StatusBadRequest ||
		!strings.Contains(got.body, `role="alert"`) || !strings.Contains(got.body, `value="a==b==c,"`) {
		t.Errorf("a wrong filter: %d", got.status)
	}
}

// TestFleetPages: without JavaScript the rest is behind a link, in every order.
func TestFleetPages(t *testing.T) {
	h := newHouse(t)
	b := h.operator()
	for i := range 103 {
		n := store.Node{ID: fmt.Sprintf("id-n%03d", i), Name: fmt.Sprintf("n%03d", i), Tenant: "default", CreatedAt: h.now}
		h.must(h.store.CreateNode(t.Context(), n, nil))
	}
	h.picture.Load(t.Context())
	link := func(page answer) string {
		found := regexp.MustCompile(`href="([^"]+)" rel="next"`).FindStringSubmatch(page.body)
		if found == nil {
			return ""
		}
		return strings.ReplaceAll(found[1], "&amp;", "&")
	}
	rows := func(page answer) int { return len(strings.Fields(names(page))) }
	first := b.get("/ui/fleet?sort=name&selector=state%3Dready")
	second := b.get(link(first))
	if rows(first) != 100 || rows(second) != 3 || link(second) != "" || !strings.Contains(second.body, "First page") {
		t.Errorf("by name: %d rows, then %d", rows(first), rows(second))
	}
	other := b.get("/ui/fleet?sort=-name")
	more := b.get(link(other))
	if rows(other) != 100 || rows(more) != 103 || link(more) != "" {
		t.Errorf("in another order: %d rows, then %d", rows(other), rows(more))
	}
}

// TestEmptyFleet: the page teaches the three ways to join, to those who may.
func TestEmptyFleet(t *testing.T) {
	h := newHouse(t)
	page := h.operator().get("/ui/fleet")
	for _, want := range []string{"Mint a token and show the command", "muster push root@", `href="/ui/add"`} {
		if !strings.Contains(page.body, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	whole(t, "empty", page)
	_, token := h.account(store.Account{Name: "one", Scopes: []string{api.ScopeNodesRead}})
	if got := h.browser(token).get("/ui/fleet"); strings.Contains(got.body, "Mint a token and") ||
		!strings.Contains(got.body, "may not mint") {
		t.Errorf("to one who may not: %s", got.body)
	}
}

// TestFleetStarts: a gateway that still reads its nodes says so, and the page asks again by itself.
func TestFleetStarts(t *testing.T) {
	h := newHouse(t)
	b := h.operator()
	ended, end := context.WithCancel(t.Context())
	end()
	h.picture.Load(ended)
	got := b.get("/ui/fleet?selector=a")
	if got.status != http.StatusServiceUnavailable || got.header.Get("Refresh") != "2" ||
		!strings.Contains(got.body, "still reads its nodes") {
		t.Errorf("%d, Refresh %q", got.status, got.header.Get("Refresh"))
	}
}

// TestChangeNodes: the page names the nodes and what happens, and does it when that is confirmed; a word for more than one that ends.
func TestChangeNodes(t *testing.T) {
	h := newHouse(t)
	b := h.operator()
	for _, name := range []string{"a", "b", "c"} {
		h.enrolled(name, "platform", map[string]string{"rack": "1"})
	}
	do := func(want int, says string, values ...string) {
		t.Helper()
		got := b.post("/ui/fleet/nodes", values...)
		if got.status != want || !strings.Contains(got.body, says) {
			t.Errorf("%q: %d, lacks %q\n%.600s", values, got.status, says, got.body)
		}
	}
	do(http.StatusBadRequest, "no node is selected", "verb", "drain")
	do(http.StatusBadRequest, "nodes cannot be changed by", "verb", "ban", "node", "a")
	do(http.StatusBadRequest, "no label is given", "verb", "label", "node", "a", "labels", " ")
	do(http.StatusBadRequest, "a label is not", "verb", "label", "node", "a", "labels", "x")
	do(http.StatusOK, "Drain 2 nodes?", "verb", "drain", "node", "a", "node", "b")
	do(http.StatusOK, "<li>a, b</li>", "verb", "drain", "node", "a", "node", "b")
	do(http.StatusOK, "<li>a, b</li>", "verb", "drain", "node", "id-a", "node", "b", "node", "a")
	do(http.StatusOK, `name="node" value="id-a"`, "verb", "drain", "node", "a") // the name may be another machine's when they say yes
	do(http.StatusNotFound, "no node is called", "verb", "drain", "node", "nobody", "node", "a", "sure", "yes")
	if got := b.get("/ui/fleet"); !strings.Contains(got.body, `name="node" form="actions" value="id-a"`) {
		t.Error("the fleet's form does not name its nodes by their ids")
	}
	do(http.StatusSeeOther, "", "verb", "drain", "node", "a", "node", "b", "sure", "yes")
	do(http.StatusSeeOther, "", "verb", "resume", "node", "b", "sure", "yes")
	do(http.StatusOK, "Resume 1 node?", "verb", "resume", "node", "b")
	do(http.StatusOK, "<li>Set tier=spot.</li><li>Remove rack.</li>", "verb", "label", "node", "c", "labels", "tier=spot, -rack")
	do(http.StatusSeeOther, "", "verb", "label", "node", "c", "labels", "tier=spot, -rack", "sure", "yes")
	for name, want := range map[string]string{"a": wire.StateDrained, "b": wire.StateActive, "c": wire.StateActive} {
		if n := h.node(name); n.State != want {
			t.Errorf("%s is %s", name, n.State)
		}
	}
	if n := h.node("c"); n.Labels["tier"] != "spot" || n.Labels["rack"] != "" {
		t.Errorf("labels %v", n.Labels)
	}
	do(http.StatusOK, `Type retire to go on`, "verb", "retire", "node", "a", "node", "b")
	do(http.StatusOK, `Nothing was changed`, "verb", "retire", "node", "a", "node", "b", "sure", "yes", "word", "yes")
	if n := h.node("b"); n.State != wire.StateActive {
		t.Errorf("without the word b is %s", n.State)
	}
	got := b.post("/ui/fleet/nodes", "verb", "retire", "node", "a", "node", "b", "sure", "yes", "word", "retire", "back",
		"/ui/fleet?status=stale")
	if got.header.Get("Location") != "/ui/fleet?status=stale" || h.node("a").State != wire.StateRetired ||
		h.node("b").State != wire.StateRetired {
		t.Errorf("retire: %d to %q", got.status, got.header.Get("Location"))
	}
	do(http.StatusConflict, "1 of 2 nodes stayed as they were", "verb", "drain", "node", "id-a", "node", "c", "sure", "yes")
	if n := h.node("c"); n.State != wire.StateDrained {
		t.Errorf("beside one that failed c is %s", n.State)
	}
	got = b.post("/ui/fleet/nodes", "verb", "resume", "node", "c", "sure", "yes", "back", "//evil")
	if got.header.Get("Location") != "/ui/fleet" {
		t.Errorf("leads to %q", got.header.Get("Location"))
	}
	many := []string{"verb", "drain"}
	for range console.MostChange + 1 {
		many = append(many, "node", "c")
	}
	do(http.StatusBadRequest, "201 nodes are selected, and 200 can be changed at once", many...)
}

// TestModules: the page asks at once for every file that its script imports, and for no other.
func TestModules(t *testing.T) {
	page := newHouse(t).operator().get("/ui/fleet").body
	script, err := os.ReadFile("assets/fleet.js")
	if err != nil {
		t.Fatal(err)
	}
	imports := regexp.MustCompile(`from "(/ui/assets/[a-z]+\.js)"`).FindAllSubmatch(script, -1)
	for _, found := range imports {
		if !strings.Contains(page, fmt.Sprintf(`<link rel="modulepreload" href="%s">`, found[1])) {
			t.Errorf("the page does not ask for %s at once", found[1])
		}
	}
	if n := strings.Count(page, "modulepreload"); n != len(imports) || n == 0 {
		t.Errorf("the page asks for %d files, and the script imports %d", n, len(imports))
	}
}

// TestSheet: the colours stand in console.css alone.
func TestSheet(t *testing.T) {
	css, err := os.ReadFile("assets/fleet.css")
	if err != nil {
		t.Fatal(err)
	}
	if found := regexp.MustCompile(`#[0-9a-fA-F]{3,8}\b|rgb|hsl`).FindString(string(css)); found != "" {
		t.Errorf("fleet.css has the colour %s", found)
	}
}

// TestPackedPages: lists come compressed, and no page with a form does: who can put a text into it could learn the form's secret by the
// length of the answer.
func TestPackedPages(t *testing.T) {
	h := newHouse(t)
	b := h.operator()
	h.picture.Load(t.Context())
	for path, want := range map[string]string{"/ui/fleet": "", "/ui/tokens": "", "/ui/account": "", "/ui/login": "", "/ui/help/joining": "",
		"/ui/api/fleet": "gzip", "/ui/api/fleet?brief=true": "gzip", "/ui/api/events": ""} {
		r := b.form(path, nil)
		r.Method = http.MethodGet
		r.Header.Set("Accept-Encoding", "gzip")
		if got := b.do(r); got.status != http.StatusOK || got.header.Get("Content-Encoding") != want {
			t.Errorf("%s: %d %q", path, got.status, got.header.Get("Content-Encoding"))
		}
	}
}
