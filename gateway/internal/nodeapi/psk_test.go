package nodeapi_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"muster/agent/wire"
	"muster/store"
)

// TestPSKInARequest: a PSK in a field that is stored and shown is refused and recorded, whichever form it has. It is stored nowhere. The
// same holds for a PSK in a path, a query or a header.
func TestPSKInARequest(t *testing.T) {
	for name, chosen := range map[string]string{"generated": "", "chosen": "correct-horse battery staple",
		"escaped": `quote"back\slash größer`,
		"base64":  "q/8xKz3+Jd0aV7//mP2s/TgH9wYcNb4R"} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, nil)
			psk := chosen
			id := ""
			var err error
			if chosen == "" {
				psk, id, err = s.bootstrap.GeneratePSK(t.Context(), operator)
			} else {
				id, err = s.bootstrap.SetPSK(t.Context(), psk, operator)
			}
			if err != nil {
				t.Fatal(err)
			}
			s.pskInBodies(psk)
			s.pskElsewhere(psk)
			events := s.events("bootstrap.refused")
			for _, e := range events {
				if e.Outcome != wire.CodePlaintextSecret || e.Detail["token"] != id {
					t.Errorf("event %+v", e)
				}
			}
			if kept, err := json.Marshal(events); err != nil || len(events) < 14 || strings.Contains(string(kept), psk) ||
				strings.Contains(string(kept), psk[5:12]) {
				t.Errorf("%d events: %s", len(events), kept)
			}
			if nodes, err := s.fleet.Nodes(t.Context(), store.NodeQuery{}); err != nil || len(nodes.Nodes) != 0 {
				t.Errorf("%d nodes, %v", len(nodes.Nodes), err)
			}
		})
	}
}

func (s *site) pskInBodies(psk string) {
	s.t.Helper()
	for name, change := range map[string]func(*wire.RegisterRequest){
		"name":         func(q *wire.RegisterRequest) { q.Name = psk },
		"label":        func(q *wire.RegisterRequest) { q.Labels = map[string]string{"a": psk} },
		"label's key":  func(q *wire.RegisterRequest) { q.Labels = map[string]string{psk: "a"} },
		"provider":     on(psk, "1"),
		"instance":     on("vast_ai", psk),
		"version":      func(q *wire.RegisterRequest) { q.Agent.Version = psk },
		"architecture": func(q *wire.RegisterRequest) { q.Agent.Arch = psk },
		"hardware": func(q *wire.RegisterRequest) {
			q.Hardware, _ = json.Marshal(map[string]any{"gpus": []any{map[string]string{"name": psk}}})
		},
	} {
		q := s.application("box", newKey(s.t))
		change(&q)
		a := s.register(s.token(nil), encode(s.t, q))
		if s.want(name, a, http.StatusBadRequest, wire.CodePlaintextSecret); !strings.Contains(string(a.body), "muster psk rotate") ||
			strings.Contains(string(a.body), psk) {
			s.t.Errorf("%s: %s", name, a.body)
		}
	}
	body := encode(s.t, map[string]string{"name": psk})
	stranger := credential{"mse_nobody123456", make([]byte, 32)}
	r := newRequest(s.t, http.MethodPost, s.plain.URL+wire.PathRegister, body)
	r.Header.Set("Authorization", `Muster credential="`+stranger.id+`", mac="`+base64.StdEncoding.EncodeToString(stranger.key)+`"`)
	s.want("by an unknown credential", s.do(http.DefaultClient, r), http.StatusBadRequest, wire.CodePlaintextSecret)
	c := s.token(nil)
	wrong := func(r *http.Request) {
		r.Header.Set("Authorization", `Muster credential="`+c.id+`", mac="`+base64.StdEncoding.EncodeToString(stranger.key)+`"`)
	}
	s.want("beside a wrong proof", s.register(c, encode(s.t, map[string]string{"nonce": newNonce(), "name": psk}), wrong),
		http.StatusUnauthorized, wire.CodeBadMAC)
}

func (s *site) pskElsewhere(psk string) {
	s.t.Helper()
	for name, c := range map[string]struct{ method, path, header, value string }{
		"a path":            {"GET", "/nodes/" + url.PathEscape(psk), "", ""},
		"an escaped path":   {"GET", "/x/" + url.PathEscape(url.PathEscape(psk)), "", ""},
		"a path as it is":   {"GET", "/nodes/" + strings.NewReplacer(" ", "%20", `"`, "%22", `\`, "%5C").Replace(psk) + "/heartbeat", "", ""},
		"a form's query":    {"GET", "/healthz?a=b&psk=" + url.QueryEscape(psk) + "&c=d", "", ""},
		"a bearer to join":  {"POST", wire.PathRegister, "Authorization", "Bearer " + psk},
		"a password, again": {"POST", wire.PathRegister, "Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte("muster:"+psk))},
		"a query":           {"GET", "/healthz?psk=" + strings.ReplaceAll(url.QueryEscape(psk), "+", "%20"), "", ""},
		"a bearer":          {"GET", "/agent", "Authorization", "Bearer " + psk},
		"a basic password":  {"GET", "/agent", "Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte("muster:"+psk))},
		"the trail's":       {"POST", wire.PathRegister, "X-Cluster-Token", psk},
		"the trail's again": {"GET", "/readyz", "X-Cluster-Token", psk},
	} {
		if strings.Contains(c.value, "ö") {
			continue // Go's client sends no such header
		}
		r := newRequest(s.t, c.method, s.plain.URL+c.path, nil)
		if c.header != "" {
			r.Header.Set(c.header, c.value)
		}
		if a := s.do(http.DefaultClient, r); a.code() != wire.CodePlaintextSecret || strings.Contains(string(a.body), psk) {
			s.t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	for _, path := range []string{"/dc/msk_1", "/x/" + psk[:19]} {
		if a := s.get(strings.ReplaceAll(path, " ", "%20")); a.status != http.StatusNotFound {
			s.t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
}
