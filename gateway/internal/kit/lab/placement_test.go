//go:build real

package lab_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/kit/lab"
)

// idleGPU stands in for the driver's tool: one GPU that nothing uses, also in the long form that a cleaning asks for.
const idleGPU = `#!/bin/sh
uuid=GPU-00000001-aaaa-bbbb-cccc-0123456789ab
case "$*" in
*--help-query-gpu*) for f in index uuid name pci.bus_id driver_version mig.mode.current memory.total memory.used; do echo "\"$f\""; done ;;
*--query-gpu=*)
	for a; do case $a in --query-gpu=*) fields=${a#*=} ;; esac; done
	row=
	for f in $(echo "$fields" | tr , ' '); do
		case $f in index) v=0 ;; uuid) v=$uuid ;; name) v="NVIDIA H100 80GB HBM3" ;; pci.bus_id) v=00000000:01:00.0 ;;
		driver_version) v=590.48.01 ;;
		mig.mode.current) v=Disabled ;; memory.total) v=81559 ;; memory.used) v=4 ;; *) v="[N/A]" ;; esac
		row="$row${row:+, }$v"
	done
	echo "$row" ;;
*--query-compute-apps=*) ;;
*-q*) printf 'GPU 00000000:01:00.0\n    GPU UUID                              : %s\n' "$uuid" ;;
esac
`

// cdi is the list of GPUs that podman hands to containers. A container that gets the GPU sees it in its environment.
const cdi = `{"cdiVersion":"0.5.0","kind":"nvidia.com/gpu","devices":[
{"name":"GPU-00000001-aaaa-bbbb-cccc-0123456789ab","containerEdits":{"env":["GIVEN=GPU-00000001-aaaa-bbbb-cccc-0123456789ab"]}},
{"name":"all","containerEdits":{"env":["GIVEN=all"]}}]}`

// TestPodmanAllocation: an acceptance runs a program of the operator's in a container, an allocation starts one on exactly its GPU, and the
// end of the allocation removes it and cleans.
func TestPodmanAllocation(t *testing.T) {
	t.Parallel()
	s := newScene(t, lab.Containers(), "root", func(b *lab.Box) {
		b.Write("/usr/bin/nvidia-smi", idleGPU, 0o755)
		b.Write("/etc/cdi/nvidia.json", cdi, 0o644)
	})
	registry := s.box.Podman()
	s.install()
	s.keepSecret("registry", registry.Credential)

	s.lab.Until("the node's slot is proposed", func() bool { return strings.Contains(s.gateway.Muster("slot", "ls"), "proposed") })

	s.step("accept")
	accept := func(script string) (string, error) {
		return s.gateway.Try("node", "check", s.node.Name, "--accept", "--image", registry.Image, "--login", "registry", "--", "sh", "-c", script)
	}
	if out, _ := accept("echo sees $GIVEN; exit 3"); !strings.Contains(out, "sees all") || !strings.Contains(out, "exit code 3") {
		t.Errorf("a program that fails:\n%s", out)
	}
	if out, _ := accept("echo sees $GIVEN"); !strings.Contains(out, "sees all") || strings.Contains(out, "exit code 3") {
		t.Errorf("a program that ends well:\n%s", out)
	}

	s.step("allocate, with a container")
	s.gateway.Muster("slot", "approve", "--node", s.node.Name, "--yes")
	create := s.gateway.Command("alloc", "create", "--gpu", "h100", "--ttl", "1h", "--tenant", "platform", "--launch", "-", "--wait", "-o",
		"json")
	var said strings.Builder
	create.Stderr = &said
	create.Stdin = strings.NewReader(`{"name":"train","image":"` + registry.Image + `","registry_secret":"registry","command":["sh","-c",` +
		`"echo has $GIVEN; trap 'exit 0' TERM; while :; do sleep 0.1; done"],"env":{"PATH":"/bin"}}`)
	var a api.Allocation
	out, err := create.Output()
	if err != nil || json.Unmarshal(out, &a) != nil || a.State != api.AllocationAllocated {
		t.Fatalf("alloc create: %v\n%s%s", err, out, said.String())
	}
	s.lab.Within(time.Minute, "the container runs", func() bool {
		names, _ := s.box.Try("root", "podman ps --format '{{.Names}}'")
		return strings.Contains(names, "muster-train")
	})
	if log := s.box.Sh("podman logs muster-train"); !strings.Contains(log, "has GPU-00000001-aaaa-bbbb-cccc-0123456789ab") {
		t.Errorf("the container says %q", log)
	}
	if of := s.box.Sh(`podman inspect --format '{{index .Config.Labels "muster.allocation"}}' muster-train`); of != a.ID {
		t.Errorf("the container is of the allocation %q, not %q", of, a.ID)
	}

	s.step("release")
	s.gateway.Muster("alloc", "release", a.ID)
	s.lab.Within(2*time.Minute, "the allocation is over", func() bool {
		err := json.Unmarshal([]byte(s.gateway.Muster("alloc", "show", a.ID, "-o", "json")), &a)
		return err == nil && a.State == api.AllocationReleased
	})
	if left := s.box.Sh("podman ps --all --format '{{.Names}}'"); left != "" {
		t.Errorf("containers: %s", left)
	}
	s.work.Unharmed()
}
