package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/internal/identity"
	"muster/agent/internal/task"
	"muster/agent/sign"
	"muster/agent/wire"
)

// TestOneTask: it is done once, with what its signature covers, and everything of it is told.
func TestOneTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.secrets = map[string]string{"login": "user:word"}
		d.handle = func(ctx context.Context, job task.Job) task.Outcome {
			secrets, err := job.Secrets(ctx)
			if err != nil || secrets["login"] != "user:word" {
				t.Errorf("%v, %v", secrets, err)
			}
			if info, err := os.Stat(job.Dir); err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("%v, %v", info, err)
			}
			job.Output.Write([]byte("at work\n"))
			return task.Outcome{Values: wire.TaskValues{"name": json.RawMessage(`"<ada>"`)}}
		}
		id := d.give(d.payload(wire.TaskProvisionUser, `{"username":"ada"}`))
		w := d.run(time.Minute)
		r := d.result(id)
		if r.Status != wire.TaskCompleted || r.ExitCode == nil || *r.ExitCode != 0 || r.StartedAt == nil || r.Code+r.Error != "" ||
			string(r.Output.Head) != "at work\n" || r.Output.Bytes != 8 || r.Output.Truncated ||
			string(r.Values["name"]) != `"\u003cada\u003e"` {
			t.Errorf("%+v", r)
		}
		if got := d.did(); got != "started secrets result" || d.begun() != 1 || len(w.Notices()) != 0 {
			t.Errorf("%s; %v", got, w.Notices())
		}
		job := d.jobs[0]
		user, ok := job.Params.(*wire.ProvisionUser)
		if !ok || user.Username != "ada" || job.ID != id || job.Type != wire.TaskProvisionUser {
			t.Errorf("%+v", job)
		}
		if _, err := os.Stat(job.Dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the folder stays: %v", err)
		}
		if strings.Contains(d.journal()+d.log.String(), "user:word") {
			t.Error("a secret was kept")
		}
	})
}

// TestNotThisNodes: what is not signed by a key of the pinned set, or is not for this node, is not answered at all.
func TestNotThisNodes(t *testing.T) {
	for name, make := range map[string]func(d *desk) wire.SignedTask{
		"another key": func(d *desk) wire.SignedTask {
			raw, _ := json.Marshal(d.payload(wire.TaskDiagCollect, `{}`))
			return sign.SealTask(newKey(t), raw)
		},
		"the trust key": func(d *desk) wire.SignedTask {
			raw, _ := json.Marshal(d.payload(wire.TaskDiagCollect, `{}`))
			return sign.SealTask(d.g.Trust, raw)
		},
		"one byte changed": func(d *desk) wire.SignedTask {
			raw, _ := json.Marshal(d.payload(wire.TaskDiagCollect, `{}`))
			signed := sign.SealTask(d.key, raw)
			signed.Payload[20] ^= 1
			return signed
		},
		"another node": func(d *desk) wire.SignedTask {
			p := d.payload(wire.TaskDiagCollect, `{}`)
			p.NodeID = "n2"
			raw, _ := json.Marshal(p)
			return sign.SealTask(d.key, raw)
		},
		"an earlier enrolment": func(d *desk) wire.SignedTask {
			p := d.payload(wire.TaskDiagCollect, `{}`)
			p.Enrolment = "e1"
			raw, _ := json.Marshal(p)
			return sign.SealTask(d.key, raw)
		},
		"no id": func(d *desk) wire.SignedTask {
			p := d.payload(wire.TaskDiagCollect, `{}`)
			p.TaskID = "../../etc"
			raw, _ := json.Marshal(p)
			return sign.SealTask(d.key, raw)
		},
		"a life that is too long": func(d *desk) wire.SignedTask {
			p := d.payload(wire.TaskDiagCollect, `{}`)
			p.ExpiresAt = p.IssuedAt.Add(wire.MaxTaskLife + time.Second)
			raw, _ := json.Marshal(p)
			return sign.SealTask(d.key, raw)
		},
		"a key twice": func(d *desk) wire.SignedTask {
			raw, _ := json.Marshal(d.payload(wire.TaskDiagCollect, `{}`))
			raw = append([]byte(`{"type":"agent.restart",`), raw[1:]...)
			return sign.SealTask(d.key, raw)
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(t)
			d.giveSigned(make(d))
			w := d.run(25 * time.Second)
			if d.did() != "" || d.begun() != 0 || len(w.Notices()) != 1 || d.waits != 1 {
				t.Errorf("%s: the node did %q after %d waits, and notes %q", name, d.did(), d.waits, w.Notices())
			}
			good := d.diag()
			w = d.run(time.Minute)
			if r := d.result(good); r.Status != wire.TaskCompleted || len(w.Notices()) != 0 {
				t.Errorf("%s: after it %+v, %q", name, r, w.Notices())
			}
		})
	}
}

// TestRefusals: what is this node's and must not be done is answered with the reason.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy string
		change func(*wire.TaskPayload)
		status string
		code   string
	}{
		{"expired", `{}`, func(p *wire.TaskPayload) { p.ExpiresAt = p.IssuedAt }, wire.TaskExpired, wire.CodeTaskExpired},
		{"unknown type", `{}`, func(p *wire.TaskPayload) { p.Type = "shell.run" }, wire.TaskFailed, wire.CodeTaskTypeUnknown},
		{"unknown param", `{}`, func(p *wire.TaskPayload) { p.Params = []byte(`{"x":1}`) }, wire.TaskFailed, wire.CodeTaskParamsInvalid},
		{"no params", `{}`, func(p *wire.TaskPayload) { p.Params = []byte(`null`) }, wire.TaskFailed, wire.CodeTaskParamsInvalid},
		{"bad param", `{}`, func(p *wire.TaskPayload) {
			p.Type = wire.TaskProvisionUser
			p.Params = []byte(`{"username":"a;reboot"}`)
		}, wire.TaskFailed, wire.CodeTaskParamsInvalid},
		{"forbidden", `{"forbid":["diag.*"]}`, func(*wire.TaskPayload) {}, wire.TaskFailed, wire.CodeTaskForbidden},
		{"another's key", `{"operator_keys":{"diag.*":[]}}`, func(*wire.TaskPayload) {}, wire.TaskFailed, wire.CodeTaskForbidden},
		{"what it includes", `{"forbid":["workload.*"]}`, func(p *wire.TaskPayload) {
			p.Type = wire.TaskNodeCheck
			p.Params = json.RawMessage(`{"checks":["gpu_program"],"image":"r.example/a@sha256:` + strings.Repeat("a", 64) + `"}`)
		}, wire.TaskFailed, wire.CodeTaskForbidden},
		{"a bad policy", `{"forbid":"x"}`, func(*wire.TaskPayload) {}, wire.TaskFailed, wire.CodeTaskForbidden},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(t)
			d.cfg.Policies = []string{policyFile(t, c.policy)}
			p := d.payload(wire.TaskDiagCollect, `{}`)
			c.change(&p)
			id := d.give(p)
			w := d.run(time.Minute)
			r := d.result(id)
			if r.Status != c.status || r.Code != c.code || r.Error == "" || r.ExitCode != nil || r.StartedAt != nil ||
				d.did() != "result" || d.begun() != 0 {
				t.Errorf("%s: %+v, the node did %q", c.name, r, d.did())
			}
			if noted := len(w.Notices()) == 1; noted != (c.name == "a bad policy") {
				t.Errorf("%s: %q", c.name, w.Notices())
			}
		})
	}
}

// TestExpiresToTheSecond: a task is begun until the second at which it expires, by the gateway's clock.
func TestExpiresToTheSecond(t *testing.T) {
	for _, left := range []time.Duration{0, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(t)
			id := d.give(d.payload(wire.TaskDiagCollect, `{}`))
			time.Sleep(time.Hour - left)
			d.run(time.Minute)
			if r := d.result(id); (r.Status == wire.TaskCompleted) != (left > 0) {
				t.Errorf("%v left: %+v", left, r)
			}
		})
	}
}

// TestPolicyIsReadAnew: the owner changes the policy while the agent runs. The key that signed is one that the policy names.
func TestPolicyIsReadAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		file := filepath.Join(d.cfg.Folder, task.PolicyFile)
		d.cfg.Policies = []string{"/nonexistent/policy.json", file}
		write := func(text string) {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Error(err)
			}
		}
		var ids []string
		go func() {
			for _, text := range []string{`{"forbid":["*"]}`, `{"operator_keys":{"*":["` + sign.EncodeKey(public(d.key)) + `"]}}`} {
				write(text)
				ids = append(ids, d.diag())
				time.Sleep(10 * time.Second)
			}
		}()
		d.run(time.Minute)
		synctest.Wait() // for what has written ids
		if first, second := d.result(ids[0]), d.result(ids[1]); first.Code != wire.CodeTaskForbidden || second.Status != wire.TaskCompleted {
			t.Errorf("%+v, %+v", first, second)
		}
	})
}

// TestCheckedAgain: while a task waits for its turn, the owner forbids its type, or its key is struck. Then it does not begin.
func TestCheckedAgain(t *testing.T) {
	for name, change := range map[string]func(d *desk, policy string) error{
		"forbidden": func(_ *desk, policy string) error { return os.WriteFile(policy, []byte(`{"forbid":["*"]}`), 0o600) },
		"struck": func(d *desk, _ string) error {
			d.mu.Lock()
			defer d.mu.Unlock()
			set, err := identity.Pinned(d.state.Gateway)
			set.Number++
			set.TaskKeys = set.TaskKeys[:1]
			d.state.Gateway.Trust = d.g.TrustSet(set)
			return err
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(t)
			policy := filepath.Join(d.cfg.Folder, task.PolicyFile)
			d.cfg.Policies = []string{policy}
			d.handle = func(context.Context, task.Job) task.Outcome { time.Sleep(40 * time.Second); return task.Outcome{} }
			first := d.diag()
			second := ""
			go func() {
				time.Sleep(time.Second) // of two at once either may begin
				second = d.diag()
				time.Sleep(19 * time.Second)
				if err := change(d, policy); err != nil {
					t.Error(err)
				}
			}()
			d.run(time.Minute)
			if r := d.result(first); r.Status != wire.TaskCompleted {
				t.Errorf("%s: %+v", name, r)
			}
			if r := d.result(second); r.Status != wire.TaskFailed || r.StartedAt != nil || d.begun() != 1 {
				t.Errorf("%s: %+v, %d begun", name, r, d.begun())
			}
		})
	}
}

// TestUnknownKey: the loop learns that the pinned set may be too old. With a newer one the same task is asked for at once.
func TestUnknownKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		newer := newKey(t)
		raw, _ := json.Marshal(d.payload(wire.TaskDiagCollect, `{}`))
		signed := sign.SealTask(newer, raw)
		d.giveSigned(signed)
		d.cfg.Client = d.client()
		defer d.cfg.Client.Close()
		w := task.New(d.cfg)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		ended := make(chan error)
		go func() { ended <- w.Run(ctx) }()
		began := time.Now()
		err := w.Wait(ctx, d.state, began.Add(30*time.Second))
		if !identity.StaleTrust(err) || !errors.Is(err, identity.ErrUnknownKey) {
			t.Errorf("%v", err)
		}
		d.giveSigned(signed)
		bounded, cut := context.WithTimeout(ctx, 5*time.Second)
		if err := w.Wait(bounded, d.state, began.Add(30*time.Second)); err != nil || d.waits != 1 {
			t.Errorf("%v after %d waits", err, d.waits)
		}
		cut()
		next := d.state
		key := sign.EncodeKey(public(newer))
		set, err := identity.Pinned(next.Gateway)
		if err != nil {
			t.Fatal(err)
		}
		set.Number = 2
		set.TaskKeys = append(set.TaskKeys, key)
		next.Gateway.Trust = d.g.TrustSet(set)
		if err := w.Wait(ctx, next, began.Add(30*time.Second)); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		cancel()
		<-ended
		if len(d.results) != 1 || time.Since(began) > 10*time.Second {
			t.Errorf("%d results after %v\n%s", len(d.results), time.Since(began), d.log.String())
		}
	})
}
