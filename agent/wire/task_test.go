package wire_test

import (
	"encoding/json"
	"errors"
	"path"
	"regexp"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
)

const (
	goodKey   = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPyGAsGCWlfdIXbNNJMmVPHPjF9Pn2MsDcC33KtQyvWe ada@desk"
	goodID    = "7f2kq3xw5dhz6m4a"
	goodGPU   = "GPU-3f1c2a90-0000-4000-8000-0000000000a1"
	goodImage = "registry.example:5000/team/llm@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
)

// TestTaskTypes: every row of the table can be used, and a person learns of each param what it is.
func TestTaskTypes(t *testing.T) {
	names := map[string]bool{}
	for _, kind := range wire.TaskTypes() {
		found, err := wire.FindTaskType(kind.Name)
		if err != nil || found.Name != kind.Name || names[kind.Name] {
			t.Errorf("%s: found %q, %v; twice: %v", kind.Name, found.Name, err, names[kind.Name])
		}
		names[kind.Name] = true
		if kind.About == "" || kind.Timeout <= 0 || kind.Longest < kind.Timeout || kind.Longest > wire.MaxTaskLife {
			t.Errorf("%s: about %q, %s of at most %s", kind.Name, kind.About, kind.Timeout, kind.Longest)
		}
		params := kind.Params()
		if last := params[len(params)-1].Name; last != "timeout_seconds" {
			t.Errorf("%s: the last param is %s", kind.Name, last)
		}
		for _, p := range params {
			if p.Name == "" || p.About == "" || strings.HasSuffix(p.About, ".") {
				t.Errorf("%s: param %q says %q of itself", kind.Name, p.Name, p.About)
			}
		}
		short := kind.New()
		if err := json.Unmarshal([]byte(`{"timeout_seconds":7}`), short); err != nil || kind.Limit(short) != 7*time.Second {
			t.Errorf("%s: seven seconds give %s, %v", kind.Name, kind.Limit(short), err)
		}
		long := kind.New()
		if err := json.Unmarshal([]byte(`{"timeout_seconds":600000}`), long); err != nil || kind.Limit(long) != kind.Longest {
			t.Errorf("%s: a week gives %s, %v", kind.Name, kind.Limit(long), err)
		}
		if kind.Limit(kind.New()) != kind.Timeout {
			t.Errorf("%s: without a word it may take %s", kind.Name, kind.Limit(kind.New()))
		}
	}
	_, err := wire.FindTaskType("rm")
	var refusal *wire.ErrorDetail
	if !errors.As(err, &refusal) || refusal.Code != wire.CodeTaskTypeUnknown || !strings.Contains(refusal.Hint, wire.TaskDiagCollect) {
		t.Errorf("an unknown type: %v", err)
	}
}

// TestTaskParamKinds: the kinds that a person sees are those of the fields.
func TestTaskParamKinds(t *testing.T) {
	kind, err := wire.FindTaskType(wire.TaskWorkloadLaunch)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"name": wire.ParamText, "command": wire.ParamList, "env": wire.ParamMap, "shm_mib": wire.ParamInt}
	required := map[string]bool{"name": true, "image": true}
	for _, p := range kind.Params() {
		if want[p.Name] != "" && want[p.Name] != p.Kind || required[p.Name] != p.Required {
			t.Errorf("%s is a %s, needed: %v", p.Name, p.Kind, p.Required)
		}
	}
	user, err := wire.FindTaskType(wire.TaskProvisionUser)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range user.Params() {
		if p.Name == "sudo" && p.Kind != wire.ParamFlag {
			t.Errorf("sudo is a %s", p.Kind)
		}
	}
}

// TestTaskParams: what each type takes, and what it refuses. Of the refused ones, the message names the param.
func TestTaskParams(t *testing.T) {
	launch := func(more string) string { return `{"name":"llm","image":"` + goodImage + `"` + more + `}` }
	clean := func(allocation, gpu, user string) string {
		return `{"allocation":"` + allocation + `","gpus":["` + gpu + `"],"users":["` + user + `"]}`
	}
	for _, c := range []struct {
		kind, params string
		refused      string // the param that the refusal names; empty: it is taken
	}{
		{wire.TaskProvisionUser, `{"username":"ada"}`, ""},
		{wire.TaskProvisionUser, `{"username":"_a-1","ssh_public_keys":["` + goodKey + `"],"groups":["docker"],"sudo":true}`, ""},
		{wire.TaskProvisionUser, `{"username":"ada","shell":"/bin/sh"}`, ""},
		{wire.TaskProvisionUser, `{"username":"ada","allocation":"7f2kq3xw5dhz6m4a"}`, ""},
		{wire.TaskProvisionUser, `{"username":"ada","allocation":"one"}`, "allocation"},
		{wire.TaskProvisionUser, `{}`, "username"},
		{wire.TaskProvisionUser, `{"username":"-rf"}`, "username"},
		{wire.TaskProvisionUser, `{"username":"Ada"}`, "username"},
		{wire.TaskProvisionUser, `{"username":"a;id"}`, "username"},
		{wire.TaskProvisionUser, `{"username":"` + strings.Repeat("a", 33) + `"}`, "username"},
		{wire.TaskProvisionUser, `{"username":"ada","ssh_public_keys":["command=\"id\" ` + goodKey + `"]}`, "ssh_public_keys"},
		{wire.TaskProvisionUser, `{"username":"ada","ssh_public_keys":["` + goodKey + `\nssh-rsa AAAA"]}`, "ssh_public_keys"},
		{wire.TaskProvisionUser, `{"username":"ada","ssh_public_keys":["ssh-rsa AAAAC3NzaC1lZDI1NTE5AAAAIPyGAsGC"]}`, "ssh_public_keys"},
		{wire.TaskProvisionUser, `{"username":"ada","ssh_public_keys":["ssh-ed25519"]}`, "ssh_public_keys"},
		{wire.TaskProvisionUser, `{"username":"ada","groups":["root"]}`, "groups"},
		{wire.TaskProvisionUser, `{"username":"ada","groups":["a,b"]}`, "groups"},
		{wire.TaskProvisionUser, `{"username":"ada","shell":"sh"}`, "shell"},
		{wire.TaskProvisionUser, `{"username":"ada","shell":"/bin/../tmp/x"}`, "shell"},
		{wire.TaskProvisionUser, `{"username":"ada","timeout_seconds":-1}`, "timeout_seconds"},
		{wire.TaskProvisionUser, `{"username":"ada","timeout_seconds":604801}`, "timeout_seconds"},
		{wire.TaskProvisionUser, `{"username":"ada","timeout_seconds":18446744074}`, "timeout_seconds"}, // as a Duration it is 0.3 s
		{wire.TaskDeprovisionUser, `{"username":"ada"}`, ""},
		{wire.TaskDeprovisionUser, `{"all":true,"remove_home":true}`, ""},
		{wire.TaskDeprovisionUser, `{}`, "username"},
		{wire.TaskDeprovisionUser, `{"all":true,"username":"ada"}`, "username"},
		{wire.TaskDeprovisionUser, `{"username":"../x"}`, "username"},
		{wire.TaskWorkloadLaunch, launch(""), ""},
		{wire.TaskWorkloadLaunch, launch(`,"command":["-c","x; y"],"env":{"A":"b c"},"secret_env":{"T":"hf-token"},"gpus":["all"],` +
			`"ports":["127.0.0.1:8080:80","53:53/udp"],"mounts":["/srv/data:/data:ro"],"user":"1000:1000","workdir":"/app","runtime":"podman",` +
			`"shm_mib":64,"memory_mib":100,"registry_secret":"login"`), ""},
		{wire.TaskWorkloadLaunch, launch(`,"gpus":["GPU-5d2f1a3e-0000-0000-0000-000000000001","MIG-5d2f1a3e-0000-0000-0000-000000000001"]`), ""},
		{wire.TaskWorkloadLaunch, `{"image":"` + goodImage + `"}`, "name"},
		{wire.TaskWorkloadLaunch, `{"name":"--privileged","image":"` + goodImage + `"}`, "name"},
		{wire.TaskWorkloadLaunch, `{"name":"x","image":"registry.example/llm:latest"}`, "image"},
		{wire.TaskWorkloadLaunch, `{"name":"x","image":"-v@sha256:` + strings.Repeat("0", 64) + `"}`, "image"},
		{wire.TaskWorkloadLaunch, `{"name":"x","image":"a/../b@sha256:` + strings.Repeat("0", 64) + `"}`, "image"},
		{wire.TaskWorkloadLaunch, `{"name":"x","image":"a:99999/b@sha256:` + strings.Repeat("0", 64) + `"}`, "image"},
		{wire.TaskWorkloadLaunch, `{"name":"x","image":"a/b@sha256:` + strings.Repeat("0", 63) + `"}`, "image"},
		{wire.TaskWorkloadLaunch, `{"name":"x","image":"a/b@sha256:` + strings.Repeat("A", 64) + `"}`, "image"},
		{wire.TaskWorkloadLaunch, launch(`,"command":["a\u0000"]`), "command"},
		{wire.TaskWorkloadLaunch, launch(`,"env":{"1A":"x"}`), "env"},
		{wire.TaskWorkloadLaunch, launch(`,"env":{"A=B":"x"}`), "env"},
		{wire.TaskWorkloadLaunch, launch(`,"env":{"A":"\u0000"}`), "env"},
		{wire.TaskWorkloadLaunch, launch(`,"secret_env":{"A":"../x"}`), "secret_env"},
		{wire.TaskWorkloadLaunch, launch(`,"env":{"A":"x"},"secret_env":{"A":"x"}`), "secret_env"},
		{wire.TaskWorkloadLaunch, launch(`,"gpus":["all","GPU-5d2f1a3e-0000-0000-0000-000000000001"]`), "gpus"},
		{wire.TaskWorkloadLaunch, launch(`,"gpus":["0"]`), "gpus"},
		{wire.TaskWorkloadLaunch, launch(`,"gpus":["GPU-1\",capabilities=all"]`), "gpus"},
		{wire.TaskWorkloadLaunch, launch(`,"ports":["80"]`), "ports"},
		{wire.TaskWorkloadLaunch, launch(`,"ports":["0:80"]`), "ports"},
		{wire.TaskWorkloadLaunch, launch(`,"ports":["08:80"]`), "ports"},
		{wire.TaskWorkloadLaunch, launch(`,"ports":["x:8080:80"]`), "ports"},
		{wire.TaskWorkloadLaunch, launch(`,"ports":["8080:80/sctp"]`), "ports"},
		{wire.TaskWorkloadLaunch, launch(`,"mounts":["/srv/../etc:/data"]`), "mounts"},
		{wire.TaskWorkloadLaunch, launch(`,"mounts":["srv:/data"]`), "mounts"},
		{wire.TaskWorkloadLaunch, launch(`,"mounts":["/:/host"]`), "mounts"},
		{wire.TaskWorkloadLaunch, launch(`,"mounts":["/srv:/data:rw,exec"]`), "mounts"},
		{wire.TaskWorkloadLaunch, launch(`,"mounts":["/srv,readonly:/data"]`), "mounts"},
		{wire.TaskWorkloadLaunch, launch(`,"user":"root; id"`), "user"},
		{wire.TaskWorkloadLaunch, launch(`,"workdir":"app"`), "workdir"},
		{wire.TaskWorkloadLaunch, launch(`,"runtime":"runc"`), "runtime"},
		{wire.TaskWorkloadLaunch, launch(`,"registry_secret":"a b"`), "registry_secret"},
		{wire.TaskWorkloadLaunch, launch(`,"shm_mib":-1`), "shm_mib"},
		{wire.TaskWorkloadLaunch, launch(`,"memory_mib":-1`), "memory_mib"},
		{wire.TaskWorkloadLaunch, `{"name":"x","image":"docker.io/library/python:3.12@sha256:` + strings.Repeat("0", 64) + `"}`, ""},
		{wire.TaskWorkloadLaunch, `{"name":"x","image":"a/b:@sha256:` + strings.Repeat("0", 64) + `"}`, "image"},
		{wire.TaskWorkloadProcess, `{"name":"x","command":["python","train.py"],"env":{"A":"b"},"secret_env":{"T":"t"},` +
			`"gpu_count":2,"user":"ada","workdir":"/srv"}`, ""},
		{wire.TaskWorkloadProcess, `{"name":"x","command":["a"],"gpus":["GPU-5d2f1a3e-0000-0000-0000-000000000001"]}`, ""},
		{wire.TaskWorkloadProcess, `{"name":"x","command":["a"],"gpus":["GPU-5d2f1a3e-0000-0000-0000-000000000001"` +
			strings.Repeat(`,"GPU-5d2f1a3e-0000-0000-0000-000000000001"`, wire.MaxGPUs) + `]}`, "gpus"},
		{wire.TaskWorkloadProcess, `{"command":["a"]}`, "name"},
		{wire.TaskWorkloadProcess, `{"name":"../x","command":["a"]}`, "name"},
		{wire.TaskWorkloadProcess, `{"name":"x"}`, "command"},
		{wire.TaskWorkloadProcess, `{"name":"x","command":[""]}`, "command"},
		{wire.TaskWorkloadProcess, `{"name":"x","command":["a","b\u0000"]}`, "command"},
		{wire.TaskWorkloadProcess, `{"name":"x","command":["` + strings.Repeat("a", wire.MaxSessionCommand) + `"]}`, "command"},
		{wire.TaskWorkloadProcess, `{"name":"x","command":["a"],"gpus":["0"]}`, "gpus"},
		{wire.TaskWorkloadProcess, `{"name":"x","command":["a"],"gpus":["all"],"gpu_count":1}`, "gpu_count"},
		{wire.TaskWorkloadProcess, `{"name":"x","command":["a"],"gpu_count":-1}`, "gpu_count"},
		{wire.TaskWorkloadProcess, `{"name":"x","command":["a"],"env":{"A=":"b"}}`, "env"},
		{wire.TaskWorkloadProcess, `{"name":"x","command":["a"],"env":{"A":"b"},"secret_env":{"A":"t"}}`, "secret_env"},
		{wire.TaskWorkloadProcess, `{"name":"x","command":["a"],"user":"-u"}`, "user"},
		{wire.TaskWorkloadProcess, `{"name":"x","command":["a"],"workdir":"srv"}`, "workdir"},
		{wire.TaskWorkloadStop, `{"name":"llm","grace_seconds":30}`, ""},
		{wire.TaskWorkloadStop, `{"all":true}`, ""},
		{wire.TaskWorkloadStop, `{}`, "name"},
		{wire.TaskWorkloadStop, `{"name":"a b"}`, "name"},
		{wire.TaskWorkloadStop, `{"all":true,"grace_seconds":3601}`, "grace_seconds"},
		{wire.TaskWorkloadStatus, `{}`, ""},
		{wire.TaskWorkloadStatus, `{"name":"-a"}`, "name"},
		{wire.TaskWorkloadLogs, `{"name":"llm","lines":10}`, ""},
		{wire.TaskWorkloadLogs, `{}`, "name"},
		{wire.TaskWorkloadLogs, `{"name":"llm","lines":-1}`, "lines"},
		{wire.TaskWorkloadLaunch, launch(`,"allocation":"` + goodID + `"`), ""},
		{wire.TaskWorkloadLaunch, launch(`,"allocation":"x"`), "allocation"},
		{wire.TaskWorkloadProcess, `{"name":"x","command":["a"],"allocation":"` + goodID + `"}`, ""},
		{wire.TaskWorkloadProcess, `{"name":"x","command":["a"],"allocation":"../x"}`, "allocation"},
		{wire.TaskNodeCheck, `{"checks":["gpus","kvm","disk_speed"],"profile":"gpuaas-profile-slice-vm"}`, ""},
		{wire.TaskNodeCheck, `{"checks":["gpu_program"],"image":"` + goodImage + `","command":["dcgmi","diag"],"login":"nvcr"}`, ""},
		{wire.TaskNodeCheck, `{"checks":["gpu_program"],"image":"` + goodImage + `","command":["","for the program of the image"]}`, ""},
		{wire.TaskNodeCheck, `{"checks":["gpu_program"],"image":"` + goodImage + `","command":["a\u0000"]}`, "command"},
		{wire.TaskNodeCheck, `{}`, "checks"},
		{wire.TaskNodeCheck, `{"checks":["as_paid"]}`, "checks"},
		{wire.TaskNodeCheck, `{"checks":["kvm","kvm"]}`, "checks"},
		{wire.TaskNodeCheck, `{"checks":["kvm"],"profile":"a b"}`, "profile"},
		{wire.TaskNodeCheck, `{"checks":["kvm"],"image":"r.example/a:1"}`, "image"},
		{wire.TaskNodeCheck, `{"checks":["kvm"],"command":["a"]}`, "command"},
		{wire.TaskNodeCheck, `{"checks":["kvm"],"image":"` + goodImage + `","command":["a\u0000"]}`, "command"},
		{wire.TaskNodeCheck, `{"checks":["kvm"],"login":"nvcr"}`, "login"},
		{wire.TaskNodeCheck, `{"checks":["kvm"],"image":"` + goodImage + `","login":"a b"}`, "login"},
		{wire.TaskNodeCheck, `{"checks":["kvm"],"timeout_seconds":-1}`, "timeout_seconds"},
		{wire.TaskGPUClean, clean(goodID, goodGPU, "ada"), ""},
		{wire.TaskGPUClean, clean("", goodGPU, "ada"), "allocation"},
		{wire.TaskGPUClean, clean("x", goodGPU, "ada"), "allocation"},
		{wire.TaskGPUClean, clean(goodID, "0", "ada"), "gpus"},
		{wire.TaskGPUClean, clean(goodID, "all", "ada"), "gpus"},
		{wire.TaskGPUClean, `{"allocation":"` + goodID + `"}`, "gpus"},
		{wire.TaskGPUClean, clean(goodID, goodGPU, "-rf"), "users"},
		{wire.TaskGPUClean, clean(goodID, goodGPU, "a"+strings.Repeat(`","a`, wire.MaxList)), "users"},
		{wire.TaskDiagCollect, `{"timeout_seconds":60}`, ""},
		{wire.TaskDiagCollect, `{"timeout_seconds":-60}`, "timeout_seconds"},
		{wire.TaskAgentRestart, `{}`, ""},
		{wire.TaskAgentRestart, `{"timeout_seconds":-60}`, "timeout_seconds"},
		{wire.TaskAgentUninstall, `{}`, ""},
		{wire.TaskAgentUninstall, `{"timeout_seconds":-60}`, "timeout_seconds"},
	} {
		kind, err := wire.FindTaskType(c.kind)
		if err != nil {
			t.Fatal(err)
		}
		params := kind.New()
		if err := json.Unmarshal([]byte(c.params), params); err != nil {
			t.Fatalf("%s: %v", c.params, err)
		}
		err = params.Check()
		var refusal *wire.ErrorDetail
		switch {
		case c.refused == "" && err != nil:
			t.Errorf("%s %s: %v", c.kind, c.params, err)
		case c.refused != "" && (!errors.As(err, &refusal) || refusal.Code != wire.CodeTaskParamsInvalid ||
			!strings.Contains(refusal.Message, "the param "+c.refused+" ") || refusal.Hint == ""):
			t.Errorf("%s %s: got %v, want a refusal of %s", c.kind, c.params, err, c.refused)
		}
	}
}

// FuzzLaunch: of whatever is taken, nothing can be read as an option, as another path, or by a shell.
func FuzzLaunch(f *testing.F) {
	f.Add([]byte(`{"name":"llm","image":"` + goodImage + `","mounts":["/a:/b:ro"],"ports":["1:2"],"gpus":["all"]}`))
	f.Add([]byte(`{"name":"-x","image":"-v /:/x@sha256:00","mounts":["/a/../b:/c"]}`))
	plain := regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9./:@_-]*$`)
	f.Fuzz(func(t *testing.T, raw []byte) {
		var p wire.WorkloadLaunch
		if json.Unmarshal(raw, &p) != nil || p.Check() != nil {
			return
		}
		words := append([]string{p.Name, p.Image}, append(p.Ports, p.GPUs...)...)
		for _, word := range words {
			if !plain.MatchString(word) {
				t.Errorf("%q was taken", word)
			}
		}
		for _, text := range p.Mounts {
			m, err := wire.ParseMount(text)
			if err != nil || path.Clean(m.Host) != m.Host || path.Clean(m.Container) != m.Container || strings.ContainsAny(text, ", \n\"'$`") {
				t.Errorf("%q was taken as %+v, %v", text, m, err)
			}
		}
	})
}

func TestTaskID(t *testing.T) {
	one := wire.NewTaskID()
	if err := wire.CheckTaskID(one); err != nil || one == wire.NewTaskID() {
		t.Errorf("%q: %v", one, err)
	}
	for _, id := range []string{"", "x", strings.ToUpper(one), one + "a", "../../../../../../", one[:15] + "1"} {
		if wire.CheckTaskID(id) == nil {
			t.Errorf("%q was taken", id)
		}
	}
}

// TestTaskStatuses: a status is either open or final, and a task begins open.
func TestTaskStatuses(t *testing.T) {
	open := 0
	for _, status := range wire.TaskStatuses() {
		if !wire.TaskEnded(status) {
			open++
		}
	}
	if open != 3 || wire.TaskEnded(wire.TaskQueued) || !wire.TaskEnded(wire.TaskLost) {
		t.Errorf("%d statuses are open", open)
	}
}
