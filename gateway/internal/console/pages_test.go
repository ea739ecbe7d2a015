package console_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/cli/help"
	"muster/gateway/internal/console"
	"muster/gateway/internal/health/condition"
	"muster/store"
)

// hostile is text that would run where a page forgets to escape it.
const hostile = `"><script>alert(1)</script><img src=x onerror=alert(2)>'` + "`${1}" + `</textarea></title>`

// inline is what the policy forbids a page to hold.
var inline = regexp.MustCompile(`(?i)<script>|<script[^>]*>[^<]|<style|<[^>]*\s(style|on[a-z]+)=|<img src=x`)

// quoted is an attribute's value, which ends with its quote: html/template writes no other in it.
var quoted = regexp.MustCompile(`="[^"]*"`)

// furnished is a house with something on every page, and hostile text wherever somebody can put it.
func furnished(t *testing.T) (h *house, b *browser, taskID string) {
	t.Helper()
	h = newHouse(t)
	b = h.operator()
	h.enrolled("gpu-1", "platform", map[string]string{"tier": hostile})
	h.release("1.2.3<script>")
	made := b.post("/ui/tasks", "node", "gpu-1", "type", wire.TaskWorkloadLogs, "param.name", hostile)
	if made.status != http.StatusSeeOther { // the type refuses such a name
		made = b.post("/ui/tasks", "node", "gpu-1", "type", wire.TaskDiagCollect)
	}
	_, taskID, _ = strings.Cut(made.header.Get("Location"), "/ui/tasks/")
	b.post("/ui/tokens", "labels", "a="+hostile)
	h.must(h.store.AddEvents(t.Context(), store.Event{At: h.now, Kind: hostile, Actor: hostile, NodeName: hostile, NodeID: "id-gpu-1",
		Tenant: hostile, Address: hostile, Outcome: hostile, Detail: map[string]string{hostile: hostile}, Security: true}))
	h.must(h.store.CreateAccount(t.Context(), store.Account{ID: "msa_hostile", Name: hostile, Tenant: hostile, Scopes: []string{hostile},
		CreatedAt: h.now, CreatedBy: hostile}))
	h.conflict(hostile)
	_, err := h.alerts.Silence(t.Context(), api.AlertSilenceRequest{Cause: condition.NodeStale, For: api.Duration(time.Hour), Reason: hostile},
		store.Actor{Name: hostile})
	h.must(err)
	return h, b, taskID
}

// TestPages: every page is whole, says what it is, has no script and no style of its own, and its forms have the session's text.
func TestPages(t *testing.T) {
	_, b, id := furnished(t)
	q := "?" + url.Values{"node": {hostile}, "kind": {hostile}, "selector": {hostile}, "type": {wire.TaskDiagCollect}, "all": {"1"}}.Encode()
	for path, title := range map[string]string{
		"/ui/login": "Log in", "/ui/account": "operator", "/ui/fleet": "Fleet", "/ui/fleet?selector=tier": "Fleet", "/ui/nodes/gpu-1": "gpu-1",
		"/ui/nodes/gpu-1?source=agent&grep=.": "gpu-1", "/ui/nodes/gpu-1?source=" + url.QueryEscape(hostile): "gpu-1",
		"/ui/add": "Add a node", "/ui/tasks": "Tasks", "/ui/tasks/new": "Run a task", "/ui/tasks/new" + q: "Run a task",
		"/ui/tasks/" + id: "Task", "/ui/sessions": "Sessions", "/ui/sessions?type=session.shell": "Sessions", "/ui/releases": "Releases",
		"/ui/alerts": "Alerts", "/ui/alerts?all=1": "Alerts", "/ui/tokens": "Tokens", "/ui/tokens?all=1": "Tokens", "/ui/accounts": "Accounts",
		"/ui/accounts?all=1": "Accounts", "/ui/events": "Audit", "/ui/events" + q: "Audit", "/ui/help": "Help", "/ui/help/joining": "joining",
	} {
		got := b.get(path)
		if got.status != http.StatusOK || !strings.Contains(got.body, "<title>"+title) || !strings.HasSuffix(got.body, "</html>\n") {
			t.Errorf("%s: %d %.300s", path, got.status, got.body)
		}
		whole(t, path, got)
	}
	for _, path := range []string{"/ui/nothing", "/ui/nodes/none", "/ui/tasks/none", "/ui/help/none", "/ui/channels/none",
		"/ui/fleet?selector=" + url.QueryEscape(hostile), "/ui/assets/none"} {
		got := b.get(path)
		if got.status/100 != 4 || !strings.Contains(got.body, `role="alert"`) {
			t.Errorf("%s: %d %.300s", path, got.status, got.body)
		}
		whole(t, path, got)
	}
}

// TestIgnored: every page says what it did not use of its address, and does not say it of what it did use.
func TestIgnored(t *testing.T) {
	_, b, id := furnished(t)
	for path, known := range map[string]string{
		"/ui/login": "next=/ui/fleet", "/ui/account": "", "/ui/nodes/gpu-1": "range=day&source=agent&grep=x", "/ui/add": "",
		"/ui/fleet": "selector=tier&status=online&state=active&idle=1&unwell=1&all=1&sort=-name&group=label:tier&view=heat&by=memory&rows=400",
		"/ui/tasks": "node=gpu-1&type=diag.collect&status=queued", "/ui/tasks/new": "node=gpu-1&type=diag.collect", "/ui/tasks/" + id: "",
		"/ui/sessions": "node=gpu-1&type=session.shell", "/ui/releases": "", "/ui/alerts": "all=1&selector=tier", "/ui/tokens": "all=1",
		"/ui/accounts": "all=1", "/ui/events": "node=gpu-1&kind=node.enrolled&all=1", "/ui/providers": "account=x", "/ui/maas": "state=ready",
		"/ui/allocations": "owner=ada&tenant=x&node=gpu-1&state=waiting&all=1&range=day&by=owner&cursor=c", "/ui/skus": "",
		"/ui/slots": "selector=tier&node=gpu-1&state=approved&sku=x&tenant=x&cursor=c", "/ui/help": "", "/ui/help/joining": "",
	} {
		if got := b.get(path + "?" + known); got.status != http.StatusOK || strings.Contains(got.body, "was ignored") {
			t.Errorf("%s?%s: %d, or something was ignored", path, known, got.status)
		}
		got := b.get(path + "?page=x&" + known + "&since=" + url.QueryEscape(hostile))
		if got.status != http.StatusOK || !strings.Contains(got.body, "<code>page=x</code></span> was ignored: this page does not know it.") ||
			strings.Count(got.body, "was ignored") != 2 {
			t.Errorf("%s: %d, without a word of page=x and since", path, got.status)
		}
		whole(t, path, got)
	}
	for _, query := range []string{"/ui/fleet?view=map", "/ui/fleet?by=colour", "/ui/fleet?rows=many", "/ui/fleet?idle=no",
		"/ui/fleet?group=colour",
		"/ui/nodes/gpu-1?range=nonsense", "/ui/tokens?all=maybe", "/ui/login?next=https://example.org/", "/ui/tasks?node=gpu-1&node=gpu-1",
		"/ui/alerts?%zz", "/ui/events?before=x"} {
		if got := b.get(query); got.status != http.StatusOK || strings.Count(got.body, "was ignored") != 1 {
			t.Errorf("%s: %d, not told once", query, got.status)
		}
	}
}

// whole looks for what no page may hold, and for the headers that each has.
func whole(t *testing.T, path string, got answer) {
	t.Helper()
	if found := inline.FindString(quoted.ReplaceAllString(got.body, `=""`)); found != "" {
		t.Errorf("%s holds %q", path, found)
	}
	forms, texts := strings.Count(got.body, `method="post"`), strings.Count(got.body, `name="form"`)
	if forms != texts && path != "/ui/login" {
		t.Errorf("%s has %d forms, %d with the session's text", path, forms, texts)
	}
	for name, want := range map[string]string{"Content-Type": "text/html; charset=utf-8", "X-Content-Type-Options": "nosniff",
		"Referrer-Policy": "no-referrer", "Cache-Control": "no-store"} {
		if got.header.Get(name) != want {
			t.Errorf("%s: %s is %q", path, name, got.header.Get(name))
		}
	}
	policy := got.header.Get("Content-Security-Policy")
	if !strings.Contains(policy, "frame-ancestors 'none'") || !strings.HasPrefix(policy, "default-src 'none'") ||
		strings.Contains(policy, "unsafe") {
		t.Errorf("%s: the policy is %q", path, policy)
	}
}

// TestTopics: every topic of muster help is a page, and commands that show a topic lead to it.
func TestTopics(t *testing.T) {
	b := newHouse(t).operator()
	linked := false
	for _, name := range help.Names() {
		got := b.get("/ui/help/" + name)
		if got.status != http.StatusOK || !strings.Contains(got.body, "<h1>"+name+": ") {
			t.Errorf("%s: %d", name, got.status)
		}
		linked = linked || strings.Contains(got.body, "><code>muster help ")
		whole(t, name, got)
	}
	if !linked {
		t.Error("no command leads to its topic")
	}
}

// TestTokensPage: a token is shown once, in the answer to its form, and can be ended.
func TestTokensPage(t *testing.T) {
	h := newHouse(t)
	b := h.operator()
	got := b.post("/ui/tokens", "tenant", "platform", "uses", "8", "ttl", "4h", "labels", "tier=a, site=b", "gpus", "8", "bind", "1")
	token := regexp.MustCompile(`mse_[0-9A-Za-z]+_[0-9A-Za-z]+`).FindString(got.body)
	if got.status != http.StatusOK || token == "" || !strings.Contains(got.body, "join with "+token) {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	row, err := h.store.Tokens(t.Context(), store.TokenQuery{All: true})
	h.must(err)
	made := row[0]
	if made.Tenant != "platform" || made.Uses != 8 || made.Labels["site"] != "b" || made.GPUs != 8 || !made.BindInstance ||
		made.ExpiresAt.Sub(h.now).Hours() != 4 || made.CreatedBy != "account:operator" {
		t.Errorf("made %+v", made)
	}
	if events := h.events("token.created"); len(events) != 1 || !strings.HasSuffix(events[0].Address, " (console)") {
		t.Errorf("events %+v", events)
	}
	list := b.get("/ui/tokens")
	if strings.Contains(list.body, token) || !strings.Contains(list.body, made.ID) {
		t.Error("the list shows the token, or not its id")
	}
	for field, text := range map[string]string{"uses": "many", "ttl": "long", "labels": "a", "gpus": "-1"} {
		got := b.post("/ui/tokens", field, text)
		if got.status != http.StatusBadRequest || !strings.Contains(got.body, `role="alert"`) ||
			!strings.Contains(got.body, `value="`+text+`"`) {
			t.Errorf("%s=%s: %d, the form is not as it was", field, text, got.status)
		}
	}
	if got := b.post("/ui/tokens/" + made.ID + "/revoke"); got.status != http.StatusSeeOther {
		t.Errorf("revoke: %d %s", got.status, got.body)
	}
	if got := b.post("/ui/tokens/mse_none/revoke"); got.status != http.StatusNotFound || !strings.Contains(got.body, `role="alert"`) {
		t.Errorf("revoke what is not there: %d", got.status)
	}
}

// TestAccountsPage: an API token is shown once; revoking asks first.
func TestAccountsPage(t *testing.T) {
	h := newHouse(t)
	b := h.operator()
	got := b.post("/ui/accounts", "name", "ci", "scope", "nodes:read", "scope", "tasks:read", "ttl", "30d")
	token := regexp.MustCompile(`msa_[0-9A-Za-z]+_[0-9A-Za-z]+`).FindString(got.body)
	if got.status != http.StatusOK || token == "" || !strings.Contains(got.body, "MUSTER_ROOT_PIN=sha256:00") {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	if strings.Contains(b.get("/ui/accounts").body, token) {
		t.Error("the list shows the token")
	}
	ci := h.browser(token)
	nav := ci.get("/ui/account").body
	if strings.Contains(nav, `href="/ui/tokens"`) || !strings.Contains(nav, `href="/ui/tasks"`) {
		t.Error("the navigation is not that of the account's scopes")
	}
	if got := ci.get("/ui/tokens"); got.status != http.StatusForbidden || !strings.Contains(got.body, "lacks the scope tokens:read") {
		t.Errorf("a page without its scope: %d", got.status)
	}
	if got := b.post("/ui/accounts", "name", "ci"); got.status != http.StatusConflict || !strings.Contains(got.body, `role="alert"`) {
		t.Errorf("the name again: %d", got.status)
	}
	if got := b.post("/ui/accounts/ci/revoke"); got.status != http.StatusOK || !strings.Contains(got.body, "Revoke the account ci?") ||
		len(h.events("account.revoked")) != 0 {
		t.Errorf("revoking does not ask: %d", got.status)
	}
	if got := b.post("/ui/accounts/ci/revoke", "sure", "yes"); got.status != http.StatusSeeOther || len(h.events("account.revoked")) != 1 {
		t.Errorf("revoke: %d", got.status)
	}
}

// TestTasksPage: a task is made by a form of its type's params, shown, and canceled.
func TestTasksPage(t *testing.T) {
	h := newHouse(t)
	b := h.operator()
	h.enrolled("gpu-1", "platform", nil)
	for _, kind := range wire.TaskTypes() {
		got := b.get("/ui/tasks/new?node=gpu-1&type=" + kind.Name)
		for _, p := range kind.Params() {
			if !strings.Contains(got.body, `name="param.`+p.Name+`"`) {
				t.Errorf("the form of %s lacks %s", kind.Name, p.Name)
			}
		}
	}
	got := b.post("/ui/tasks", "node", "gpu-1", "type", wire.TaskWorkloadLogs, "param.timeout_seconds", "many")
	if got.status != http.StatusBadRequest || !strings.Contains(got.body, "timeout_seconds is no whole number") {
		t.Errorf("wrong params: %d %s", got.status, got.body)
	}
	got = b.post("/ui/tasks", "node", "gpu-1", "type", wire.TaskDiagCollect, "param.timeout_seconds", "60")
	path := got.header.Get("Location")
	if got.status != http.StatusSeeOther || !strings.HasPrefix(path, "/ui/tasks/") {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	page := b.get(path)
	if !strings.Contains(page.body, "&#34;timeout_seconds&#34;: 60") || !strings.Contains(page.body, "Cancel the task") {
		t.Errorf("got %s", page.body)
	}
	var shown api.Task
	data := b.get("/ui/api" + strings.TrimPrefix(path, "/ui"))
	if err := json.Unmarshal([]byte(data.body), &shown); err != nil || shown.Node != "gpu-1" || shown.CreatedBy != "account:operator" {
		t.Errorf("got %s, %v", data.body, err)
	}
	if got := b.post(path + "/cancel"); got.status != http.StatusSeeOther {
		t.Errorf("cancel: %d", got.status)
	}
	if got := b.post("/ui/tasks/none/cancel"); got.status/100 != 4 || !strings.Contains(got.body, `role="alert"`) {
		t.Errorf("cancel what is not there: %d %s", got.status, got.body)
	}
	got = b.post("/ui/tasks", "node", "gpu-1", "type", wire.TaskAgentUninstall)
	if got.status != http.StatusOK || !strings.Contains(got.body, "Remove the agent from gpu-1?") ||
		!strings.Contains(got.body, `name="sure"`) {
		t.Errorf("removing the agent does not ask: %d", got.status)
	}
}

// TestReleasesPage: each change of a channel says what happens, and then happens.
func TestReleasesPage(t *testing.T) {
	h := newHouse(t)
	b := h.operator()
	h.enrolled("gpu-1", "platform", map[string]string{"channel": "next"})
	digest := h.release("1.2.3")
	for _, step := range []struct {
		verb, says, state string
		status            int
	}{
		{"rollback", "get that release at once. Maintenance windows do not hold them back.", "", http.StatusNotFound},
		{"promote", "The channel next points at version 1.2.3", "running", http.StatusSeeOther},
		{"pause", "No further node gets the release", "paused", http.StatusSeeOther},
		{"resume", "The rollout goes on", "running", http.StatusSeeOther},
		{"nothing", "", "", http.StatusNotFound},
	} {
		path := "/ui/channels/next/" + step.verb
		asks := b.post(path, "digest", digest)
		if !strings.Contains(asks.body, step.says) || step.says != "" && !strings.Contains(asks.body, `name="sure"`) {
			t.Errorf("%s: %d %s", step.verb, asks.status, asks.body)
		}
		got := b.post(path, "digest", digest, "sure", "yes")
		if got.status != step.status {
			t.Errorf("%s: %d %s", step.verb, got.status, got.body)
		}
		if page := b.get("/ui/channels/next"); step.state != "" && !strings.Contains(page.body, "</span> "+step.state+"</span>") {
			t.Errorf("after %s: %s", step.verb, page.body)
		}
	}
	_, token := h.account(store.Account{Name: "one", Tenant: "platform", Scopes: []string{api.ScopeReleasesRead}})
	if got := h.browser(token).get("/ui/releases"); got.status != http.StatusOK || !strings.Contains(got.body, "for one tenant") {
		t.Errorf("for one tenant: %d", got.status)
	}
}

// TestStalePage: a page that shows an earlier rollout steers none.
func TestStalePage(t *testing.T) {
	h := newHouse(t)
	b := h.operator()
	h.enrolled("gpu-1", "platform", map[string]string{"channel": "next"})
	first := h.release("1.2.3")
	b.post("/ui/channels/next/promote", "digest", first, "sure", "yes")
	page := b.get("/ui/channels/next")
	if strings.Count(page.body, `name="seen" value="1"`) != 2 {
		t.Fatalf("its forms do not say what the page shows: %s", page.body)
	}
	b.post("/ui/channels/next/promote", "digest", h.release("1.2.4"), "sure", "yes")
	for _, verb := range []string{"abort", "rollback", "promote"} {
		path := "/ui/channels/next/" + verb
		if asks := b.post(path, "digest", first, "seen", "1"); !strings.Contains(asks.body, `name="seen" value="1"`) {
			t.Errorf("%s: the question forgets what was seen: %s", verb, asks.body)
		}
		got := b.post(path, "digest", first, "seen", "1", "sure", "yes")
		if got.status != http.StatusConflict || !strings.Contains(got.body, "changed since you looked at it") {
			t.Errorf("%s: %d %s", verb, got.status, got.body)
		}
	}
	if asks := b.post("/ui/channels/next/abort", "seen", "2"); !strings.Contains(asks.body, "Maintenance windows do not hold them back.") {
		t.Errorf("abort does not say whom it concerns: %s", asks.body)
	}
	if got := b.post("/ui/channels/next/abort", "seen", "2", "sure", "yes"); got.status != http.StatusSeeOther {
		t.Errorf("as it is now: %d %s", got.status, got.body)
	}
}

// TestEventsPage: pages lead to older and to newer events and back, and keep the filter.
func TestEventsPage(t *testing.T) {
	h := newHouse(t)
	b := h.operator()
	for range 250 {
		h.must(h.store.AddEvents(t.Context(), store.Event{At: h.now, Kind: "test.kind", Outcome: "ok", Security: true}))
	}
	link := func(page answer, rel string) string {
		found := regexp.MustCompile(`href="([^"]+)" rel="` + rel + `"`).FindStringSubmatch(page.body)
		if found == nil {
			return ""
		}
		return strings.ReplaceAll(found[1], "&amp;", "&")
	}
	rows := func(page answer) int { return strings.Count(page.body, "<code>test.kind</code>") }
	first := b.get("/ui/events?kind=test.kind")
	second := b.get(link(first, "next"))
	third := b.get(link(second, "next"))
	back := b.get(link(third, "prev"))
	if rows(first) != 100 || rows(second) != 100 || rows(third) != 50 || rows(back) != 100 || link(first, "prev") != "" ||
		link(third, "next") != "" {
		t.Errorf("rows %d %d %d %d, %q %q", rows(first), rows(second), rows(third), rows(back), link(first, "prev"), link(third, "next"))
	}
	if !strings.Contains(link(second, "next"), "kind=test.kind") {
		t.Errorf("the filter is lost: %q", link(second, "next"))
	}
}

// TestAddPage: opening the page makes nothing. The click makes a node, and shows what is to be run.
func TestAddPage(t *testing.T) {
	h := newHouse(t)
	b := h.operator()
	b.get("/ui/add")
	if made := h.events("node.created"); len(made) != 0 {
		t.Fatalf("opening the page made %+v", made)
	}
	got := b.post("/ui/add", "name", "gpu-7", "tenant", "platform", "gpus", "8", "labels", "rack=7")
	for _, want := range []string{"Run this on the node", "Download bootstrap script", "MUSTER_TOKEN=msb_", "<dd>v2</dd>", "/ca.pem",
		"MUSTER_GATEWAY=https://gw:7443", "sha256:" + strings.Repeat("ab", 32), `data-node="`} {
		if !strings.Contains(got.body, want) {
			t.Errorf("the page lacks %q: %d", want, got.status)
		}
	}
	whole(t, "added", got)
	if got := b.post("/ui/add", "name", "gpu-7"); got.status != http.StatusConflict || !strings.Contains(got.body, `role="alert"`) {
		t.Errorf("the name again: %d", got.status)
	}
	script := b.post("/ui/nodes/gpu-7/script")
	if script.status != http.StatusOK || !strings.HasPrefix(script.body, "#!") ||
		script.header.Get("Content-Disposition") != "attachment; filename=bootstrap-gpu-7.sh" {
		t.Errorf("script: %d %q %.100s", script.status, script.header.Get("Content-Disposition"), script.body)
	}
}

// TestData: live data are the API's own answers, for the account that is logged in.
func TestData(t *testing.T) {
	h := newHouse(t)
	h.enrolled("gpu-1", "platform", nil)
	_, token := h.account(store.Account{Name: "one", Tenant: "other", Scopes: []string{api.ScopeNodesRead}})
	other := h.browser(token)
	for path, want := range map[string]int{"/ui/api/nodes/gpu-1": http.StatusNotFound, "/ui/api/events": http.StatusForbidden,
		"/ui/api/nodes/..%2Faccounts": http.StatusNotFound} {
		got := other.get(path)
		if got.status != want || got.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
	if got := h.operator().get("/ui/api/events?limit=2"); got.status != http.StatusOK || !strings.Contains(got.body, `"events":[`) {
		t.Errorf("got %d %s", got.status, got.body)
	}
	if got := other.get("/ui/nodes/gpu-1"); got.status != http.StatusNotFound {
		t.Errorf("a node of another tenant: %d", got.status)
	}
}

// TestAssets: files are served with their kind, and are not sent twice.
func TestAssets(t *testing.T) {
	b := newHouse(t).browser("")
	for file, kind := range map[string]string{"console.css": "text/css; charset=utf-8", "keys.js": "text/javascript; charset=utf-8"} {
		got := b.get("/ui/assets/" + file)
		if got.status != http.StatusOK || got.header.Get("Content-Type") != kind {
			t.Errorf("%s: %d %s", file, got.status, got.header.Get("Content-Type"))
		}
		r := b.form("/ui/assets/"+file, nil)
		r.Method = http.MethodGet
		r.Header.Set("If-None-Match", got.header.Get("Etag"))
		if again := b.do(r); again.status != http.StatusNotModified {
			t.Errorf("%s again: %d", file, again.status)
		}
		r.Header.Del("If-None-Match")
		r.Header.Set("Accept-Encoding", "identity")
		plain := b.do(r)
		r.Header.Set("Accept-Encoding", "gzip")
		if packed := b.do(r); packed.header.Get("Content-Encoding") != "gzip" || plain.body != got.body ||
			plain.header.Get("Etag") == packed.header.Get("Etag") || len(packed.body) > len(plain.body)/2 {
			t.Errorf("%s packed: %d %v, plain %v", file, packed.status, packed.header, plain.header)
		}
	}
	if got := b.get("/ui/assets/..%2fpages%2flogin.html"); got.status != http.StatusNotFound {
		t.Errorf("got %d", got.status)
	}
}

func FuzzSafePath(f *testing.F) {
	for _, s := range []string{"/ui/fleet?a=b", "//evil", "/ui/../x", "/ui/\\evil", "https://evil/ui/", "/ui//evil",
		"/ui/%2e%2e/x", "/ui/#x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := console.SafePath(text)
		if got == "" {
			return
		}
		u, err := (&url.URL{Scheme: "https", Host: "gw"}).Parse(got)
		if err != nil || u.Host != "gw" || u.Scheme != "https" || !strings.HasPrefix(u.Path, "/ui/") {
			t.Errorf("%q leads to %q", text, got)
		}
	})
}
