package ship_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/store"
)

// TestRules: a rule that cannot work is refused with the reason; its secret is in its requests and nowhere else; a tenant sees its own.
func TestRules(t *testing.T) {
	h := newHouse(t)
	good := api.LogShippingRequest{To: "https://loki.example", Sources: []string{"agent"}}
	for what, change := range map[string]func(*api.LogShippingRequest){
		"sources":      func(q *api.LogShippingRequest) { q.Sources = nil },
		"source":       func(q *api.LogShippingRequest) { q.Sources = []string{"unit:-x"} },
		"rate":         func(q *api.LogShippingRequest) { q.BytesPerSecond = 5 },
		"no URL":       func(q *api.LogShippingRequest) { q.To = "" },
		"can go":       func(q *api.LogShippingRequest) { q.To = "ftp://loki.example" },
		"to which":     func(q *api.LogShippingRequest) { q.To = "https://loki.example/?a=b" },
		"user in it":   func(q *api.LogShippingRequest) { q.To = "https://u:p@loki.example" },
		"plain HTTP":   func(q *api.LogShippingRequest) { q.To = "http://loki.example"; q.Bearer = "t" },
		"own machine":  func(q *api.LogShippingRequest) { q.To = "https://127.0.0.1"; q.Tenant = "a" },
		"two secrets":  func(q *api.LogShippingRequest) { q.Bearer = "t"; q.Basic = "u:p" },
		"PASSWORD":     func(q *api.LogShippingRequest) { q.Basic = "u" },
		"one word":     func(q *api.LogShippingRequest) { q.Bearer = "a b" },
		"Loki":         func(q *api.LogShippingRequest) { q.TenantID = "a b" },
		"certificate":  func(q *api.LogShippingRequest) { q.CA = "x" },
		"certificates": func(q *api.LogShippingRequest) { q.CA = strings.Repeat("x", 300<<10) },
		"selector":     func(q *api.LogShippingRequest) { q.Selector = "==" },
		"tenant":       func(q *api.LogShippingRequest) { q.Tenant = "no tenant" },
	} {
		q := good
		change(&q)
		if err := h.service.Put(t.Context(), "x", q, "", operator); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := h.service.Put(t.Context(), "../x", good, "", operator); code(err) != wire.CodeBadName {
		t.Errorf("a bad name: %v", err)
	}
	good.Bearer = "token-9f8e7d"
	h.rule("x", good)
	good.Bearer = ""
	h.rule("x", good) // it keeps its secret
	if v := h.view("x"); v.To != "https://loki.example/loki/api/v1/push" || v.Auth != "bearer" {
		t.Errorf("%+v", v)
	}
	good.To = "https://other.example"
	h.rule("x", good)
	if v := h.view("x"); v.Auth != "none" {
		t.Error("a secret goes to another address")
	}
	if err := h.service.Put(t.Context(), "x", good, "a", operator); code(err) != wire.CodeAlreadyThere {
		t.Errorf("a tenant takes another's name: %v", err)
	}
	if err := h.service.Drop(t.Context(), "x", "a", operator); code(err) != wire.CodeNotFound || len(h.service.Rules("a")) != 0 {
		t.Errorf("a tenant drops another's rule: %v", err)
	}
	if _, err := h.service.Test(t.Context(), "x", "a", operator); code(err) != wire.CodeNotFound {
		t.Errorf("a tenant tests another's rule: %v", err)
	}
	h.must(h.service.Drop(t.Context(), "x", "", operator))
	if err := h.service.Drop(t.Context(), "x", "", operator); code(err) != wire.CodeNotFound {
		t.Errorf("a second time: %v", err)
	}
	events, err := h.store.Events(t.Context(), store.EventQuery{Limit: 1000})
	h.must(err)
	files, err := filepath.Glob(filepath.Join(h.path, "muster.db*"))
	h.must(err)
	said := fmt.Sprintf("%+v %+v %s", events, h.service.Rules(""), h.said)
	for _, file := range files {
		raw, err := os.ReadFile(file)
		h.must(err)
		said += string(raw)
	}
	if strings.Contains(said, "9f8e7d") {
		t.Error("a secret stands somewhere")
	}
}

// TestDeleted: with a rule go its buffer and its place in what nodes are asked for; late batches do not bring it back.
func TestDeleted(t *testing.T) {
	h := newHouse(t)
	l := newLoki(t, h.clock)
	h.rule("prod", api.LogShippingRequest{To: l.URL})
	_, err := h.take("gpu-1", h.batch(1, "one"))
	h.must(err)
	h.must(h.service.Drop(t.Context(), "prod", "", operator))
	if taken, err := h.take("gpu-1", h.batch(2, "two")); err != nil || taken.Next != 3 || h.service.Wanted("n-gpu-1", nil) != nil {
		t.Errorf("%+v, %v", taken, err)
	}
	if _, err := os.Stat(filepath.Join(h.path, "logs", "prod")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the buffer: %v", err)
	}
}

// TestOtherTenant: a rule does not become one of another tenant, whose accounts could send the lines that wait in it to themselves.
func TestOtherTenant(t *testing.T) {
	h := newHouse(t)
	h.rule("prod", api.LogShippingRequest{To: "https://192.0.2.1"})
	narrow := api.LogShippingRequest{Tenant: "a", To: "https://192.0.2.1", Sources: []string{wire.LogAgent}}
	if err := h.service.Put(t.Context(), "prod", narrow, "", operator); code(err) != wire.CodeBadRequest || h.view("prod").Tenant != "" {
		t.Errorf("%v, %+v", err, h.view("prod"))
	}
}
