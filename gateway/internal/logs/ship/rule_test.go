package ship_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/agent/wire"
	"muster/gateway/internal/logs/ship"
	"muster/store"
)

// TestRules: a rule that cannot work is refused with the reason; its secret is in its requests and nowhere else; a tenant sees its own.
func TestRules(t *testing.T) {
	h := newHouse(t)
	good := ship.Request{Name: "x", To: "https://loki.example", Sources: []string{"agent"}}
	for what, change := range map[string]func(*ship.Request){
		"rule's name":  func(q *ship.Request) { q.Name = "../x" },
		"sources":      func(q *ship.Request) { q.Sources = nil },
		"source":       func(q *ship.Request) { q.Sources = []string{"unit:-x"} },
		"rate":         func(q *ship.Request) { q.BytesPerSecond = 5 },
		"no URL":       func(q *ship.Request) { q.To = "" },
		"can go":       func(q *ship.Request) { q.To = "ftp://loki.example" },
		"to which":     func(q *ship.Request) { q.To = "https://loki.example/?a=b" },
		"user in it":   func(q *ship.Request) { q.To = "https://u:p@loki.example" },
		"plain HTTP":   func(q *ship.Request) { q.To = "http://loki.example"; q.Auth.Bearer = "t" },
		"own machine":  func(q *ship.Request) { q.To = "https://127.0.0.1"; q.Tenant = "a" },
		"two secrets":  func(q *ship.Request) { q.Auth.Bearer = "t"; q.Auth.Basic = "u:p" },
		"PASSWORD":     func(q *ship.Request) { q.Auth.Basic = "u" },
		"one word":     func(q *ship.Request) { q.Auth.Bearer = "a b" },
		"Loki":         func(q *ship.Request) { q.Auth.Org = "a b" },
		"certificate":  func(q *ship.Request) { q.Auth.CA = "x" },
		"certificates": func(q *ship.Request) { q.Auth.CA = strings.Repeat("x", 300<<10) },
		"selector":     func(q *ship.Request) { q.Selector = "==" },
		"tenant":       func(q *ship.Request) { q.Tenant = "no tenant" },
	} {
		q := good
		change(&q)
		if err := h.desk.Put(t.Context(), q, "", operator); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
	good.Auth.Bearer = "token-9f8e7d"
	h.rule(good)
	good.Auth.Bearer = ""
	h.rule(good) // it keeps its secret
	if v := h.view("x"); v.To != "https://loki.example/loki/api/v1/push" || v.Auth != "bearer" {
		t.Errorf("%+v", v)
	}
	good.To = "https://other.example"
	h.rule(good)
	if v := h.view("x"); v.Auth != "none" {
		t.Error("a secret goes to another address")
	}
	if err := h.desk.Put(t.Context(), good, "a", operator); code(err) != wire.CodeAlreadyThere {
		t.Errorf("a tenant takes another's name: %v", err)
	}
	if err := h.desk.Drop(t.Context(), "x", "a", operator); code(err) != wire.CodeNotFound || len(h.desk.Rules("a")) != 0 {
		t.Errorf("a tenant drops another's rule: %v", err)
	}
	if _, err := h.desk.Test(t.Context(), "x", "a", operator); code(err) != wire.CodeNotFound {
		t.Errorf("a tenant tests another's rule: %v", err)
	}
	h.must(h.desk.Drop(t.Context(), "x", "", operator))
	if err := h.desk.Drop(t.Context(), "x", "", operator); code(err) != wire.CodeNotFound {
		t.Errorf("a second time: %v", err)
	}
	events, err := h.store.Events(t.Context(), store.EventQuery{Limit: 1000})
	h.must(err)
	files, err := filepath.Glob(filepath.Join(h.path, "muster.db*"))
	h.must(err)
	said := fmt.Sprintf("%+v %+v %s", events, h.desk.Rules(""), h.said)
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
	h.rule(ship.Request{To: l.URL})
	_, err := h.take("gpu-1", h.batch(1, "one"))
	h.must(err)
	h.must(h.desk.Drop(t.Context(), "prod", "", operator))
	if taken, err := h.take("gpu-1", h.batch(2, "two")); err != nil || taken.Next != 3 || h.desk.Wanted("n-gpu-1", nil) != nil {
		t.Errorf("%+v, %v", taken, err)
	}
	if _, err := os.Stat(filepath.Join(h.path, "logs", "prod")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the buffer: %v", err)
	}
}

// TestOtherTenant: a rule does not become one of another tenant, whose accounts could send the lines that wait in it to themselves.
func TestOtherTenant(t *testing.T) {
	h := newHouse(t)
	h.rule(ship.Request{To: "https://192.0.2.1"})
	narrow := ship.Request{Name: "prod", Tenant: "a", To: "https://192.0.2.1", Sources: []string{wire.LogAgent}}
	if err := h.desk.Put(t.Context(), narrow, "", operator); code(err) != wire.CodeBadRequest || h.view("prod").Tenant != "" {
		t.Errorf("%v, %+v", err, h.view("prod"))
	}
}
