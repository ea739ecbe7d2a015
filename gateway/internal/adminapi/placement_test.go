package adminapi_test

import (
	"encoding/json"
	"strings"
	"testing"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/placement"
	"muster/gateway/internal/view/hardware"
	slots "muster/store/placement"
)

// TestPlacementRefusals: what the routes about placement refuse before the service is asked. The house has no such service.
func TestPlacementRefusals(t *testing.T) {
	h := newHouse(t)
	all := h.account("all", "", api.ScopePlacementRead, api.ScopePlacementWrite, api.ScopeAllocationsWrite)
	one := h.account("one", "lab", api.ScopePlacementRead, api.ScopePlacementWrite, api.ScopeAllocationsWrite)
	psk := decode[api.NewPSK](t, second(h.ask("POST", "psk", "", `{"generate":true}`))).Secret
	token := decode[api.NewToken](t, second(h.ask("POST", "tokens", "", ""))).Token
	for name, c := range map[string]struct {
		method, path, token, body string
		status                    int
		code, says                string
	}{
		"a parameter that is none":    {"GET", "slots?colour=red", all, "", 400, wire.CodeBadRequest, "selector, node, state, sku, tenant"},
		"a number that is none":       {"GET", "allocations?limit=1001", all, "", 400, wire.CodeBadRequest, "no number from 1 to 1000"},
		"a parameter of none":         {"GET", "profiles?all=1", all, "", 400, wire.CodeBadRequest, "it takes no parameters"},
		"a parameter beside a body":   {"POST", "allocations?sku=x", all, "{}", 400, wire.CodeBadRequest, "it takes no parameters"},
		"a field that is none":        {"POST", "allocations", all, `{"gpus":1}`, 400, wire.CodeBadRequest, "sku, gpu, count, selector"},
		"a field of another type":     {"POST", "allocations", all, `{"max_price":"2"}`, 400, wire.CodeBadRequest, "it takes a number"},
		"a field of the user":         {"POST", "allocations", all, `{"user":{"shell":"x"}}`, 400, wire.CodeBadRequest, "shell"},
		"no object":                   {"POST", "slots/decide", all, `[]`, 400, wire.CodeBadRequest, "is not a JSON object"},
		"a body for a release":        {"POST", "allocations/a/release", all, `{"force":true}`, 400, wire.CodeBadRequest, "force"},
		"a token in a note":           {"POST", "allocations", all, `{"note":"TOKEN"}`, 400, wire.CodeBadRequest, "revoke it"},
		"a token in a profile":        {"POST", "profiles", all, `{"about":"TOKEN"}`, 400, wire.CodeBadRequest, "revoke it"},
		"a PSK in a profile":          {"POST", "profiles", all, `{"about":"PSK"}`, 400, wire.CodePlaintextSecret, "muster psk rotate"},
		"a PSK in a check":            {"POST", "nodes/n/check", all, `{"command":["PSK"]}`, 400, wire.CodePlaintextSecret, "muster psk rotate"},
		"another tenant's slots":      {"GET", "slots?tenant=other", one, "", 403, wire.CodeForbidden, "for the tenant lab only"},
		"another tenant's quota":      {"GET", "quotas?tenant=other", one, "", 403, wire.CodeForbidden, "for the tenant lab only"},
		"for another tenant":          {"POST", "allocations", one, `{"tenant":"other"}`, 403, wire.CodeForbidden, "for the tenant lab only"},
		"a profile by a tenant":       {"POST", "profiles", one, `{}`, 403, wire.CodeForbidden, "an account of all tenants"},
		"a rule by a tenant":          {"PUT", "slot-rules/spot", one, `{}`, 403, wire.CodeForbidden, "an account of all tenants"},
		"the rules for a tenant":      {"GET", "slot-rules", one, "", 403, wire.CodeForbidden, "an account of all tenants"},
		"its own quota":               {"PUT", "quotas/lab", one, `{"gpus":99}`, 403, wire.CodeForbidden, "an account of all tenants"},
		"a method that there is not":  {"DELETE", "allocations/a", all, "", 405, wire.CodeMethodNotAllowed, ""},
		"a body larger than the rest": {"POST", "profiles", all, strings.Repeat("x", wire.MaxBody+1), 413, wire.CodeBodyTooLarge, ""},
	} {
		body := strings.NewReplacer("TOKEN", token, "PSK", psk).Replace(c.body)
		status, answer := h.ask(c.method, c.path, c.token, body)
		if status != c.status || code(answer) != c.code || !strings.Contains(string(answer), c.says) {
			t.Errorf("%s: %d %s", name, status, answer)
		}
	}
}

// TestTagsAtOnce: a list by tags is whole right after the start, before placement has gone round.
func TestTagsAtOnce(t *testing.T) {
	h := newHouse(t)
	h.node("tagged", "platform", oneGPU)
	h.node("plain", "platform", oneGPU)
	seen := wire.Evidence{Facts: wire.Facts{Accelerators: []wire.AcceleratorID{{UUID: "GPU-1", Name: "NVIDIA H100 80GB HBM3"}}}}
	body, err := json.Marshal(seen)
	if err == nil {
		err = slots.New(h.store.Records()).PutEvidence(t.Context(), slots.Evidence{Task: wire.NewTaskID(), NodeID: "id-tagged", At: h.clock(),
			Current: true, Body: string(body)}, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	h.api.Placement, err = placement.Open(t.Context(), placement.Config{Config: h.api.Placement.Config})
	if err != nil {
		t.Fatal(err)
	}
	tag := hardware.Tags(seen.Facts)[0].Name
	for query, want := range map[string]string{"tag%3D" + tag: "tagged", "tag!%3D" + tag: "plain"} {
		status, body := h.ask("GET", "nodes?selector="+query, "", "")
		if page := decode[api.NodePage](t, body); status != 200 || page.Total != 1 || page.Nodes[0].Name != want {
			t.Errorf("%s: %d %s", query, status, body)
		}
	}
}
