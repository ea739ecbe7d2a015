package help_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
)

const storyEnrolment = "e-09c41b7e52d86a3f"

func storyTask() string { return strings.ToLower(base32.StdEncoding.EncodeToString(seed("task")[:10])) }

func taskPayload() []byte {
	return encode(wire.TaskPayload{
		TaskID: storyTask(), NodeID: storyNode, Enrolment: storyEnrolment, Type: "workload.stop",
		Params: json.RawMessage(`{"name":"llm","grace_seconds":30}`), IssuedAt: storyTime, ExpiresAt: storyTime.Add(time.Hour),
		Nonce: b64(seed("task nonce")[:16]),
	})
}

// taskEncoding is what stands before the payload in what is signed.
func taskEncoding() string {
	const kind = "application/vnd.muster.task+json"
	return fmt.Sprintf("DSSEv1 %d %s %d ", len(kind), kind, len(taskPayload()))
}

func (s story) task() {
	id := sha256.Sum256(edKey("task").Public().(ed25519.PublicKey))
	s.examples["task-payload"] = string(taskPayload())
	s.examples["task-encoding"] = taskEncoding() + string(taskPayload()[:12])
	path := "/internal/v1/nodes/" + storyNode + "/tasks/wait"
	head := "GET " + path + "?seconds=25 HTTP/1.1\nHost: " + storyHost + "\n"
	wait := s.requestAs("task-wait", "GET", path, "seconds=25", head, storyEpoch, identityOf(1), nil)
	s.answer("task-wait-answer", wait, "200 OK", wire.SignedTask{
		Payload: taskPayload(), Signature: ed25519.Sign(edKey("task"), append([]byte(taskEncoding()), taskPayload()...)),
		SigningKeyID: hex.EncodeToString(id[:8]),
	})
	s.at = storyTime.Add(3 * time.Second)
	exit := 0
	began := storyTime.Add(time.Second)
	output := []byte("llm: stopped after 1.4 s\n")
	body := encode(wire.TaskResult{
		Status: "completed", ExitCode: &exit, Output: wire.TaskLog{Head: output, Bytes: int64(len(output))}, StartedAt: &began, FinishedAt: s.at,
	})
	s.examples["task-result-body"] = string(body)
	r := s.request("task-result", "/internal/v1/tasks/"+storyTask()+"/result", storyEpoch, identityOf(1), body)
	s.answer("task-result-answer", r, "200 OK", struct{}{})
}

// TestProtocolTask reads the requests as the gateway does, and the task as the agent does.
func TestProtocolTask(t *testing.T) {
	p := readPage(t)
	w := p.welcome()
	var signed wire.SignedTask
	for name, c := range map[string]struct {
		method, path, query, body string
		into                      any
	}{
		"task-wait":   {http.MethodGet, wire.TaskWaitPath(w.NodeID), wire.TaskWaitSeconds + "=25", "", &signed},
		"task-result": {http.MethodPost, wire.TaskResultPath(storyTask()), "", p.example("task-result-body"), &struct{}{}},
	} {
		r := p.request(name+"-request", c.body)
		s := p.signature(r, c.body, p.chained(w.Certificate, w.Roots))
		if r.Method != c.method || r.URL.Path != c.path || r.URL.RawQuery != c.query {
			t.Errorf("%s goes to %s %s", name, r.Method, r.URL)
		}
		answer := p.answer(name + "-answer-body")
		head := p.response(name+"-answer", answer)
		key := must(sign.DecodeKey(w.AnswerKey))
		if err := sign.VerifyAnswer(head.Header.Get(wire.HeaderAnswer), key, s.Nonce, head.StatusCode, answer); err != nil {
			t.Errorf("%s: the answer: %v", name, err)
		}
		p.decode(answer, c.into)
	}
	p.believes(w, signed)
	var q wire.TaskResult
	if err := sign.DecodeStrict([]byte(p.example("task-result-body")), &q); err != nil || q.Status != wire.TaskCompleted {
		t.Errorf("the result: %+v, %v", q, err)
	}
}

// believes checks the task as an agent does, with the task keys of the pinned set.
func (p protocol) believes(w wire.Welcome, signed wire.SignedTask) {
	p.t.Helper()
	var set wire.TrustSet
	p.decode([]byte(p.example("trust-payload")), &set)
	task, key, err := sign.OpenTask(signed, []ed25519.PublicKey{must(sign.DecodeKey(set.TaskKeys[0]))})
	if err != nil || sign.KeyID(key) != signed.SigningKeyID || string(signed.Payload) != p.example("task-payload") {
		p.t.Fatalf("the task does not verify: %v", err)
	}
	kind, err := wire.FindTaskType(task.Type)
	if err != nil {
		p.t.Fatal(err)
	}
	params := kind.New()
	if err := sign.DecodeStrict(task.Params, params); err != nil || params.Check() != nil || wire.CheckTaskID(task.TaskID) != nil ||
		task.NodeID != w.NodeID || task.Enrolment != w.Enrolment {
		p.t.Errorf("the task %+v: %v", task, err)
	}
	if !strings.HasSuffix(p.example("task-encoding"), " "+p.example("task-payload")[:12]) {
		p.t.Error("the encoding of the task does not go over into its payload")
	}
}

// TestProtocolTaskTypes: every type has a row with all its params, and there are no others.
func TestProtocolTaskTypes(t *testing.T) {
	p := readPage(t)
	_, table, _ := strings.Cut(p.text, "| type | params ")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := map[string]string{}
	for line := range strings.Lines(table) {
		if cells := strings.Split(line, "|"); strings.HasPrefix(line, "| `") {
			rows[strings.Trim(cells[1], " `")] = cells[2]
		}
	}
	for _, kind := range wire.TaskTypes() {
		number := 0
		for _, param := range kind.Params() {
			if param.Name == "timeout_seconds" {
				continue
			}
			number++
			if !strings.Contains(rows[kind.Name], "`"+param.Name+"`") {
				t.Errorf("the row of %s does not name the param %s", kind.Name, param.Name)
			}
		}
		if got := strings.Count(rows[kind.Name], "`") / 2; rows[kind.Name] == "" || got != number {
			t.Errorf("the row of %s names %d params, want %d", kind.Name, got, number)
		}
		delete(rows, kind.Name)
	}
	for name := range rows {
		t.Errorf("the page has a row for the type %s, which there is not", name)
	}
}
