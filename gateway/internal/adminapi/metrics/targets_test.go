package metrics

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"testing"

	"muster/gateway/api"
)

func (d *stand) targets(path string) (all []target) {
	d.Helper()
	w := d.get(path, d.account("", api.ScopeMetricsRead))
	if w.Code != 200 || w.Header().Get("Content-Type") != "application/json" {
		d.Fatalf("got %d %v %s", w.Code, w.Header(), w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &all); err != nil || all == nil {
		d.Fatalf("%v in %s", err, w.Body)
	}
	return all
}

// TestTargets: each node that has an address, with what a relabeling may want. Of two labels that become one name, the first stays.
func TestTargets(t *testing.T) {
	d := newStand(t)
	six := fullNode("six", "research", d.at)
	six.Address = "2001:db8::7"
	never := &api.NodeRow{Name: "never"}
	d.rows = []*api.NodeRow{fullNode("gpu-1", "platform", d.at), six, never}
	all := d.targets(Path + "/targets")
	want := map[string]string{
		"__meta_muster_node": "gpu-1", "__meta_muster_node_id": "n-gpu-1", "__meta_muster_tenant": "platform",
		"__meta_muster_provider": "vast_ai", "__meta_muster_instance_id": "39467543", "__meta_muster_state": "unavailable",
		"__meta_muster_status": "online", "__meta_muster_agent_version": "v1", "__meta_muster_gpus": "1",
		"__meta_muster_label_tier": "sovereign", "__meta_muster_label_a_b": "2",
	}
	if len(all) != 2 || !slices.Equal(all[0].Targets, []string{"203.0.113.7"}) || !slices.Equal(all[1].Targets, []string{"[2001:db8::7]"}) {
		t.Fatalf("got %+v", all)
	}
	if !maps.Equal(all[0].Labels, want) {
		t.Errorf("got %v, want %v", all[0].Labels, want)
	}
	if d.rows = d.rows[2:]; len(d.targets(Path+"/targets?tenant=none")) != 0 {
		t.Error("a node without an address is a target")
	}
}

func TestTargetPort(t *testing.T) {
	for address, want := range map[string]string{"203.0.113.7": "203.0.113.7:9100", "2001:db8::7": "[2001:db8::7]:9100"} {
		if got := hostPort(address, 9100); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	d := newStand(t)
	d.rows = []*api.NodeRow{fullNode("gpu-1", "platform", d.at)}
	if got := d.targets(Path + "/targets?port=9100"); got[0].Targets[0] != "203.0.113.7:9100" {
		t.Errorf("got %v", got)
	}
}

// TestBrokenTargets: an error of the connection is told.
func TestBrokenTargets(t *testing.T) {
	d := newStand(t)
	n := fullNode("gpu-1", "platform", d.at)
	if writeTargets(&broken{}, []*api.NodeRow{n}, 0) == nil {
		t.Error("a short answer: no error")
	}
	if writeTargets(&broken{}, slices.Repeat([]*api.NodeRow{n}, 1000), 0) == nil {
		t.Error("a long answer: no error")
	}
}

// FuzzTarget: whatever keys a node's labels have, the answer is JSON, and its names are ones that Prometheus takes.
func FuzzTarget(f *testing.F) {
	f.Add("tier", "a", "203.0.113.7")
	f.Add("example.com/a-b", "\xff\"\n", "::1")
	name := regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
	f.Fuzz(func(t *testing.T, key, value, address string) {
		var out bytes.Buffer
		n := &api.NodeRow{Name: value, Address: address, Labels: map[string]string{key: value}}
		if err := writeTargets(&out, []*api.NodeRow{n, n}, 9100); err != nil {
			t.Fatal(err)
		}
		var all []target
		if err := json.Unmarshal(out.Bytes(), &all); err != nil {
			t.Fatalf("%v in %q", err, out.String())
		}
		for _, target := range all {
			for label := range target.Labels {
				if !name.MatchString(label) {
					t.Errorf("the label %q", label)
				}
			}
		}
	})
}
