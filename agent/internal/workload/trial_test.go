package workload_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
)

const (
	mine   = "7f2kq3xw5dhz6m4a"
	theirs = "7f2kq3xw5dhz6m4b"
)

// TestEndAllocation: what belongs to the allocation goes, and nothing else, not even where an image says so.
func TestEndAllocation(t *testing.T) {
	n := newNode(t, "docker", "podman")
	for name, allocation := range map[string]string{"model": mine, "other": theirs, "free": ""} {
		p := params()
		p.Name = name
		p.Allocation = allocation
		n.launched(p)
	}
	n.ran("train")
	n.ranFor("batch", mine)
	n.change("podman", func(p *played) {
		c := foreign("theirs")
		c.Labels["muster.allocation"] = mine
		p.Containers = append(p.Containers, c)
	})
	ended, err := n.host.EndAllocation(t.Context(), &n.out, mine)
	if err != nil || !slices.Equal(ended, []string{"batch", "model"}) {
		t.Errorf("ended %q, %v", ended, err)
	}
	if left := n.state("docker").Containers; len(left) != 2 || len(n.state("podman").Containers) != 1 || len(n.host.Runs.Runs()) != 1 {
		t.Errorf("left: %+v", left)
	}
	if ended, err = n.host.EndAllocation(t.Context(), &n.out, mine); err != nil || len(ended) != 0 {
		t.Errorf("again: %q, %v", ended, err)
	}
	n.change("docker", func(p *played) { p.Stubborn = true })
	if ended, err = n.host.EndAllocation(t.Context(), &n.out, theirs); err == nil || len(ended) != 0 {
		t.Errorf("what cannot be removed: %q, %v", ended, err)
	}
	n.change("docker", func(p *played) { p.Down = "no daemon" })
	if _, err = n.host.EndAllocation(t.Context(), &n.out, mine); err == nil || !strings.Contains(err.Error(), "does not answer now") {
		t.Errorf("an engine that does not answer: %v", err)
	}
}

// trial runs a container that is to end, and counts how often it began.
func (n *node) trial() (code int, last string, began int, err error) {
	code, last, err = n.host.Trial(n.Context(), n.job, wire.WorkloadLaunch{Image: image, GPUs: []string{wire.AllGPUs}}, func() { began++ })
	return code, last, began, err
}

// TestTrial: the container gets all GPUs, its end is told, and nothing of it is left.
func TestTrial(t *testing.T) {
	n := newNode(t, "docker")
	three := 3
	n.change("docker", func(p *played) { p.Ends = &three; p.Log = "first\nlast words\n" })
	code, last, began, err := n.trial()
	if err != nil || code != 3 || began != 1 || !strings.Contains(last, "last words") || strings.Contains(last, "\n") {
		t.Errorf("code %d, %s, began %d, %v", code, last, began, err)
	}
	n.none("docker")
	if run := n.only("run"); !slices.Contains(run.Args, "--gpus=all") || len(n.calls("pull")) != 1 {
		t.Errorf("ran with %q", run.Args)
	}
}

// TestTrialFails: without its end there is no result, and nothing of it is left all the same.
func TestTrialFails(t *testing.T) {
	for name, change := range map[string]func(*node, *played){
		"no GPU for docker":   func(_ *node, p *played) { p.RunFails = "could not select device driver" },
		"the image is not to": func(_ *node, p *played) { p.PullFails = "denied" },
		"no answer":           func(_ *node, p *played) { p.Down = "no daemon" },
		"it never ends": func(n *node, _ *played) {
			ctx, cancel := context.WithTimeoutCause(n.Context(), 50*time.Millisecond, errors.New("no time is left"))
			n.Cleanup(cancel)
			_, _, err := n.host.Trial(ctx, n.job, wire.WorkloadLaunch{Image: image}, func() {})
			if err == nil || !strings.Contains(err.Error(), "no time is left") {
				n.Errorf("it ended: %v", err)
			}
		},
		"not told how": func(_ *node, p *played) { zero := 0; p.Ends = &zero; p.Garbage = "[]" },
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, "docker")
			n.change("docker", func(p *played) { change(n, p) })
			if name == "it never ends" {
				n.none("docker")
				return
			}
			if code, _, _, err := n.trial(); err == nil || err.Error() == "" {
				t.Errorf("it ended with %d", code)
			}
			n.change("docker", func(p *played) { p.Garbage = "" })
			if name != "not told how" {
				n.none("docker")
			}
		})
	}
}

// TestTrialAfterCrash: the container of an agent that was killed makes room for the next one.
func TestTrialAfterCrash(t *testing.T) {
	n := newNode(t, "docker")
	zero := 0
	n.change("docker", func(p *played) {
		p.Ends = &zero
		p.Containers = append(p.Containers, playedContainer{ID: strings.Repeat("e", 64), Name: "muster-node-check_", Status: "running",
			Labels: map[string]string{"muster.workload": "node-check_", "muster.task": "bbbbbbbbbbbbbbbb"}})
	})
	if code, last, _, err := n.trial(); err != nil || code != 0 || last != "none" {
		t.Errorf("%d, %s, %v", code, last, err)
	}
	n.none("docker")
	n.change("docker", func(p *played) {
		p.Stubborn = true
	})
	if _, _, _, err := n.trial(); err == nil || !strings.Contains(err.Error(), "could not be removed") {
		t.Errorf("what it leaves is not told: %v", err)
	}
	if _, _, _, err := n.trial(); err == nil || !strings.Contains(err.Error(), "of an earlier check") {
		t.Errorf("it stands in the way: %v", err)
	}
}

// TestEngines: those that answer, and why none does.
func TestEngines(t *testing.T) {
	n := newNode(t, "docker", "podman")
	n.change("docker", func(p *played) { p.Down = "no daemon" })
	if names, err := n.host.Engines(t.Context()); err != nil || !slices.Equal(names, []string{"podman"}) {
		t.Errorf("%q, %v", names, err)
	}
	n.change("podman", func(p *played) { p.Down = "no daemon" })
	if names, err := n.host.Engines(t.Context()); err == nil || len(names) > 0 {
		t.Errorf("%q, %v", names, err)
	}
	if _, err := newNode(t).host.Engines(t.Context()); err == nil || !strings.Contains(err.Error(), "install one") {
		t.Errorf("a node without any: %v", err)
	}
}

// TestAllocations: of which allocations muster's containers are. Nobody is asked on a node where no engine was used.
func TestAllocations(t *testing.T) {
	n := newNode(t, "docker", "podman")
	if got, err := n.host.Allocations(t.Context()); len(got) != 0 || err != nil || len(n.calls("ps")) != 0 {
		t.Errorf("before the first: %v, %v, %d questions", got, err, len(n.calls("ps")))
	}
	p := params()
	p.Allocation = "7f2kq3xw5dhz6m4a"
	n.launched(p)
	n.change("docker", func(p *played) { p.Containers = append(p.Containers, foreign("theirs")) })
	got, err := n.host.Allocations(t.Context())
	if want := map[string]string{"000000000000": p.Allocation}; !maps.Equal(got, want) || err != nil {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	n.change("docker", func(p *played) { p.Hangs = "ps" })
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if got, err := n.host.Allocations(ctx); len(got) != 0 || err == nil {
		t.Errorf("of a mute engine: %v, %v", got, err)
	}
}
