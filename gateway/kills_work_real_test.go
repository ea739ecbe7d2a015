//go:build real

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/client"
)

// What a gateway acknowledges, by kind.
const (
	ackToken  = "tokens"
	ackNode   = "enrolments"
	ackResult = "task results"
	ackPush   = "pushes"
)

const (
	workPause = 150 * time.Millisecond // between two pieces of work: the machine has other things to do
	killsRepo = "muster/kills"
)

// ledger is what was acknowledged.
type ledger struct {
	mu      sync.Mutex
	acks    map[string]int
	lost    int               // requests without an answer
	refused int               // second uses of a token
	tokens  map[string]bool   // ids
	nodes   map[string]string // id by name
	results map[string]string // status by task
	work    map[string]string // what a task was to stop, by task
	pushes  map[string]string // digest of the manifest, by that of its blob
}

func newLedger() *ledger {
	return &ledger{acks: map[string]int{}, tokens: map[string]bool{}, nodes: map[string]string{}, results: map[string]string{},
		work: map[string]string{}, pushes: map[string]string{}}
}

// note keeps an acknowledgement.
func (l *ledger) note(kind string, keep func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acks[kind]++
	keep()
}

func (l *ledger) count() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.acks)
}

// joins mints tokens. Each one enrols a node, and is tried a second time by another one.
func (k *killing) joins(worker int) {
	for i := 0; !k.over(); i++ {
		made, err := try(k.script, i, func(ctx context.Context, c *client.Client) (api.NewToken, error) {
			return client.Send[api.NewToken](ctx, c, http.MethodPost, api.PathTokens, api.TokenRequest{Uses: 1})
		})
		if err != nil { // if it was made all the same, nobody knows it
			if refusal(err) != nil {
				k.t.Errorf("no token is made: %v", err)
			}
			continue
		}
		k.note(ackToken, func() { k.tokens[made.ID] = true })
		name := fmt.Sprintf("joined-%d-%d", worker, i)
		node := newApplicant(k.t, k.script.http, "", made.Token, name)
		if err := k.register(node, i+1); err != nil {
			k.t.Errorf("%s: a token that was acknowledged is refused: %v", name, err)
			continue
		}
		k.note(ackNode, func() { k.nodes[name] = node.nodeID })
		switch err := k.register(newApplicant(k.t, k.script.http, "", made.Token, name+"-again"), i+2); {
		case err == nil:
			k.t.Errorf("%s: its token was used twice", name)
		case refusal(err) == nil || refusal(err).Code != wire.CodeTokenUsed:
			k.t.Errorf("%s: the second use of its token: %v", name, err)
		default:
			k.note("second uses refused", func() { k.refused++ })
		}
	}
}

// register tries until it is answered.
func (k *killing) register(a *applicant, gateway int) error {
	_, err := insist(k.script, gateway, func(_ context.Context, c *client.Client) (struct{}, error) {
		a.url = c.BaseURL
		err := a.register()
		if err != nil {
			var said wire.Error
			if text, ok := strings.CutPrefix(err.Error(), "refused: "); ok && json.Unmarshal([]byte(text), &said) == nil {
				return struct{}{}, &said.Error
			}
		}
		return struct{}{}, err
	})
	return err
}

// works gives tasks to one agent, one after the other, and waits for the result of each.
func (k *killing) works(agent string) {
	for i := 0; !k.over(); i++ {
		name := fmt.Sprintf("%s-%d", agent, i)
		if err := os.WriteFile(filepath.Join(k.engine, "up."+name), nil, 0o600); err != nil {
			k.t.Error(err)
			return
		}
		id := wire.NewTaskID()
		order := api.NewTask{ID: id, Node: agent, Type: wire.TaskWorkloadStop, Params: json.RawMessage(`{"name":"` + name + `"}`)}
		_, err := insist(k.script, i, func(ctx context.Context, c *client.Client) (api.Task, error) {
			return client.Send[api.Task](ctx, c, http.MethodPost, api.PathTasks, order)
		})
		if err != nil {
			k.t.Errorf("the task for %s: %v", name, err)
			continue
		}
		k.note("tasks", func() { k.work[id] = name })
		k.waits(name, id)
	}
}

// waits waits for the end of a task. An agent that finds nobody for a while waits for minutes: there is no limit as long as there are
// kills.
func (k *killing) waits(name, id string) {
	var limit time.Time
	for ; ; <-time.After(workPause) {
		t := read[api.Task](k.script, api.At(api.PathTask, id), nil)
		if wire.TaskEnded(t.Status) {
			k.note(ackResult, func() { k.results[id] = t.Status })
			return
		}
		if limit.IsZero() && k.over() {
			limit = time.Now().Add(patience)
		}
		if !limit.IsZero() && time.Now().After(limit) {
			k.t.Errorf("the task for %s has not ended: it is %s", name, t.Status)
			return
		}
	}
}

// pushes pushes a blob and a manifest of it, again and again.
func (k *killing) pushesBlobs(worker int) {
	for i := 0; !k.over(); i++ {
		content := bytes.Repeat([]byte(fmt.Sprintf("%d of %d\n", i, worker)), 1000)
		blob := sha(content)
		layer := fmt.Sprintf(`{"mediaType":"application/octet-stream","digest":%q,"size":%d}`, blob, len(content))
		manifest := []byte(`{"schemaVersion":2,"mediaType":"` + manifestType + `","config":` + layer + `,"layers":[` + layer + `]}`)
		_, err := insist(k.script, i, func(ctx context.Context, c *client.Client) (struct{}, error) {
			return struct{}{}, errors.Join(c.PutBlob(ctx, killsRepo, blob, int64(len(content)), bytes.NewReader(content)),
				c.PutManifest(ctx, killsRepo, sha(manifest), manifestType, manifest))
		})
		if err != nil {
			k.t.Errorf("push %d: %v", i, err)
			continue
		}
		k.note(ackPush, func() { k.pushes[blob] = sha(manifest) })
	}
}

const manifestType = "application/vnd.oci.image.manifest.v1+json"

func sha(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// compare holds the ledger against what the active gateway has.
func (k *killing) compare() {
	k.t.Helper()
	tokens := map[string]api.Token{}
	for _, one := range read[api.TokenList](k.script, api.PathTokens, api.ListFilter{All: true}).Tokens {
		tokens[one.ID] = one
	}
	for id := range k.tokens {
		if one, ok := tokens[id]; !ok || one.Used != 1 {
			k.t.Errorf("the token %s was acknowledged, and used once: %+v", id, one)
		}
	}
	nodes := k.script.nodes()
	if want := len(k.nodes) + len(k.agents); len(nodes) != want {
		k.t.Errorf("%d nodes have enrolled, and there are %d", want, len(nodes))
	}
	for name, id := range k.nodes {
		if got := nodes[name]; len(got) != 1 || got[0].ID != id || got[0].State != wire.StateEnrolled {
			k.t.Errorf("%s enrolled as %s, and is %+v", name, id, got)
		}
	}
	times := map[string]int{}
	for _, e := range k.script.events("node.enrolled") {
		times[e.NodeID]++
	}
	for _, all := range nodes {
		if n := times[all[0].ID]; n != 1 {
			k.t.Errorf("%s has enrolled %d times", all[0].Name, n)
		}
	}
	k.compareTasks()
	k.comparePushes()
}

// compareTasks: a task has ended once, as it was told, and what it was to do was done once.
func (k *killing) compareTasks() {
	raw, err := os.ReadFile(filepath.Join(k.engine, "runs"))
	if err != nil {
		k.t.Error(err)
	}
	runs := map[string]int{}
	for _, name := range strings.Fields(string(raw)) {
		runs[name]++
	}
	ended := map[string]int{}
	for _, e := range k.script.events("task.finished") {
		ended[e.Detail["task"]]++
	}
	for id, name := range k.work {
		t := read[api.Task](k.script, api.At(api.PathTask, id), nil)
		if t.Status != k.results[id] || ended[id] != 1 {
			k.t.Errorf("the task for %s was %q, is %q, and has ended %d times", name, k.results[id], t.Status, ended[id])
		}
		cut := t.Status == wire.TaskFailed && t.Code == wire.TaskInterrupted && k.kills[killAgent] > 0
		if runs[name] > 1 || runs[name] == 0 && !cut || t.Status != wire.TaskCompleted && !cut {
			k.t.Errorf("the task for %s is %q (%s %s), and was done %d times", name, t.Status, t.Code, t.Error, runs[name])
		}
	}
}

func (k *killing) comparePushes() {
	for _, blob := range slices.Sorted(maps.Keys(k.pushes)) {
		for _, path := range []string{"blobs/" + blob, "manifests/" + k.pushes[blob]} {
			content, err := insist(k.script, 0, func(ctx context.Context, c *client.Client) ([]byte, error) { return pulled(ctx, c, path) })
			if err != nil || !strings.HasSuffix(path, sha(content)) {
				k.t.Errorf("what was pushed as %s is %d bytes, %v", path, len(content), err)
			}
		}
	}
}

// pulled is what the registry has at a path.
func pulled(ctx context.Context, c *client.Client, path string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.BaseURL+wire.PathRegistry+killsRepo+"/"+path, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+c.Token)
	answer, err := c.HTTP.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	var body bytes.Buffer
	_, err = body.ReadFrom(answer.Body)
	if answer.StatusCode == http.StatusNotFound {
		err = wire.Refuse(wire.CodeNotFound, body.String(), "")
	} else if answer.StatusCode != http.StatusOK {
		err = errors.New(answer.Status)
	}
	return body.Bytes(), err
}
