package adminapi_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/trust"
	"muster/gateway/internal/client"
	"muster/store"
)

func (h *house) dial() *client.Client {
	h.t.Helper()
	c, err := client.Dial(h.t.Context(), client.Target{DataDir: h.onSocket()})
	if err != nil {
		h.t.Fatal(err)
	}
	return c
}

// TestFollowTask: what a task writes arrives while it runs, and the client gets the task when it has ended.
func TestFollowTask(t *testing.T) {
	h := newHouse(t)
	node := h.enrolled("n", "platform")
	made := h.give("n", wire.TaskDiagCollect, "{}")
	c := h.dial()
	came := make(chan string)
	type end struct {
		task api.Task
		err  error
	}
	ended := make(chan end, 1)
	go func() {
		task, err := c.FollowTask(t.Context(), made.ID, 0, func(_ int64, data []byte) error {
			came <- string(data)
			return nil
		})
		ended <- end{task, err}
	}()
	h.begin(node)
	offset := 0
	for _, text := range []string{"first\n", "second\n"} {
		h.writes(node, made.ID, wire.TaskOutput{Offset: int64(offset), Data: []byte(text)})
		offset += len(text)
		if got := <-came; got != text {
			t.Errorf("got %q, want %q", got, text)
		}
	}
	h.finishes(node, made.ID, wire.TaskResult{Status: wire.TaskFailed, Error: "no",
		Output: wire.TaskLog{Head: []byte("first\nsecond\n"), Bytes: 13}})
	if got := <-ended; got.err != nil || got.task.Status != wire.TaskFailed || got.task.Error != "no" ||
		got.task.Output.Head != "first\nsecond\n" {
		t.Errorf("got %+v, %v", got.task, got.err)
	}
	var whole bytes.Buffer
	if err := c.TaskOutput(t.Context(), made.ID, &whole); err != nil || whole.String() != "first\nsecond\n" {
		t.Errorf("got %q, %v", whole.String(), err)
	}
}

// TestFollowEnds: a gateway that stops does not wait for those who read what a task writes. Their answers do not look whole.
func TestFollowEnds(t *testing.T) {
	h := newHouse(t)
	node := h.enrolled("n", "platform")
	made := h.give("n", wire.TaskDiagCollect, "{}")
	c := h.dial()
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- h.api.Tasks.Run(ctx) }()
	h.begin(node)
	h.writes(node, made.ID, wire.TaskOutput{Data: []byte("first\n")})
	follow := func() *http.Response {
		t.Helper()
		response, err := c.HTTP.Get(c.BaseURL + wire.PrefixAdmin + "tasks/" + made.ID + "/output?follow=true")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { response.Body.Close() })
		return response
	}
	live := follow()
	first := make([]byte, len("first\n"))
	if _, err := io.ReadFull(live.Body, first); err != nil || string(first) != "first\n" {
		t.Fatalf("got %q, %v", first, err)
	}
	stop()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if rest, err := io.ReadAll(live.Body); !errors.Is(err, io.ErrUnexpectedEOF) || len(rest) > 0 {
		t.Errorf("got %q, %v", rest, err)
	}
	if rest, err := io.ReadAll(follow().Body); !errors.Is(err, io.ErrUnexpectedEOF) || string(rest) != "first\n" {
		t.Errorf("after the stop: got %q, %v", rest, err)
	}
}

// TestClientOfTasks: the calls that a command line makes.
func TestClientOfTasks(t *testing.T) {
	h := newHouse(t)
	h.enrolled("n", "platform")
	c := h.dial()
	ctx := t.Context()
	if _, err := client.Ask[api.Secret](ctx, c, "PUT", api.At(api.PathSecret, "key"), api.ListFilter{Tenant: "platform"},
		api.SecretRequest{Value: "hidden"}); err != nil {
		t.Error(err)
	}
	if list, err := client.Get[api.SecretList](ctx, c, api.PathSecrets, nil); err != nil ||
		len(list.Secrets) != 1 || list.Secrets[0].Tenant != "platform" {
		t.Errorf("got %+v, %v", list, err)
	}
	if err := client.Drop(ctx, c, api.At(api.PathSecret, "key"), api.ListFilter{Tenant: "platform"}); err != nil {
		t.Error(err)
	}
	if err := client.Drop(ctx, c, api.At(api.PathSecret, "key"), api.ListFilter{Tenant: "platform"}); !client.IsNotFound(err) {
		t.Errorf("a secret that is gone: %v", err)
	}
	made, err := client.Send[api.Task](ctx, c, "POST", api.PathTasks, api.NewTask{Node: "n", Type: wire.TaskDiagCollect})
	if err != nil {
		t.Fatal(err)
	}
	page, err := client.Get[api.TaskPage](ctx, c, api.PathTasks, api.TaskFilter{Node: "n", Open: true})
	if err != nil || len(page.Tasks) != 1 || page.Tasks[0].ID != made.ID {
		t.Errorf("got %+v, %v", page, err)
	}
	if canceled, err := client.Send[api.Task](ctx, c, "POST", api.At(api.PathTaskCancel, made.ID), nil); err != nil ||
		canceled.Status != wire.TaskCanceled {
		t.Errorf("got %+v, %v", canceled, err)
	}
	if got, err := c.FollowTask(ctx, made.ID, 0, nil); err != nil || got.Status != wire.TaskCanceled {
		t.Errorf("got %+v, %v", got, err)
	}
	const key = "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=" // RFC 8032 section 7.1, test 1
	if change, err := client.Send[trust.TrustChange](ctx, c, "POST", api.PathKeys, trust.AddKeyRequest{Role: "task",
		PublicKey: key}); err != nil || !change.Published {
		t.Errorf("got %+v, %v", change, err)
	}
}

// TestFollowRevoked: who may not read tasks any more reads no further, whether the account was revoked or has expired.
func TestFollowRevoked(t *testing.T) {
	inBubble(t, func(h *house) {
		node := h.enrolled("n", "platform")
		made := h.give("n", wire.TaskDiagCollect, "{}")
		h.begin(node)
		h.writes(node, made.ID, wire.TaskOutput{Data: []byte("first\n")})
		end := h.now.Add(time.Minute)
		routes := h.routes(false)
		path := "tasks/" + made.ID + "/output?follow=true"
		stays := h.follow(routes, path, h.account("stays", "", "tasks:read"))
		gone := h.follow(routes, path, h.account("gone", "", "tasks:read"))
		early := h.follow(routes, path+"&from=6", h.account("early", "", "tasks:read"))
		short := h.follow(routes, path, h.accountWith(store.Account{Name: "short", Scopes: []string{"tasks:read"}, ExpiresAt: &end}))
		h.ask("DELETE", "accounts/gone", "", "")
		h.ask("DELETE", "accounts/early", "", "")
		stays.hear()
		if !gone.isOver() || !gone.broke || !early.isOver() || early.Code != 401 {
			t.Errorf("after the revocation: over %v, cut %v; the one that had got nothing: over %v, %d", gone.isOver(), gone.broke,
				early.isOver(), early.Code)
		}
		if short.isOver() {
			t.Error("it ended before its account did")
		}
		h.later(2 * time.Minute)
		time.Sleep(16 * time.Second)
		synctest.Wait()
		if !short.isOver() || !short.broke {
			t.Errorf("after the expiry: over %v, cut %v", short.isOver(), short.broke)
		}
		if stays.isOver() {
			t.Error("it ended for an account that is good")
		}
		for _, l := range []*listener{stays, gone, early, short} {
			l.leave()
			<-l.ended
		}
	})
}
