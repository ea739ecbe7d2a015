package workload_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
)

// TestLaunch: the image is pulled by its digest, and the container gets everything that the params name, in arguments that no param
// can turn into an option.
func TestLaunch(t *testing.T) {
	root := t.TempDir()
	for _, engine := range []string{"docker", "podman", "nerdctl"} {
		t.Run(engine, func(t *testing.T) {
			n := newNode(t, engine)
			if engine == "podman" {
				n.host.Exec = nil // a process of its own, once
			}
			n.job.Policy.MountRoots = []string{root}
			p := params()
			p.Command = []string{"--privileged", "-v", "/:/host", "$(reboot)", "; reboot", ""}
			p.GPUs = []string{gpu, "MIG-00000000-1111"}
			p.Ports = []string{"127.0.0.1:8080:80", "53:53/udp"}
			p.Mounts = []string{root + ":/data:ro", root + ":/out"}
			p.User = "1000:1000"
			p.Workdir = "/srv"
			p.ShmMiB = 64
			p.MemoryMiB = 512
			outcome := n.launched(p)
			gpus := []string{"--device=nvidia.com/gpu=" + gpu, "--device=nvidia.com/gpu=MIG-00000000-1111"}
			if engine == "docker" {
				gpus = []string{`--gpus="device=` + gpu + `,MIG-00000000-1111"`}
			}
			args := n.only("run").Args
			spec := args[slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, "--label=muster.spec=") })]
			want := slices.Concat([]string{"run", "--detach", "--pull=never", "--restart=no", "--name=muster-model",
				"--label=muster.task=" + n.job.ID, "--label=muster.workload=model", "--label=muster.node=n-1", spec, "--label=muster.image=" + image,
				"--label=muster.gpus=" + gpu + ",MIG-00000000-1111", "--label=muster.secret_env=", "--label=muster.allocation="}, gpus,
				[]string{"--publish=127.0.0.1:8080:80", "--publish=53:53/udp", "--mount=type=bind,source=" + root + ",target=/data,readonly",
					"--mount=type=bind,source=" + root + ",target=/out", "--user=1000:1000", "--workdir=/srv", "--shm-size=64m", "--memory=512m", image},
				p.Command)
			if !slices.Equal(args, want) {
				t.Errorf("args\n%q, want\n%q", args, want)
			}
			if pull := n.only("pull").Args; !slices.Equal(pull, []string{"pull", image}) {
				t.Errorf("pull %q", pull)
			}
			n.value(outcome, "changed", "true")
			n.value(outcome, "runtime", `"`+engine+`"`)
			n.value(outcome, "state", `"running"`)
			n.value(outcome, "container", fmt.Sprintf(`"%064x"`, 1))
			n.value(outcome, "image", `"`+image+`"`)
			n.printed("pulls "+image, "model runs in "+engine)
		})
	}
}

// TestLaunchAllGPUs: all of them have no UUIDs.
func TestLaunchAllGPUs(t *testing.T) {
	for engine, want := range map[string]string{"docker": "--gpus=all", "podman": "--device=nvidia.com/gpu=all"} {
		n := newNode(t, engine)
		p := params()
		p.GPUs = []string{"all"}
		n.launched(p)
		if args := n.only("run").Args; !slices.Contains(args, want) {
			t.Errorf("%s: %q", engine, args)
		}
	}
}

// TestLaunchTwice: the same launch changes nothing, also with another way to the image. Another one is refused until the first is stopped.
func TestLaunchTwice(t *testing.T) {
	n := newNode(t, "docker", "podman")
	n.launched(params())
	again := params()
	again.Runtime = "docker"
	again.Login = "registry"
	again.TimeoutSeconds = 60
	outcome := n.launched(again)
	n.value(outcome, "changed", "false")
	n.value(outcome, "state", `"running"`)
	n.only("run")
	n.only("pull")
	n.printed("nothing was changed")
	for name, change := range map[string]func(*wire.WorkloadLaunch){
		"command": func(p *wire.WorkloadLaunch) { p.Command = []string{"x"} },
		"env":     func(p *wire.WorkloadLaunch) { p.Env = map[string]string{"A": "b"} },
		"runtime": func(p *wire.WorkloadLaunch) { p.Runtime = "podman" },
		"secret":  func(p *wire.WorkloadLaunch) { p.SecretEnv = map[string]string{"A": "b"} },
	} {
		p := params()
		change(p)
		n.refused(n.launch(p), "with other params", n.job.ID, "workload.stop name=model")
		if len(n.calls("run")) != 1 {
			t.Errorf("%s: a second run", name)
		}
	}
}

// TestLaunchAfterEnd: a container that has ended is replaced by the same launch, and no other.
func TestLaunchAfterEnd(t *testing.T) {
	n := newNode(t, "podman")
	n.launched(params())
	n.change("podman", func(p *played) { p.Containers[0].Status = "exited" })
	other := params()
	other.Command = []string{"x"}
	n.refused(n.launch(other), "stop it first")
	n.value(n.launched(params()), "changed", "true")
	if all := n.state("podman").Containers; len(all) != 1 || all[0].Status != "running" {
		t.Errorf("containers: %+v", all)
	}
	n.printed("is replaced")
	n.change("podman", func(p *played) {
		p.Containers[0].Status = "exited"
		p.Stubborn = true
	})
	n.refused(n.launch(params()), "could not be removed", "device or resource busy")
}

// TestLaunchImageThere: an image that is on the node is not pulled again.
func TestLaunchImageThere(t *testing.T) {
	n := newNode(t, "podman")
	n.play("podman", played{Images: []string{image}})
	n.launched(params())
	if all := n.calls("pull"); len(all) > 0 {
		t.Errorf("pulled: %+v", all)
	}
}

// TestLaunchOtherImage: what the engine has pulled is not what was asked for.
func TestLaunchOtherImage(t *testing.T) {
	n := newNode(t, "podman")
	n.play("podman", played{Pulls: "registry.example:5000/team/model@sha256:" + strings.Repeat("0", 64)})
	n.refused(n.launch(params()), "it is not the one with the digest", "nothing was started")
	if all := n.calls("run"); len(all) > 0 {
		t.Errorf("run: %+v", all)
	}
}

// TestLaunchPullFails: the engine's own words are in the error, and the progress is in the output.
func TestLaunchPullFails(t *testing.T) {
	n := newNode(t, "docker")
	n.play("docker", played{Says: "layer 1 of 2\n", PullFails: "trying\n\nmanifest unknown"})
	n.refused(n.launch(params()), "could not be pulled", "trying; manifest unknown")
	n.printed("layer 1 of 2", "manifest unknown")
}

// TestLaunchDies: a container that ends at once is a failure that says why, and nothing of it stays.
func TestLaunchDies(t *testing.T) {
	n := newNode(t, "podman")
	code := 3
	n.play("podman", played{Ends: &code, Log: "no such model\n", OOM: true})
	outcome := n.launch(params())
	n.refused(outcome, "exit code 3", "no such model", "out of memory")
	if outcome.ExitCode != 3 {
		t.Errorf("exit code %d", outcome.ExitCode)
	}
	n.printed("no such model")
	n.none("podman")
}

// TestLaunchDone: work that is done within the time of watching is no failure. Its container stays, for its log.
func TestLaunchDone(t *testing.T) {
	n := newNode(t, "podman")
	code := 0
	n.play("podman", played{Ends: &code, Log: "all fine\n"})
	outcome := n.launched(params())
	n.value(outcome, "state", `"exited"`)
	n.value(outcome, "exit_code", "0")
	n.printed("all fine", "ended with exit code 0")
	if len(n.state("podman").Containers) != 1 {
		t.Error("the container is gone")
	}
}

// TestLaunchRunFails: nothing is left of a run that failed, whatever it made. What cannot be removed is told.
func TestLaunchRunFails(t *testing.T) {
	n := newNode(t, "docker")
	n.play("docker", played{RunFails: "port is already allocated"})
	n.refused(n.launch(params()), "port is already allocated")
	n.none("docker")
	n.play("docker", played{RunFails: "port is already allocated", Stubborn: true})
	n.refused(n.launch(params()), "port is already allocated", "what it left could not be removed", "device or resource busy")
	n.play("docker", played{NoID: true})
	n.refused(n.launch(params()), "did not answer with the id")
	n.none("docker")
}

// TestLaunchGPUHint: an engine that cannot find the GPUs gets the step that helps.
func TestLaunchGPUHint(t *testing.T) {
	for engine, want := range map[string][2]string{
		"podman": {"setting up CDI devices: unresolvable CDI devices", "nvidia-ctk cdi generate"},
		"docker": {`could not select device driver "" with capabilities: [[gpu]]`, "nvidia-ctk runtime configure"},
	} {
		n := newNode(t, engine)
		n.play(engine, played{RunFails: want[0]})
		p := params()
		n.refused(n.launch(p), want[0])
		if strings.Contains(n.out.String(), "nvidia-ctk") {
			t.Error("a hint without GPUs")
		}
		p.GPUs = []string{gpu}
		n.refused(n.launch(p), want[0], want[1])
	}
}

// TestLaunchCanceled: a launch that is ended while it watches leaves no container.
func TestLaunchCanceled(t *testing.T) {
	n := newNode(t, "podman")
	n.host.Settle = time.Hour
	n.host.Exec = nil
	ctx, cancel := context.WithCancelCause(t.Context())
	n.job.Output = writerFunc(func(data []byte) (int, error) { return len(data), nil })
	go func() {
		for len(n.calls("wait")) == 0 {
			<-time.After(time.Millisecond) // nothing tells when another process has come that far
		}
		cancel(errors.New("somebody ended it"))
	}()
	outcome := n.host.Launch(ctx, n.job, params())
	n.refused(outcome, "somebody ended it")
	n.none("podman")
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(data []byte) (int, error) { return f(data) }

// TestMounts: only folders below the roots of the policy are mounted, wherever links lead.
func TestMounts(t *testing.T) {
	base := t.TempDir()
	root := filepath.Join(base, "data")
	for _, dir := range []string{"data/sets", "other", "data/a,b"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"data/out": "../other", "data/in": "sets", "data/odd": "a,b", "door": "data"} {
		if err := os.Symlink(target, filepath.Join(base, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for dir, mode := range map[string]os.FileMode{"team": 0o775, "all": 0o777, "drop": 0o777 | os.ModeSticky} {
		for _, made := range []error{os.MkdirAll(filepath.Join(root, dir, "sub/deep"), 0o755), os.Chmod(filepath.Join(root, dir), mode)} {
			if made != nil {
				t.Fatal(made)
			}
		}
	}
	for _, test := range []struct {
		path   string
		roots  []string
		source string // that is mounted; empty: refused with these words
		words  []string
	}{
		{root + "/sets", []string{root}, root + "/sets", nil},
		{root + "/in", []string{root}, root + "/sets", nil},
		{root, []string{root}, root, nil},
		{root + "/sets", []string{"/"}, root + "/sets", nil},
		{base + "/door/sets", []string{base + "/door"}, root + "/sets", nil},
		{root + "/sets", nil, "", []string{"policy of this node", "mount_roots"}},
		{root + "/out", []string{root}, "", []string{"policy of this node"}},
		{base + "/other", []string{root}, "", []string{"policy of this node"}},
		{base + "/data2", []string{root}, "", []string{"policy of this node"}},
		{root + "/none", []string{root}, "", []string{"is not on this node", "make it there"}},
		{root + "/file", []string{root}, "", []string{"is not a folder"}},
		{root + "/file/x", []string{root}, "", []string{"not a directory"}},
		{root + "/odd", []string{root}, "", []string{"mounts"}},
		{root + "/team", []string{root}, root + "/team", nil},
		{root + "/drop/sub", []string{root}, root + "/drop/sub", nil},
		{root + "/team/sub", []string{root}, "", []string{"in the place of " + root + "/team/sub", "mount " + root + "/team "}},
		{root + "/all/sub/deep", []string{root}, "", []string{"in the place of " + root + "/all/sub "}},
		{root + "/all/sub", []string{root, root + "/all/sub"}, root + "/all/sub", nil},
	} {
		n := newNode(t, "podman")
		n.job.Policy.MountRoots = test.roots
		p := params()
		p.Mounts = []string{test.path + ":/data"}
		outcome := n.launch(p)
		if test.source == "" {
			n.refused(outcome, test.words...)
			if (strings.Contains(outcome.Error, "policy") || strings.Contains(outcome.Error, "place")) != (outcome.Code == wire.CodeTaskForbidden) {
				t.Errorf("%s: code %q: %s", test.path, outcome.Code, outcome.Error)
			}
			if len(n.calls()) > 0 {
				t.Errorf("%s: the engine was asked", test.path)
			}
			continue
		}
		if args := n.only("run").Args; !slices.Contains(args, "--mount=type=bind,source="+test.source+",target=/data") {
			t.Errorf("%s: %q, %+v", test.path, args, outcome)
		}
	}
}
