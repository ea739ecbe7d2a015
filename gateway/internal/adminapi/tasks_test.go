package adminapi_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/task"
	"muster/store"
)

// enrolled makes an active node in an enrolment, which can have tasks.
func (h *house) enrolled(name, tenant string) task.Claimer {
	h.t.Helper()
	ctx := h.t.Context()
	c := task.Claimer{NodeID: "id-" + name, Enrolment: "e-" + name, Fingerprint: "print-" + name, Proof: "tls:print-" + name}
	token := store.Token{ID: "mse_" + name, Tenant: tenant, Uses: 1, Key: []byte("k"), CreatedAt: h.now, ExpiresAt: h.now.Add(time.Hour)}
	err := h.store.CreateToken(ctx, token)
	err = errors.Join(err, h.store.Enrol(ctx, store.Enrolment{ID: c.Enrolment, Credential: token.ID, ConsumeToken: true,
		KeyHash: "key-" + name, At: h.now, Node: store.Node{ID: c.NodeID, Name: name, Tenant: tenant, State: wire.StateEnrolled}, NewNode: true,
		Certificate: store.Certificate{Fingerprint: c.Fingerprint, KeyHash: "key-" + name, PublicKey: []byte(name), Chain: "chain",
			NotBefore: h.now, NotAfter: h.now.Add(24 * time.Hour), IssuedAt: h.now}}))
	err = errors.Join(err, h.store.MoveNode(ctx, store.Move{NodeID: c.NodeID, From: wire.StateEnrolled, To: wire.StateActive, At: h.now}))
	if err != nil {
		h.t.Fatal(err)
	}
	return c
}

// give gives a node a task over the API.
func (h *house) give(node, kind, params string) api.Task {
	h.t.Helper()
	status, body := h.ask("POST", "tasks", "", `{"node":"`+node+`","type":"`+kind+`","params":`+params+`}`)
	if status != 201 {
		h.t.Fatalf("got %d %s", status, body)
	}
	return decode[api.Task](h.t, body)
}

// begin lets a node claim its next task and begin with it.
func (h *house) begin(c task.Claimer) wire.TaskPayload {
	h.t.Helper()
	signed, err := h.api.Tasks.Wait(h.t.Context(), c, 0, task.Takes{Tasks: true})
	if err != nil || signed == nil {
		h.t.Fatalf("there is no task for %s: %v", c.NodeID, err)
	}
	payload, _, err := sign.OpenTask(*signed, h.api.Authority.TaskKeys())
	if err == nil {
		_, err = h.api.Tasks.Started(h.t.Context(), c, payload.TaskID)
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return payload
}

// writes lets a node send what its task has written.
func (h *house) writes(c task.Claimer, id string, q wire.TaskOutput) {
	h.t.Helper()
	if _, err := h.api.Tasks.Output(h.t.Context(), c, id, q); err != nil {
		h.t.Fatal(err)
	}
}

// finishes lets a node end a task.
func (h *house) finishes(c task.Claimer, id string, q wire.TaskResult) {
	h.t.Helper()
	q.FinishedAt = h.now
	body, err := json.Marshal(q)
	if err == nil {
		err = h.api.Tasks.Result(h.t.Context(), c, id, body)
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

// TestTask follows a task over the API from its making to its end.
func TestTask(t *testing.T) {
	h := newHouse(t)
	node := h.enrolled("n", "platform")
	id := wire.NewTaskID()
	request := `{"id":"` + id + `","node":"n","type":"diag.collect","params":{"timeout_seconds":9},"expires_seconds":60}`
	status, body := h.ask("POST", "tasks", "", request)
	made := decode[api.Task](t, body)
	if status != 201 || made.ID != id || made.Node != "n" || made.NodeID != "id-n" || made.Tenant != "platform" ||
		made.Status != wire.TaskQueued || made.CreatedBy != "operator:socket" || !made.ExpiresAt.Equal(h.now.Add(time.Minute)) ||
		string(made.Params) != `{"timeout_seconds":9}` {
		t.Fatalf("got %d %s", status, body)
	}
	if status, body := h.ask("POST", "tasks", "", request); status != 200 || decode[api.Task](t, body).ID != id {
		t.Errorf("the same again: %d %s", status, body)
	}
	if payload := h.begin(node); payload.TaskID != id || payload.NodeID != "id-n" || payload.Enrolment != "e-n" {
		t.Errorf("the node got %+v", payload)
	}
	h.writes(node, id, wire.TaskOutput{Data: []byte("one\n")})
	if _, body := h.ask("GET", "tasks/"+id, "", ""); decode[api.Task](t, body).Output.Head != "one\n" {
		t.Errorf("running: %s", body)
	}
	archive := []byte("what was found")
	sum := sha256.Sum256(archive)
	h.writes(node, id, wire.TaskOutput{File: wire.TaskArchive, Data: archive})
	exit := 0
	h.finishes(node, id, wire.TaskResult{Status: wire.TaskCompleted, ExitCode: &exit,
		Output:  wire.TaskLog{Head: []byte("one\n\xff"), Bytes: 5},
		Archive: &wire.TaskFile{Name: "logs.txt", Size: int64(len(archive)), SHA256: hex.EncodeToString(sum[:])},
		Values:  wire.TaskValues{"lines": json.RawMessage("1")}})
	_, body = h.ask("GET", "tasks/"+id, "", "")
	ended := decode[api.Task](t, body)
	if ended.Status != wire.TaskCompleted || *ended.ExitCode != 0 || ended.Output.Head != "one\n\ufffd" || ended.Output.Bytes != 5 ||
		string(ended.Values["lines"]) != "1" || ended.Archive.Name != "logs.txt" || ended.ClaimFingerprint != "print-n" ||
		ended.Proof != node.Proof || ended.FinishedAt == nil {
		t.Errorf("ended: %s", body)
	}
	if status, body := h.ask("GET", "tasks/"+id+"/output", "", ""); status != 200 || string(body) != "one\n\xff" {
		t.Errorf("its output: %d %q", status, body)
	}
	if status, body := h.ask("GET", "tasks/"+id+"/archive", "", ""); status != 200 || string(body) != string(archive) {
		t.Errorf("its file: %d %q", status, body)
	}
	if status, body := h.ask("POST", "tasks/"+id+"/cancel", "", ""); status != 409 || code(body) != wire.CodeTaskFinished {
		t.Errorf("cancel: %d %s", status, body)
	}
}

// TestTaskShape: every field that programs rely on is in a task that nobody has begun.
func TestTaskShape(t *testing.T) {
	h := newHouse(t)
	h.enrolled("n", "platform")
	h.give("n", wire.TaskDiagCollect, "{}")
	_, body := h.ask("GET", "tasks", "", "")
	var page struct{ Tasks []map[string]json.RawMessage }
	if err := json.Unmarshal(body, &page); err != nil || len(page.Tasks) != 1 {
		t.Fatalf("got %s, %v", body, err)
	}
	for key, want := range map[string]string{"node": `"n"`, "node_id": `"id-n"`, "type": `"diag.collect"`, "params": "{}",
		"status": `"queued"`, "exit_code": "null", "error": `""`, "created_by": `"operator:socket"`,
		"output":     `{"head":"","tail":"","bytes":0,"truncated":false}`,
		"created_at": `"2026-11-21T10:00:00Z"`, "expires_at": `"2026-11-21T11:00:00Z"`, "claimed_at": "null", "started_at": "null",
		"finished_at": "null", "claim_fingerprint": `""`, "archive": "null", "values": "{}"} {
		if got := string(page.Tasks[0][key]); got != want {
			t.Errorf("%s is %s, want %s", key, got, want)
		}
	}
	if key := string(page.Tasks[0]["signing_key_id"]); len(key) != 18 {
		t.Errorf("the signing key is %s", key)
	}
}

func TestTasksFilter(t *testing.T) {
	h := newHouse(t)
	h.enrolled("a", "platform")
	b := h.enrolled("b", "research")
	h.give("a", wire.TaskDiagCollect, "{}")
	h.give("b", wire.TaskWorkloadStatus, "{}")
	h.begin(b)
	ended := h.give("a", wire.TaskWorkloadStatus, "{}")
	status, body := h.ask("POST", "tasks/"+ended.ID+"/cancel", "", "{}")
	if status != 200 || decode[api.Task](t, body).Status != wire.TaskCanceled {
		t.Fatalf("cancel: %d %s", status, body)
	}
	for query, want := range map[string]string{
		"":                          "a:canceled b:running a:queued",
		"?node=a":                   "a:canceled a:queued",
		"?node=id-b":                "b:running",
		"?node=none":                "",
		"?type=workload.status":     "a:canceled b:running",
		"?status=queued":            "a:queued",
		"?open=true":                "b:running a:queued",
		"?tenant=research":          "b:running",
		"?limit=2":                  "a:canceled b:running +",
		"?tenant=platform&limit=10": "a:canceled a:queued",
	} {
		status, body := h.ask("GET", "tasks"+query, "", "")
		page := decode[api.TaskPage](t, body)
		var got []string
		for _, one := range page.Tasks {
			got = append(got, one.Node+":"+one.Status)
		}
		if page.Next != "" {
			got = append(got, "+")
			_, body := h.ask("GET", "tasks"+query+"&cursor="+page.Next, "", "")
			if rest := decode[api.TaskPage](t, body); len(rest.Tasks) != 1 || rest.Next != "" {
				t.Errorf("the next page is %s", body)
			}
		}
		if status != 200 || strings.Join(got, " ") != want {
			t.Errorf("%s: got %d %s, want %s", query, status, got, want)
		}
	}
	for _, query := range []string{"?type=rm", "?status=done", "?open=perhaps", "?limit=0", "?cursor=x", "?nodes=a", "?tenant=msa_abc"} {
		if status, body := h.ask("GET", "tasks"+query, "", ""); status != 400 {
			t.Errorf("%s: got %d %s", query, status, body)
		}
	}
}

// TestTasksOfTenants: an account of one tenant gives tasks to nodes of its tenant, and sees those alone.
func TestTasksOfTenants(t *testing.T) {
	h := newHouse(t)
	node := h.enrolled("n", "platform")
	ours := h.account("ours", "platform", api.ScopeAll)
	theirs := h.account("theirs", "research", api.ScopeAll)
	const request = `{"node":"n","type":"diag.collect"}`
	status, body := h.ask("POST", "tasks", ours, request)
	made := decode[api.Task](t, body)
	if status != 201 || made.CreatedBy != "account:ours" {
		t.Fatalf("got %d %s", status, body)
	}
	h.begin(node)
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{"POST", "tasks", request, 404},
		{"POST", "tasks", `{"node":"id-n","type":"diag.collect"}`, 404},
		{"POST", "tasks", `{"id":"` + made.ID + `","node":"n","type":"diag.collect"}`, 409},
		{"GET", "tasks/" + made.ID, "", 404},
		{"POST", "tasks/" + made.ID + "/cancel", "{}", 404},
		{"GET", "tasks/" + made.ID + "/output", "", 404},
		{"GET", "tasks/" + made.ID + "/output?follow=true", "", 404},
		{"GET", "tasks/" + made.ID + "/archive", "", 404},
		{"GET", "tasks?tenant=platform", "", 403},
		{"GET", "tasks", "", 200},
		{"GET", "tasks?node=n", "", 200},
	} {
		status, body := h.ask(c.method, c.path, theirs, c.body)
		empty := string(body) == "{\"tasks\":[],\"next\":\"\"}\n"
		if status != c.status || status == 200 && !empty || strings.Contains(string(body), "platform") {
			t.Errorf("%s %s: got %d %s, want %d", c.method, c.path, status, body, c.status)
		}
	}
	if status, body := h.ask("POST", "tasks/"+made.ID+"/cancel", ours, ""); status != 200 ||
		decode[api.Task](t, body).CancelAskedBy != "account:ours" {
		t.Errorf("cancel: %d %s", status, body)
	}
}

// TestTaskParts: an account with a part of tasks:write gives and cancels tasks of that type alone, also signed ones.
func TestTaskParts(t *testing.T) {
	h := newHouse(t)
	h.enrolled("n", "platform")
	key := h.operatorKey()
	part := h.account("part", "", api.ScopePart(api.ScopeTasksWrite, wire.TaskDiagCollect))
	other := h.give("n", wire.TaskWorkloadStatus, "{}")
	status, body := h.ask("POST", "tasks", part, `{"node":"n","type":"diag.collect"}`)
	own := decode[api.Task](t, body)
	if status != 201 {
		t.Fatalf("got %d %s", status, body)
	}
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{"POST", "tasks", `{"node":"n","type":"workload.status"}`, 403},
		{"POST", "tasks", `{"node":"none","type":"workload.status"}`, 403},
		{"POST", "tasks", h.signedTask(key, "workload.status", nil), 403},
		{"POST", "tasks", h.signedTask(key, "diag.collect", nil), 201},
		{"POST", "tasks/" + other.ID + "/cancel", "", 403},
		{"POST", "tasks/" + other.ID + "/retry", "", 403},
		{"POST", "tasks/" + own.ID + "/retry", "", 409},
		{"POST", "tasks/" + own.ID + "/cancel", "", 200},
		{"GET", "tasks", "", 403},
		{"GET", "tasks/" + own.ID, "", 403},
		{"GET", "tasks/" + own.ID + "/output", "", 403},
		{"GET", "tasks/" + own.ID + "/archive", "", 403},
	} {
		if status, body := h.ask(c.method, c.path, part, c.body); status != c.status {
			t.Errorf("%s %s %.80s: got %d %s, want %d", c.method, c.path, c.body, status, body, c.status)
		}
	}
}

// operatorKey adds a task key to the trust set whose private half only its operator has.
func (h *house) operatorKey() ed25519.PrivateKey {
	h.t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		h.t.Fatal(err)
	}
	if _, err := h.api.Authority.AddKey(h.t.Context(), "task", sign.EncodeKey(public), store.Actor{Name: "test"}); err != nil {
		h.t.Fatal(err)
	}
	return private
}

// signedTask is a request with a task for the node n that was signed elsewhere.
func (h *house) signedTask(key ed25519.PrivateKey, kind string, change func(*wire.TaskPayload)) string {
	h.t.Helper()
	p := wire.TaskPayload{TaskID: wire.NewTaskID(), NodeID: "id-n", Enrolment: "e-n", Type: kind, Params: json.RawMessage("{}"),
		IssuedAt: h.now, ExpiresAt: h.now.Add(time.Hour), Nonce: wire.NewTaskID()}
	if change != nil {
		change(&p)
	}
	raw, err := json.Marshal(p)
	if err != nil {
		h.t.Fatal(err)
	}
	body, err := json.Marshal(api.NewTask{Signed: new(sign.SealTask(key, raw))})
	if err != nil {
		h.t.Fatal(err)
	}
	return string(body)
}

// TestSignedTask: a task that an operator signed is queued as it is, under the operator's key. What is not signed well is refused.
func TestSignedTask(t *testing.T) {
	h := newHouse(t)
	node := h.enrolled("n", "platform")
	key := h.operatorKey()
	_, body := h.ask("GET", "nodes/n", "", "")
	if got := decode[api.Node](t, body).Enrolment; got != "e-n" {
		t.Errorf("a node's enrolment is %q", got)
	}
	good := h.signedTask(key, wire.TaskDiagCollect, nil)
	status, body := h.ask("POST", "tasks", "", good)
	made := decode[api.Task](t, body)
	if status != 201 || made.SigningKeyID != sign.KeyID(key.Public().(ed25519.PublicKey)) {
		t.Fatalf("got %d %s", status, body)
	}
	if status, body := h.ask("POST", "tasks", "", good); status != 200 || decode[api.Task](t, body).ID != made.ID {
		t.Errorf("the same again: %d %s", status, body)
	}
	if payload := h.begin(node); payload.TaskID != made.ID {
		t.Errorf("the node got %+v", payload)
	}
	_, stranger, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	signed := decode[api.NewTask](t, []byte(good)).Signed
	signed.Payload[10] ^= 1
	changed, err := json.Marshal(api.NewTask{Signed: signed})
	if err != nil {
		t.Fatal(err)
	}
	for name, request := range map[string]string{
		"a key that nodes do not believe": h.signedTask(stranger, wire.TaskDiagCollect, nil),
		"one bit changed":                 string(changed),
		"an earlier enrolment":            h.signedTask(key, wire.TaskDiagCollect, func(p *wire.TaskPayload) { p.Enrolment = "e-before" }),
		"another node":                    h.signedTask(key, wire.TaskDiagCollect, func(p *wire.TaskPayload) { p.NodeID = "n" }),
		"expired":                         h.signedTask(key, wire.TaskDiagCollect, func(p *wire.TaskPayload) { p.ExpiresAt = h.now }),
		"too long a life": h.signedTask(key, wire.TaskDiagCollect, func(p *wire.TaskPayload) {
			p.ExpiresAt = h.now.Add(wire.MaxTaskLife + time.Second)
		}),
		"an unknown type": h.signedTask(key, "rm", nil),
		"more beside it":  strings.Replace(good, "{", `{"node":"n",`, 1),
		"a type beside":   strings.Replace(good, "{", `{"type":"diag.collect",`, 1),
	} {
		status, body := h.ask("POST", "tasks", "", request)
		if status < 400 || status == 401 || status >= 500 {
			t.Errorf("%s: got %d %s", name, status, body)
		}
	}
	if _, body := h.ask("GET", "tasks", "", ""); len(decode[api.TaskPage](t, body).Tasks) != 1 {
		t.Errorf("a refused task is on record: %s", body)
	}
}

func TestTasksRefused(t *testing.T) {
	h := newHouse(t)
	h.enrolled("n", "platform")
	h.node("waits", "platform", "")
	enrol := "mse_" + "ab12cd34" + "_" + strings.Repeat("x", 30)
	for _, c := range []struct {
		body   string
		status int
		code   string
	}{
		{``, 400, wire.CodeBadRequest},
		{`{"node":"n"}`, 400, wire.CodeBadRequest},
		{`{"type":"diag.collect"}`, 400, wire.CodeBadRequest},
		{`{"node":"n","type":"shell"}`, 400, wire.CodeTaskTypeUnknown},
		{`{"node":"none","type":"diag.collect"}`, 404, wire.CodeNotFound},
		{`{"node":"waits","type":"diag.collect"}`, 409, wire.CodeIllegalMove},
		{`{"node":"n","type":"diag.collect","params":{"x":1}}`, 400, wire.CodeTaskParamsInvalid},
		{`{"node":"n","type":"diag.collect","params":[]}`, 400, wire.CodeTaskParamsInvalid},
		{`{"node":"n","type":"workload.logs","params":{"name":"a;b"}}`, 400, wire.CodeTaskParamsInvalid},
		{`{"node":"n","type":"workload.logs","params":{"Name":"a"}}`, 400, wire.CodeTaskParamsInvalid},
		{`{"node":"n","type":"workload.logs","params":{"name":"a","name":"b"}}`, 400, wire.CodeBadRequest},
		{`{"node":"n","type":"workload.logs","params":{"name":"` + enrol + `"}}`, 400, wire.CodeTaskParamsInvalid},
		{`{"node":"n","type":"diag.collect","expires_seconds":-1}`, 400, wire.CodeBadRequest},
		{`{"node":"n","type":"diag.collect","expires_seconds":604801}`, 400, wire.CodeBadRequest},
		{`{"node":"n","type":"diag.collect","expires_seconds":9223372036854775807}`, 400, wire.CodeBadRequest},
		{`{"id":"x","node":"n","type":"diag.collect"}`, 400, wire.CodeBadRequest},
		{`{"node":"n","type":"diag.collect","shell":"sh"}`, 400, wire.CodeBadRequest},
	} {
		status, body := h.ask("POST", "tasks", "", c.body)
		if status != c.status || code(body) != c.code || strings.Contains(string(body), enrol) {
			t.Errorf("%s: got %d %s, want %d %s", c.body, status, body, c.status, c.code)
		}
	}
	none := wire.NewTaskID()
	for _, path := range []string{"tasks/%s", "tasks/%s/output", "tasks/%s/output?follow=true", "tasks/%s/archive"} {
		for id, want := range map[string]int{none: 404, "x": 400, strings.ToUpper(none): 400} {
			if status, body := h.ask("GET", fmt.Sprintf(path, id), "", ""); status != want {
				t.Errorf("%s of %s: got %d %s, want %d", path, id, status, body, want)
			}
		}
	}
	made := h.give("n", wire.TaskDiagCollect, "{}")
	for path, want := range map[string]string{"/archive": wire.CodeNotFound, "/output?from=-1": wire.CodeBadRequest,
		"/output?follow=1&to=2": wire.CodeBadRequest, "/archive?name=x": wire.CodeBadRequest, "?all=true": wire.CodeBadRequest} {
		if _, body := h.ask("GET", "tasks/"+made.ID+path, "", ""); code(body) != want {
			t.Errorf("%s: got %s, want %s", path, body, want)
		}
	}
}
