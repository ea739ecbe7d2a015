package cli_test

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/internal/task"
	"muster/store"
)

// work is what a played node does with a task: what it writes, and how it ends.
type work func(wire.TaskPayload) (output string, result wire.TaskResult)

// taskHouse is a house with a desk, and nodes that work.
type taskHouse struct {
	*house
	desk *task.Service
	key  ed25519.PrivateKey // an operator's, which nodes trust too

	stays bool // an agent that is to remove itself does not say that it leaves

	mu    sync.Mutex
	ended []wire.TaskPayload // by all nodes, in the order in which they ended
}

func newTaskHouse(t *testing.T) *taskHouse {
	t.Helper()
	h := &taskHouse{house: newHouse(t)}
	h.still = true // nodes work at the same time
	now := h.now
	clock := func() time.Time { return now }
	_, own, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, h.key, err = ed25519.GenerateKey(nil); err != nil {
		t.Fatal(err)
	}
	h.desk, err = task.New(t.Context(), task.Config{
		Store: h.store, Now: clock,
		Sign: func(payload []byte) (wire.SignedTask, error) { return sign.SealTask(own, payload), nil },
		Keys: func() []ed25519.PublicKey {
			return []ed25519.PublicKey{own.Public().(ed25519.PublicKey), h.key.Public().(ed25519.PublicKey)}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	h.api.Now = clock
	h.api.Tasks = h.desk
	h.dir = h.listen()
	if err := h.store.CreateToken(t.Context(), store.Token{ID: "mse_many", Tenant: "platform", Uses: 100, Key: []byte("k"), CreatedAt: now,
		ExpiresAt: now.Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	return h
}

// works makes an active node that is online and does its tasks so; nil: it never asks for any.
func (h *taskHouse) works(name string, do work) { h.heard(name, time.Second, do) }

// heard is works for a node that was heard so long ago.
func (h *taskHouse) heard(name string, ago time.Duration, do work) {
	h.t.Helper()
	ctx := h.t.Context()
	print := "print-" + name
	certificate := store.Certificate{Fingerprint: print, KeyHash: "key of " + name, PublicKey: []byte(print), Chain: "chain",
		NotBefore: h.now.Add(-time.Hour), NotAfter: h.now.Add(time.Hour), IssuedAt: h.now.Add(-time.Hour)}
	node := store.Node{ID: "id-" + name, Name: name, Tenant: "platform", State: "enrolled"}
	err := h.store.Enrol(ctx, store.Enrolment{ID: "e-" + name, Credential: "mse_many", ConsumeToken: true, KeyHash: "key-" + name, At: h.now,
		Node: node, NewNode: true, Certificate: certificate, Provider: "vast_ai", InstanceID: "4711-" + name})
	if err == nil {
		err = h.store.MoveNode(ctx, store.Move{NodeID: node.ID, From: "enrolled", To: "active", At: h.now})
	}
	if err == nil {
		err = h.beat(name, ago, "")
	}
	if err != nil {
		h.t.Fatal(err)
	}
	if do == nil {
		return
	}
	var running sync.WaitGroup
	ctx, stop := context.WithCancel(context.Background())
	running.Go(func() {
		h.serve(ctx, task.Claimer{NodeID: node.ID, Enrolment: "e-" + name, Fingerprint: print, Proof: "tls:" + print}, do)
	})
	h.t.Cleanup(func() { stop(); running.Wait() })
}

// serve is the node's side until ctx ends.
func (h *taskHouse) serve(ctx context.Context, c task.Claimer, do work) {
	for ctx.Err() == nil {
		signed, err := h.desk.Wait(ctx, c, time.Minute, task.Takes{Tasks: true})
		if err != nil || signed == nil {
			continue
		}
		var payload wire.TaskPayload
		if err := json.Unmarshal(signed.Payload, &payload); err != nil {
			h.t.Error(err)
			return
		}
		if err := h.perform(ctx, c, payload, do); err != nil && ctx.Err() == nil {
			h.t.Error(err)
			return
		}
	}
}

func (h *taskHouse) perform(ctx context.Context, c task.Claimer, payload wire.TaskPayload, do work) error {
	if _, err := h.desk.Started(ctx, c, payload.TaskID); err != nil {
		return err
	}
	output, result := do(payload)
	result.Output = wire.TaskLog{Head: []byte(output), Bytes: int64(len(output))}
	result.FinishedAt = h.api.Now()
	if output != "" {
		if _, err := h.desk.Output(ctx, c, payload.TaskID, wire.TaskOutput{Data: []byte(output)}); err != nil {
			return err
		}
	}
	if result.Archive != nil {
		content := []byte("archive of " + payload.TaskID)
		sum := sha256.Sum256(content)
		result.Archive.Size = int64(len(content))
		result.Archive.SHA256 = hex.EncodeToString(sum[:])
		if _, err := h.desk.Output(ctx, c, payload.TaskID, wire.TaskOutput{File: wire.TaskArchive, Data: content}); err != nil {
			return err
		}
	}
	body, err := json.Marshal(result)
	if err != nil {
		return err
	}
	h.mu.Lock()
	h.ended = append(h.ended, payload)
	h.mu.Unlock()
	err = h.desk.Result(ctx, c, payload.TaskID, body)
	if err == nil && payload.Type == wire.TaskAgentUninstall && !h.stays {
		err = h.store.MoveNode(ctx, store.Move{NodeID: c.NodeID, From: "drained", To: "retired", At: h.api.Now(), RevokeCertificates: true})
	}
	return err
}

// did are the types of the tasks that were done for a node, in order.
func (h *taskHouse) did(name string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var types []string
	for _, payload := range h.ended {
		if payload.NodeID == "id-"+name {
			types = append(types, payload.Type)
		}
	}
	return types
}

func completes(wire.TaskPayload) (string, wire.TaskResult) {
	exit := 0
	return "", wire.TaskResult{Status: wire.TaskCompleted, ExitCode: &exit}
}

func fails(wire.TaskPayload) (string, wire.TaskResult) {
	exit := 3
	return "oh\n", wire.TaskResult{Status: wire.TaskFailed, ExitCode: &exit, Error: "the disk is full"}
}

// digestsFor gives another digest each time.
func digestsFor(asked *int) func(context.Context, task.Tag) (string, error) {
	return func(context.Context, task.Tag) (string, error) {
		*asked++
		return fmt.Sprintf("sha256:%064d", *asked), nil
	}
}
