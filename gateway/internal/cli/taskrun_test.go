package cli_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/agent/wire"
)

// TestTaskUsage: what is wrong with a task is said before any gateway is asked, with the next step.
func TestTaskUsage(t *testing.T) {
	h := newHouse(t)
	bad := filepath.Join(t.TempDir(), "bad.json")
	half := filepath.Join(t.TempDir(), "half.json")
	err := errors.Join(os.WriteFile(bad, []byte(`[1]`), 0o600), os.WriteFile(half, []byte(`{"image":"lat\udce9"}`), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	const image = "r.example/a@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for _, c := range []struct{ args, says, hint string }{
		{"task run", "needs NODE... TYPE", "write muster task run"},
		{"task run a=b", "which type", "muster task types"},
		{"task run gpu-1", `the type of the task is missing behind "gpu-1"`, "muster task run gpu-1 TYPE"},
		{"task run gpu-1 rm", `there is no task type "rm"`, wire.TaskDiagCollect},
		{"task run gpu-1 provision_user username=ada gpu-2", `"gpu-2" stands behind the params`, "NODE... TYPE NAME=VALUE"},
		{"task run gpu-1 provision_user", "the param username cannot be", "lower-case"},
		{"task run gpu-1 provision_user name=ada", `has no param "name"`, "username, ssh_public_keys"},
		{"task run gpu-1 provision_user username=ada sudo=perhaps", "sudo cannot be", "true or false"},
		{"task run gpu-1 workload.logs name=x lines=many", "lines cannot be", "whole number"},
		{"task run gpu-1 workload.oci_launch name=x image=" + image + " env=A", "env cannot be", "env=KEY=VALUE"},
		{"task run gpu-1 workload.oci_launch name=x image=r.example/X:1", "the param image cannot be", "a tag alone can change"},
		{"task run gpu-1 provision_user username=@/nowhere", "read the value", ""},
		{"task run gpu-1 diag.collect --params /nowhere", "read the params", ""},
		{"task run gpu-1 diag.collect --params " + bad, "has no params", "one JSON object"},
		{"task run gpu-1 workload.stop --params " + half, "half a character", "one JSON object"},
		{"task run gpu-1 workload.oci_launch name=x image=" + image + " env=A=lat\xe9", `env.A is not UTF-8`, "muster node exec"},
		{"task run gpu-1 diag.collect --timeout x", "no duration", "30m"},
		{"task run gpu-1 diag.collect --at-most 0", "--at-most", "whole number"},
		{"task run gpu-1 diag.collect --stop-after x", "--stop-after", "whole number"},
		{"task run gpu-1 diag.collect --expires never", "no duration", "30m"},
		{"task run gpu-1 diag.collect --expires 900ms", "no number of whole seconds", "90s"},
		{"task run gpu-1 diag.collect --timeout 1500ms", "no number of whole seconds", "90s"},
		{"task run gpu-1 provision_user username=ada username=bob", `the param "username" is given twice`, "once"},
		{"task run gpu-1 provision_user username=ada sudo=true sudo=true", `the param "sudo" is given twice`, "once"},
		{"task run gpu-1 diag.collect timeout_seconds=5 --timeout 6s", `"timeout_seconds" is given twice`, "once"},
		{"task run gpu-1 workload.oci_launch name=x image=" + image + " env=A=1 env=B=2 env=A=1", `in env, the key "A" is given twice`, "once"},
		{"task run gpu-1 diag.collect -o wide", "--output", "table, json"},
		{"task run gpu-1 diag.collect --key " + bad, "holds no key in PEM", "muster key generate"},
		{"task ls --status odd", "--status", "queued"},
		{"task ls --type odd", "there is no task type", wire.TaskDiagCollect},
		{"task types odd", "there is no task type", wire.TaskDiagCollect},
		{"task show", "needs ID", "muster task show"},
		{"key add x.pub", "sign tasks, or releases", "--task or --release"},
		{"key add --task " + bad, "holds no key in PEM", "muster key generate"},
		{"node return", "which nodes?", "-l tier=sovereign"},
	} {
		code, stdout, stderr := h.muster(strings.Fields(c.args)...)
		if code == 0 || !strings.Contains(stderr, c.says) || !strings.Contains(stderr, c.hint) || stdout != "" {
			t.Errorf("%q: code %d\n%s\n%s", c.args, code, stdout, stderr)
		}
	}
}

// TestTaskTypesShown: every type and every param of it is shown.
func TestTaskTypesShown(t *testing.T) {
	h := newHouse(t)
	list := h.done("task", "types")
	var shown struct {
		Types []struct {
			Name   string           `json:"name"`
			Params []wire.TaskParam `json:"params"`
		} `json:"types"`
	}
	if err := json.Unmarshal([]byte(h.done("task", "types", "-o", "json")), &shown); err != nil {
		t.Fatal(err)
	}
	for i, kind := range wire.TaskTypes() {
		if !strings.Contains(list, "\n"+kind.Name+" ") || shown.Types[i].Name != kind.Name {
			t.Errorf("%s is not in the list:\n%s", kind.Name, list)
		}
		page := h.done("task", "types", kind.Name)
		for j, p := range kind.Params() {
			if !strings.Contains(page, "\n"+p.Name+" ") || !strings.Contains(page, p.About) || shown.Types[i].Params[j] != p {
				t.Errorf("%s: %s is not there:\n%s", kind.Name, p.Name, page)
			}
		}
	}
}

// TestKeyGenerate: the two files are those of one key, the private one is the owner's alone, and nothing is ever replaced.
func TestKeyGenerate(t *testing.T) {
	h := newHouse(t)
	file := filepath.Join(t.TempDir(), "task.key")
	said := h.done("key", "generate", file)
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	private, err := os.ReadFile(file)
	if err != nil || strings.Contains(said, strings.Split(string(private), "\n")[1]) {
		t.Errorf("the private key is shown, or not there: %v", err)
	}
	if !strings.Contains(said, "muster key add --task "+file+".pub") {
		t.Errorf("the next step is not said:\n%s", said)
	}
	if code, _, stderr := h.muster("key", "generate", file); code != 1 || !strings.Contains(stderr, "is there already") {
		t.Errorf("code %d: %s", code, stderr)
	}
	if again, err := os.ReadFile(file); err != nil || string(again) != string(private) {
		t.Errorf("the key was replaced: %v", err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := h.muster("key", "generate", file); code != 1 || !strings.Contains(stderr, ".pub is there already") {
		t.Errorf("code %d: %s", code, stderr)
	}
	code, _, stderr := h.muster("key", "add", "--task", file+".pub", "--url", "https://127.0.0.1:1")
	if code == 0 || strings.Contains(stderr, "PEM") {
		t.Errorf("the public key cannot be read: %s", stderr)
	}
}
