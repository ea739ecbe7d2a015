//go:build real

package lab_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/kit/lab"
)

// ended is what muster task run says about a task that has ended.
type ended struct {
	Status   string
	ExitCode *int `json:"exit_code"`
	Code     string
	Error    string
	Output   struct{ Head, Tail string }
	Values   wire.TaskValues
}

func (e ended) value(name string) string { return string(e.Values[name]) }

// task gives the node a task and waits for its end.
func (s *scene) task(kind string, params ...string) ended {
	s.Helper()
	c := s.gateway.Command(append([]string{"task", "run", s.node.Name, kind, "--wait", "-o", "json"}, params...)...)
	var stderr strings.Builder
	c.Stderr = &stderr
	out, err := c.Output()
	var result ended
	if bad := json.Unmarshal(out, &result); bad != nil {
		s.Fatalf("task run %s: %v, %v\n%s%s", kind, err, bad, out, stderr.String())
	}
	found, _ := json.Marshal(result.Values)
	s.Logf("%s: %s\n%s%s%s%s", kind, result.Status, result.Output.Head, result.Output.Tail, stderr.String(), found)
	return result
}

// done is a task that must be completed.
func (s *scene) done(kind string, params ...string) ended {
	s.Helper()
	result := s.task(kind, params...)
	if result.Status != wire.TaskCompleted {
		s.Fatalf("%s is %s: %s", kind, result.Status, result.Error)
	}
	return result
}

// refused is a task that must fail, with an error that has these words.
func (s *scene) refused(words []string, kind string, params ...string) ended {
	s.Helper()
	result := s.task(kind, params...)
	if result.Status != wire.TaskFailed || !contains(result.Error, words...) {
		s.Errorf("%s is %s, and its error does not say %q: %s", kind, result.Status, words, result.Error)
	}
	return result
}

func (s *scene) keepSecret(name, value string) {
	s.Helper()
	c := s.gateway.Command("secret", "set", name, "--tenant", "platform")
	c.Stdin = strings.NewReader(value)
	if out, err := c.CombinedOutput(); err != nil {
		s.Fatalf("secret set: %v\n%s", err, out)
	}
}

// TestPodman: a container that podman runs, from its launch to its end, with a secret and a registry's credential that stand in no
// argument, and through the death of the agent.
func TestPodman(t *testing.T) {
	t.Parallel()
	s := newScene(t, lab.Containers(), "root", func(b *lab.Box) {
		b.Write("/etc/muster/policy.json", `{"mount_roots":["/srv/data"]}`, 0o644)
		b.Write("/srv/data/sets/one", "", 0o644)
		b.Sh("ln -s /etc /srv/data/sets/out")
	})
	registry := s.box.Podman()
	s.install()
	_, password, _ := strings.Cut(registry.Credential, ":")
	token := password + "-token\nof two lines" // one pattern finds both
	s.keepSecret("hf-token", token)
	s.keepSecret("registry", registry.Credential)
	hidden := lab.Literal(password)
	watched := s.lab.Watch(hidden)

	s.step("launch")
	script := `printf %s "$HF_TOKEN" | sha256sum; ls /data; echo to stderr >&2; echo "$HF_TOKEN"
trap "exit 3" TERM; while :; do sleep 0.1; done`
	launch := []string{"name=model", "image=" + registry.Image, "command=sh", "command=-c", "command=" + script,
		"secret_env=HF_TOKEN=hf-token", "registry_secret=registry", "mounts=/srv/data/sets:/data:ro", "user=65534", "shm_mib=32", "env=PATH=/bin"}
	first := s.done("workload.oci_launch", launch...)
	if first.value("changed") != "true" || first.value("runtime") != `"podman"` ||
		!contains(first.Output.Head, "podman pulls", "model runs in podman") {
		t.Errorf("launch: %+v", first)
	}
	again := s.done("workload.oci_launch", launch...)
	if again.value("changed") != "false" || again.value("container") != first.value("container") {
		t.Errorf("again: %+v", again)
	}
	s.refused([]string{"stop it first"}, "workload.oci_launch", "name=model", "image="+registry.Image)

	s.step("what it wrote, without the secret")
	log := s.done("workload.logs", "name=model").Output.Head
	if !contains(log, fmt.Sprintf("%x", sha256.Sum256([]byte(token))), "one\n", "to stderr\n", "[secret]\n") || hidden.MatchString(log) {
		t.Errorf("log:\n%s", log)
	}

	s.step("the agent is killed: the container does not notice, and the next agent knows it")
	started := s.box.Sh("podman inspect --format '{{.State.StartedAt}} {{.State.Pid}}' muster-model")
	killed := time.Now()
	s.box.Sh("systemctl kill --kill-who=main --signal=KILL muster-agent")
	s.back(time.Minute, killed)
	if now := s.box.Sh("podman inspect --format '{{.State.StartedAt}} {{.State.Pid}}' muster-model"); now != started {
		t.Errorf("the container was %s, and is %s", started, now)
	}
	status := s.done("workload.status")
	var rows []struct{ Name, State, Image, Runtime string }
	if err := json.Unmarshal(status.Values["workloads"], &rows); err != nil || len(rows) != 1 || rows[0].Name != "model" ||
		rows[0].State != "running" || rows[0].Image != registry.Image || rows[0].Runtime != "podman" {
		t.Errorf("status: %v, %s", err, status.Values["workloads"])
	}
	if again := s.done("workload.oci_launch", launch...); again.value("changed") != "false" {
		t.Errorf("again: %+v", again)
	}

	s.step("what cannot be")
	image := "image=" + registry.Image
	for _, mount := range []string{"/etc:/data", "/srv/data/sets/out:/data"} {
		if e := s.refused([]string{"policy"}, "workload.oci_launch", "name=a", image, "mounts="+mount); e.Code != wire.CodeTaskForbidden {
			t.Errorf("%s: code %q", mount, e.Code)
		}
	}
	s.refused([]string{"could not be pulled"}, "workload.oci_launch", "name=a", "registry_secret=registry",
		"image=127.0.0.1:5000/team/tool@sha256:"+strings.Repeat("0", 64))
	s.refused([]string{"nvidia-ctk cdi generate"}, "workload.oci_launch", "name=a", image, "gpus=GPU-00000001-aaaa-bbbb-cccc-0123456789ab")
	dies := []string{"name=a", image, "command=sh", "command=-c", "command=echo last words; exit 7"}
	e := s.refused([]string{"exit code 7", "last words"}, "workload.oci_launch", dies...)
	if e.ExitCode == nil || *e.ExitCode != 7 {
		t.Errorf("exit code %v", e.ExitCode)
	}
	s.refused([]string{"no workload", "it has model"}, "workload.logs", "name=a")

	s.step("stop")
	s.box.Sh("podman run --detach --name=theirs --label=muster.workload=theirs --label=muster.task=x " + registry.Image + " sleep 600")
	stop := s.done("workload.stop", "all=true", "grace_seconds=5")
	if stop.value("stopped") != `["model"]` {
		t.Errorf("stop: %+v", stop)
	}
	if left := s.box.Sh("podman ps --all --format '{{.Names}}'"); left != "theirs" {
		t.Errorf("containers: %s", left)
	}
	if stop := s.done("workload.stop", "all=true"); stop.value("changed") != "false" {
		t.Errorf("stop: %+v", stop)
	}

	s.step("the secrets are nowhere but in podman's own files, and where the container itself has written one")
	if seen := watched(); len(seen) > 0 {
		t.Errorf("a secret stood in these processes' arguments: %q", seen)
	}
	for _, place := range s.box.Holding(hidden) {
		if !regexp.MustCompile("^(/var/lib/containers/|/run/containers/|/var/log/journal/)").MatchString(place) {
			t.Errorf("a secret is still in %s", place)
		}
	}
	if log := s.box.Sh("journalctl --no-pager _COMM=muster-agent"); log == "" || hidden.MatchString(log) {
		t.Errorf("the agent's log:\n%s", log)
	}

	s.step("leave")
	if out := s.paste(s.base + "/current/muster-agent leave"); !strings.Contains(out, "as it was before") {
		t.Errorf("leave:\n%s", out)
	}
	if left := s.box.Sh("ls -A " + s.base + " 2>/dev/null || true"); left != "" {
		t.Errorf("left in %s: %s", s.base, left)
	}
}
