package adminapi_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/trust"
	"muster/store"
)

// TestSecrets: a secret is set, replaced, listed and deleted. Its value is kept for tasks, and stands in no answer and in no event.
func TestSecrets(t *testing.T) {
	h := newHouse(t)
	const value = "correct-horse-battery"
	status, body := h.ask("PUT", "secrets/registry", "", `{"value":"ada:`+value+`"}`)
	if made := decode[api.Secret](t, body); status != 201 || made.Name != "registry" || made.Tenant != "default" ||
		made.ChangedBy != "operator:socket" || !made.CreatedAt.Equal(h.now) {
		t.Fatalf("got %d %s", status, body)
	}
	h.now = h.now.Add(time.Hour)
	said := string(body)
	status, body = h.ask("PUT", "secrets/registry?tenant=default", "", `{"value":"bob:`+value+`"}`)
	if set := decode[api.Secret](t, body); status != 200 || !set.CreatedAt.Equal(h.now.Add(-time.Hour)) || !set.ChangedAt.Equal(h.now) {
		t.Errorf("got %d %s", status, body)
	}
	kept, err := h.store.LentSecretValue(t.Context(), "default", "registry")
	if err != nil || string(kept) != "bob:"+value {
		t.Errorf("kept is %q, %v", kept, err)
	}
	said += string(body)
	_, body = h.ask("GET", "secrets", "", "")
	if list := decode[api.SecretList](t, body); len(list.Secrets) != 1 || list.Secrets[0].Name != "registry" {
		t.Errorf("got %s", body)
	}
	said += string(body)
	if status, body := h.ask("DELETE", "secrets/registry", "", ""); status != 200 {
		t.Errorf("got %d %s", status, body)
	}
	if status, body := h.ask("DELETE", "secrets/registry", "", ""); status != 404 || code(body) != wire.CodeNotFound {
		t.Errorf("once more: %d %s", status, body)
	}
	if _, body := h.ask("GET", "secrets", "", ""); string(body) != "{\"secrets\":[]}\n" {
		t.Errorf("none: %s", body)
	}
	events, err := h.store.Events(t.Context(), store.EventQuery{Security: true, Ascending: true})
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, e := range events {
		kinds = append(kinds, e.Kind)
		if e.Kind != "admin.refused" && (e.Tenant != "default" || e.Detail["secret"] != "registry") {
			t.Errorf("the log has %+v", e)
		}
	}
	if got := strings.Join(kinds, " "); got != "secret.set secret.set secret.deleted admin.refused" {
		t.Errorf("the log has %s", got)
	}
	if strings.Contains(said+fmt.Sprint(events), value) {
		t.Errorf("a value was shown: %s %v", said, events)
	}
}

// TestSecretsOfTenants: an account of one tenant has secrets of its own, also under a name that another tenant uses.
func TestSecretsOfTenants(t *testing.T) {
	h := newHouse(t)
	ours := h.account("ours", "platform", api.ScopeSecretsWrite)
	theirs := h.account("theirs", "research", api.ScopeSecretsWrite)
	for _, c := range []struct {
		method, path, token, body string
		status                    int
	}{
		{"PUT", "secrets/key", ours, `{"value":"one"}`, 201},
		{"GET", "secrets", theirs, "", 200},
		{"DELETE", "secrets/key", theirs, "", 404},
		{"PUT", "secrets/key", theirs, `{"value":"two"}`, 201},
		{"PUT", "secrets/key?tenant=platform", theirs, `{"value":"two"}`, 403},
		{"GET", "secrets?tenant=platform", theirs, "", 403},
		{"DELETE", "secrets/key?tenant=platform", theirs, "", 403},
	} {
		status, body := h.ask(c.method, c.path, c.token, c.body)
		if status != c.status || c.token == theirs && status < 300 && strings.Contains(string(body), "platform") {
			t.Errorf("%s %s: got %d %s, want %d", c.method, c.path, status, body, c.status)
		}
	}
	if value, err := h.store.LentSecretValue(t.Context(), "platform", "key"); err != nil || string(value) != "one" {
		t.Errorf("platform's is %q, %v", value, err)
	}
	_, body := h.ask("GET", "secrets", "", "")
	if list := decode[api.SecretList](t, body); len(list.Secrets) != 2 {
		t.Errorf("all tenants: %s", body)
	}
}

func TestSecretsRefused(t *testing.T) {
	h := newHouse(t)
	long := strings.Repeat("x", api.MaxSecret+1)
	for _, c := range []struct{ path, body, code string }{
		{"secrets/a", `{}`, wire.CodeBadRequest},
		{"secrets/a", `{"value":""}`, wire.CodeBadRequest},
		{"secrets/a", `{"value":7}`, wire.CodeBadRequest},
		{"secrets/a", `{"value":"x\u0000y"}`, wire.CodeBadRequest},
		{"secrets/a", `{"value":"` + long + `"}`, wire.CodeBadRequest},
		{"secrets/a%2Fb", `{"value":"x"}`, wire.CodeBadName},
		{"secrets/-a", `{"value":"x"}`, wire.CodeBadName},
		{"secrets/" + long[:64], `{"value":"x"}`, wire.CodeBadName},
		{"secrets/a?tenant=b%2Fc", `{"value":"x"}`, wire.CodeBadRequest},
		{"secrets/a?of=b", `{"value":"x"}`, wire.CodeBadRequest},
	} {
		if status, body := h.ask("PUT", c.path, "", c.body); status != 400 || code(body) != c.code {
			t.Errorf("%s %.40s: got %d %.200s, want %s", c.path, c.body, status, body, c.code)
		}
	}
	if status, body := h.ask("PUT", "secrets/a", "", `{"value":"`+long[1:]+`"}`); status != 201 {
		t.Errorf("the longest: %d %.200s", status, body)
	}
}

// TestAddKey: an operator's key is added over the API, and dropped like the others.
func TestAddKey(t *testing.T) {
	h := newHouse(t)
	const key = "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=" // RFC 8032 section 7.1, test 1
	status, body := h.ask("POST", "keys", "", `{"role":"task","public_key":"`+key+`"}`)
	if change := decode[trust.TrustChange](t, body); status != 200 || !change.Published || change.Number != 2 {
		t.Fatalf("got %d %s", status, body)
	}
	_, body = h.ask("GET", "keys", "", "")
	var id string
	for _, k := range decode[trust.CA](t, body).Keys {
		if k.Role == "task" && !k.Online {
			id = k.ID
		}
	}
	if status, body := h.ask("DELETE", "keys/"+id, "", ""); id == "" || status != 200 {
		t.Errorf("drop %q: %d %s", id, status, body)
	}
	for in, want := range map[string]string{
		`{}`: wire.CodeBadRequest,
		`{"role":"trust","public_key":"` + key + `"}`: wire.CodeBadRequest,
		`{"role":"task","public_key":"x"}`:            wire.CodeBadRequest,
	} {
		if status, body := h.ask("POST", "keys", "", in); status != 400 || code(body) != want {
			t.Errorf("%s: got %d %s", in, status, body)
		}
	}
}
