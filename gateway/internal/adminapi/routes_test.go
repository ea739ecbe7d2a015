package adminapi_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/store"
	"muster/store/engine"
)

const oneGPU = `{"probe":{"state":"ok","since":null,"took_ms":80,"sampled_at":"2026-11-21T10:00:00Z"},"future":1,
 "gpus":[{"index":0,"uuid":"GPU-1","name":"NVIDIA H100 80GB HBM3","memory_total_mib":81559,"memory_used_mib":null}]}`

func TestNodes(t *testing.T) {
	h := newHouse(t)
	h.node("b", "platform", oneGPU)
	h.node("a", "research", "")
	status, body := h.ask("GET", "nodes", "", "")
	page := decode[api.NodePage](t, body)
	if status != 200 || page.Total != 2 || page.Next != "" || len(page.Nodes) != 2 || page.Nodes[0].Name != "a" {
		t.Fatalf("got %d %s", status, body)
	}
	var raw struct{ Nodes []map[string]json.RawMessage }
	if err := json.Unmarshal(body, &raw); err != nil {
		t.Fatal(err)
	}
	const keys = "id name tenant labels provider instance_id state state_reasons status last_seen " +
		"created_at address agent certificate hardware"
	for key := range strings.FieldsSeq(keys) {
		if _, ok := raw.Nodes[0][key]; !ok {
			t.Errorf("a node has no %s", key)
		}
	}
	for _, key := range []string{"hardware", "agent", "certificate", "last_seen"} {
		if got := string(raw.Nodes[0][key]); got != "null" {
			t.Errorf("%s of a node that never reported is %s, want null", key, got)
		}
	}
	if got := string(raw.Nodes[0]["state_reasons"]); got != "[]" {
		t.Errorf("state_reasons is %s", got)
	}
	b := raw.Nodes[1]
	if hw := string(b["hardware"]); !strings.Contains(hw, `"uuid":"GPU-1"`) || strings.Contains(hw, "future") ||
		!strings.Contains(hw, `"memory_used_mib":null`) {
		t.Errorf("hardware is not what was reported, in its shape: %s", hw)
	}
	for key, want := range map[string]string{"created_at": `"2026-11-21T10:00:00Z"`, "last_seen": `"2026-11-21T10:00:00Z"`,
		"status": `"online"`, "state": `"active"`,
		"agent": `{"version":"1.2.3","os":"linux","arch":"amd64","digest":""}`, "labels": `{"tier":"sovereign"}`, "address": `"192.0.2.7"`} {
		if got := string(b[key]); got != want {
			t.Errorf("%s is %s, want %s", key, got, want)
		}
	}
	if status, body := h.ask("GET", "nodes/b", "", ""); status != 200 || decode[api.Node](t, body).ID != "id-b" {
		t.Errorf("by name: %d %s", status, body)
	}
	if status, body := h.ask("GET", "nodes/id-b", "", ""); status != 200 || decode[api.Node](t, body).Name != "b" {
		t.Errorf("by id: %d %s", status, body)
	}
}

func TestNodesFilter(t *testing.T) {
	h := newHouse(t)
	for i := range 5 {
		h.node(fmt.Sprint("n", i), "platform", "")
	}
	h.node("other", "research", oneGPU)
	if status, body := h.ask("POST", "nodes/n4/retire", "", ""); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	for query, want := range map[string]string{
		"":                                     "n0 n1 n2 n3 other",
		"?all=true":                            "n0 n1 n2 n3 n4 other",
		"?selector=tenant%3Dresearch":          "other",
		"?selector=tier=sovereign&limit=2":     "n0 n1 +",
		"?status=pending&limit=1000":           "n0 n1 n2 n3",
		"?state=retired":                       "n4",
		"?status=online":                       "other",
		"?selector=!tier":                      "",
		"?selector=tenant%3Dplatform,name!=n0": "n1 n2 n3",
	} {
		status, body := h.ask("GET", "nodes"+query, "", "")
		page := decode[api.NodePage](t, body)
		var names []string
		for _, n := range page.Nodes {
			names = append(names, n.Name)
		}
		if page.Next != "" {
			names = append(names, "+")
		}
		if got := strings.Join(names, " "); status != 200 || got != want {
			t.Errorf("%s: got %d %q, want %q", query, status, got, want)
		}
	}
	_, body := h.ask("GET", "nodes?limit=2", "", "")
	page := decode[api.NodePage](t, body)
	_, body = h.ask("GET", "nodes?limit=2&cursor="+page.Next, "", "")
	if next := decode[api.NodePage](t, body); len(next.Nodes) != 2 || next.Nodes[0].Name != "n2" || next.Total != 5 {
		t.Errorf("second page: %s", body)
	}
}

// TestNodesWithoutWrites: a list by labels goes on while the database takes no writes.
func TestNodesWithoutWrites(t *testing.T) {
	h := newHouse(t)
	h.node("n", "platform", "")
	err := h.store.Records().Change(t.Context(), []engine.Statement{
		engine.Do("CREATE TRIGGER shut BEFORE INSERT ON meta BEGIN SELECT RAISE(ABORT, 'shut'); END")})
	if err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]int{"selector=tier%3Dsovereign": 200, "state=active": 200, "status=online": 500} {
		if status, body := h.ask("GET", "nodes?"+query, "", ""); status != want {
			t.Errorf("%s: %d %s, want %d", query, status, body, want)
		}
	}
}

func TestMoves(t *testing.T) {
	h := newHouse(t)
	h.node("n", "platform", oneGPU)
	for _, c := range []struct {
		verb   string
		status int
		want   string
	}{
		{"drain", 200, "drained"},
		{"drain", 200, "drained"},
		{"resume", 200, "active"},
		{"retire", 200, "retired"},
		{"drain", 409, wire.CodeIllegalMove},
		{"ban", 200, "retired"},
	} {
		status, body := h.ask("POST", "nodes/id-n/"+c.verb, "", "{}")
		got := code(body)
		if status == 200 {
			got = decode[api.Node](t, body).State
		}
		if status != c.status || got != c.want {
			t.Errorf("%s: got %d %s, want %d %s", c.verb, status, body, c.status, c.want)
		}
	}
	events, err := h.store.Events(t.Context(), store.EventQuery{Node: "id-n", Ascending: true})
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, e := range events {
		kinds = append(kinds, e.Kind)
		if e.Kind != "node.created" && e.Actor != "operator:socket" {
			t.Errorf("%s by %q", e.Kind, e.Actor)
		}
	}
	if got := strings.Join(kinds, " "); got != "node.created node.drained node.resumed node.retired admin.refused node.banned" {
		t.Errorf("the log has %s", got)
	}
}

func TestLabels(t *testing.T) {
	h := newHouse(t)
	h.node("n", "platform", "")
	status, body := h.ask("POST", "nodes/n/labels", "", `{"set":{"rack":"7"},"remove":["tier"]}`)
	if got := decode[api.Node](t, body).Labels; status != 200 || len(got) != 1 || got["rack"] != "7" {
		t.Errorf("got %d %s", status, body)
	}
	for body, want := range map[string]string{
		`{"set":{"tenant":"x"}}`: wire.CodeReservedKey,
		`{"set":{"a b":"x"}}`:    wire.CodeBadLabel,
		`{"remove":["name"]}`:    wire.CodeReservedKey,
		`{}`:                     wire.CodeBadRequest,
	} {
		if status, answer := h.ask("POST", "nodes/n/labels", "", body); status != 400 || code(answer) != want {
			t.Errorf("%s: got %d %s, want %s", body, status, answer, want)
		}
	}
}

func TestTokens(t *testing.T) {
	h := newHouse(t)
	status, body := h.ask("POST", "tokens", "",
		`{"tenant":"platform","uses":2,"ttl":"2h","labels":{"tier":"x"},"gpus":8,"bind_instance":true}`)
	made := decode[api.NewToken](t, body)
	if status != 201 || made.Tenant != "platform" || made.Uses != 2 || *made.GPUs != 8 || !made.BindInstance || made.Labels["tier"] != "x" ||
		!made.ExpiresAt.Equal(h.now.Add(2*time.Hour)) || made.Command != "join with "+made.Token || !strings.HasPrefix(made.Token, made.ID+"_") {
		t.Fatalf("got %d %s", status, body)
	}
	_, body = h.ask("POST", "tokens", "", "")
	plain := decode[api.NewToken](t, body)
	if plain.Tenant != "default" || plain.Uses != 1 || plain.GPUs != nil || !plain.ExpiresAt.Equal(h.now.Add(time.Hour)) {
		t.Errorf("the defaults are %s", body)
	}
	_, body = h.ask("GET", "tokens", "", "")
	if strings.Contains(string(body), made.Token) {
		t.Error("a list shows a whole token")
	}
	if list := decode[api.TokenList](t, body); len(list.Tokens) != 2 || list.Tokens[0].Status != "live" ||
		list.Tokens[0].CreatedBy != "operator:socket" {
		t.Errorf("got %s", body)
	}
	if status, body := h.ask("DELETE", "tokens/"+made.ID, "", ""); status != 200 {
		t.Errorf("revoke: %d %s", status, body)
	}
	h.now = h.now.Add(time.Hour)
	_, body = h.ask("GET", "tokens?all=true", "", "")
	statuses := map[string]string{}
	for _, k := range decode[api.TokenList](t, body).Tokens {
		statuses[k.ID] = k.Status
	}
	if statuses[made.ID] != "revoked" || statuses[plain.ID] != "expired" {
		t.Errorf("got %v", statuses)
	}
	_, body = h.ask("GET", "tokens?tenant=platform&all=true", "", "")
	if list := decode[api.TokenList](t, body); len(list.Tokens) != 1 {
		t.Errorf("of one tenant: %s", body)
	}
	if status, body := h.ask("DELETE", "tokens/mse_nothere", "", ""); status != 404 || code(body) != wire.CodeNotFound {
		t.Errorf("unknown: %d %s", status, body)
	}
}

func TestPSK(t *testing.T) {
	h := newHouse(t)
	_, body := h.ask("GET", "psk", "", "")
	if string(body) != "{\"psks\":[]}\n" {
		t.Errorf("none: %s", body)
	}
	status, body := h.ask("POST", "psk", "", `{"generate":true}`)
	first := decode[api.NewPSK](t, body)
	if status != 201 || len(first.Secret) < 20 || !strings.HasPrefix(first.ID, "psk-") {
		t.Fatalf("got %d %s", status, body)
	}
	status, body = h.ask("POST", "psk/rotate", "", `{"secret":"correct horse battery staple"}`)
	second := decode[api.NewPSK](t, body)
	if status != 201 || second.Secret != "" || second.ID == first.ID {
		t.Errorf("rotate: %d %s", status, body)
	}
	if status, body := h.ask("POST", "psk/rotate", "", `{"generate":true}`); status != 409 || code(body) != wire.CodePSKLimit {
		t.Errorf("a third: %d %s", status, body)
	}
	if status, body := h.ask("DELETE", "psk?keep="+second.ID, "", ""); status != 200 {
		t.Errorf("clear: %d %s", status, body)
	}
	_, body = h.ask("GET", "psk", "", "")
	if list := decode[api.PSKList](t, body); len(list.PSKs) != 1 || list.PSKs[0].ID != second.ID {
		t.Errorf("left: %s", body)
	}
	for in, want := range map[string]string{
		`{}`:                               wire.CodeBadRequest,
		`{"generate":true,"secret":"abc"}`: wire.CodeBadRequest,
		`{"secret":"short"}`:               wire.CodeWeakSecret,
	} {
		for _, path := range []string{"psk", "psk/rotate"} {
			if status, body := h.ask("POST", path, "", in); status != 400 || code(body) != want {
				t.Errorf("%s %s: got %d %s", path, in, status, body)
			}
		}
	}
	if status, body := h.ask("DELETE", "psk?keep=psk-ffffffff", "", ""); status != 404 {
		t.Errorf("keep an unknown one: %d %s", status, body)
	}
}

func TestEvents(t *testing.T) {
	h := newHouse(t)
	for i := range 4 {
		h.now = h.now.Add(time.Minute)
		h.node(fmt.Sprint("n", i), "platform", "")
	}
	for query, want := range map[string]string{
		"":                            "n3 n2 n1 n0",
		"?limit=1":                    "n3",
		"?after=0":                    "n0 n1 n2 n3",
		"?after=2":                    "n2 n3",
		"?before=2":                   "n0",
		"?node=n1":                    "n1",
		"?node=id-n1":                 "n1",
		"?kind=node.drained":          "",
		"?security=true":              "",
		"?tenant=research":            "",
		"?since=2026-11-21T10:03:00Z": "n3 n2",
		"?since=36500d":               "n3 n2 n1 n0",
	} {
		status, body := h.ask("GET", "events"+query, "", "")
		var names []string
		for _, e := range decode[api.EventList](t, body).Events {
			names = append(names, e.Node)
		}
		if got := strings.Join(names, " "); status != 200 || got != want {
			t.Errorf("%s: got %d %q, want %q", query, status, got, want)
		}
	}
}
