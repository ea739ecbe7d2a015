package runpod_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"muster/gateway/internal/kit/cloudsim"
	"muster/gateway/internal/kit/cloudsim/cloudtest"
	sim "muster/gateway/internal/kit/cloudsim/runpod"
	"muster/gateway/internal/provider/cloud"
	"muster/gateway/internal/provider/cloud/call"
	"muster/gateway/internal/provider/cloud/runpod"
)

// world is a RunPod with an account.
type world struct {
	*sim.Sim
	cloudtest.World
	cloud *runpod.Cloud
}

func open(t *testing.T, c cloudsim.Config) *world {
	t.Helper()
	w := &world{}
	w.Sim = sim.New(w.Config(c), sim.GPU{
		ID: "NVIDIA H100 80GB HBM3", Name: "H100 SXM", Memory: 80, Secure: 2.99, Community: 2.39, Most: 8,
		Free: map[string]int{"US-KS-2": 10, "EU-RO-1": 1},
	})
	var err error
	w.cloud, err = runpod.New(call.Account{URL: cloudtest.Serve(t, w.Sim) + "/v2", Key: cloudtest.Key, Now: w.Time, Sleep: w.Sleep})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) list(t *testing.T) (n int, err error) {
	err = w.cloud.List(t.Context(), func(some []cloud.Instance) { n += len(some) })
	return n, err
}

// rent makes a pod.
func (w *world) rent(t *testing.T) (string, error) {
	t.Helper()
	offers, err := w.cloud.Offers(t.Context(), cloud.Want{GPU: "h100", GPUs: 2, Region: "us"})
	if err != nil || len(offers) != 2 {
		t.Fatalf("the offers are %+v, %v", offers, err)
	}
	return w.cloud.Create(t.Context(), cloud.Order{Offer: offers[0], Name: "muster-x", Script: "#!/bin/sh\njoin\n"})
}

func kind(err error) string {
	var failed *cloud.Error
	if errors.As(err, &failed) {
		return failed.Kind
	}
	return fmt.Sprint(err)
}

// TestLife: a pod is rented, stopped, started, joined again and given back. At each step its price is what it is charged.
func TestLife(t *testing.T) {
	t.Parallel()
	var told []string
	tell := func(what string) func(cloudsim.Machine) {
		return func(m cloudsim.Machine) {
			told = append(told, what+" "+strings.ReplaceAll(m.Env["MUSTER_START"], "\n", ";")+m.Env["RUNPOD_POD_ID"])
		}
	}
	w := open(t, cloudsim.Config{Boot: time.Minute, OnStart: tell("start"), OnStop: tell("stop"), OnDestroy: tell("destroy")})
	id, err := w.rent(t)
	if err != nil {
		t.Fatal(err)
	}
	does := func(do func(context.Context, string) error) func() error {
		return func() error { return do(t.Context(), id) }
	}
	for _, step := range []struct {
		name string
		do   func() error
		wait time.Duration
		want string
	}{
		{"rented", func() error { return nil }, 0, cloud.Starting},
		{"booted", func() error { return nil }, time.Minute, cloud.Running},
		{"started again", does(w.cloud.Start), 0, cloud.Running},
		{"stopped", does(w.cloud.Stop), 0, cloud.Stopped},
		{"stopped again", does(w.cloud.Stop), 0, cloud.Stopped},
		{"started", does(w.cloud.Start), time.Minute, cloud.Running},
		{"joined again", func() error { return w.cloud.Rejoin(t.Context(), id, "again;") }, time.Minute, cloud.Running},
		{"its process dies", func() error { w.Kill(id); return nil }, time.Hour, cloud.Running},
		{"its host is gone", func() error { w.Lose(id); return nil }, time.Hour, cloud.Broken},
	} {
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		w.Wait(step.wait)
		i, err := w.cloud.Get(t.Context(), id)
		if err != nil || i.State != step.want || i.Name != "muster-x" || i.GPUs != 2 || i.Region != "US-KS-2" {
			t.Errorf("%s: %+v, %v", step.name, i, err)
		}
		if i.State != cloud.Broken && (i.Price == nil || int64(*i.Price) != w.Rate()) {
			t.Errorf("%s: it costs %v, and is charged %d", step.name, i.Price, w.Rate())
		}
	}
	for range 2 { // the second finds nothing
		if err := w.cloud.Destroy(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.cloud.Get(t.Context(), id); kind(err) != cloud.NoSuch || w.Rate() != 0 {
		t.Errorf("a pod that is gone: %v, and %d is charged", err, w.Rate())
	}
	want := "start #!/bin/sh;join;pod00001, stop #!/bin/sh;join;pod00001, start #!/bin/sh;join;pod00001, stop again;pod00001, " +
		"start again;pod00001, stop again;pod00001, destroy again;pod00001"
	if got := strings.Join(told, ", "); got != want {
		t.Errorf("told %s\nwant %s", got, want)
	}
}

// TestLists: under no fault do pods vanish.
func TestLists(t *testing.T) {
	t.Parallel()
	w := open(t, cloudsim.Config{})
	for range 3 {
		if _, err := w.rent(t); err != nil {
			t.Fatal(err)
		}
	}
	w.Spoil("pod00002", "cluster", map[string]any{"id": "c1", "rank": 0})
	odd := []string{`{"pods":null}`, `{"pods":{}}`, `{"pods":[null]}`, `{"pods":[{}]}`, `{"pods":[],"errors":[{"message":"x"}]}`, `{"pods":[`,
		`{"pods":[],"nextCursor":"x"}`, `{"data":{"pods":[]}}`, `{"pods":[]}{"pods":[]}`, `{"pods":[],"pods":[]}`, `{"endpoints":[]}`}
	cloudtest.CheckLists(t, w.Sim.Sim, sim.List, 3, odd, func() (int, error) { return w.list(t) })
}

// TestSpoilt: a field that cannot be spoils at most what it is about. A pod without an id spoils the list.
func TestSpoilt(t *testing.T) {
	t.Parallel()
	w := open(t, cloudsim.Config{})
	id, err := w.rent(t)
	if err != nil {
		t.Fatal(err)
	}
	for field, value := range map[string]any{
		"cost": -1, "disk": -3, "status": "ODD", "dataCenterId": nil, "startedAt": "x", "name": nil, "gpu": nil,
	} {
		w.Spoil(id, field, value)
	}
	i, err := w.cloud.Get(t.Context(), id)
	if err != nil || i.State != cloud.Unknown || i.Price != nil || i.StartedAt != nil || i.Region != "" || i.GPUs != 0 {
		t.Errorf("it is %+v, %v", i, err)
	}
	w.Spoil(id, "id", "another")
	if _, err := w.cloud.Get(t.Context(), id); kind(err) != cloud.Unclear {
		t.Errorf("another's pod: %v", err)
	}
	w.Spoil(id, "id", nil)
	if n, err := w.list(t); kind(err) != cloud.Unclear || n != 0 {
		t.Errorf("a list with a pod that has no id: %d, %v", n, err)
	}
}

// TestMembers: a pod of a cluster, and one that is locked, are left alone.
func TestMembers(t *testing.T) {
	t.Parallel()
	w := open(t, cloudsim.Config{})
	id, err := w.rent(t)
	if err != nil {
		t.Fatal(err)
	}
	w.Spoil(id, "locked", true)
	if err := w.cloud.Stop(t.Context(), id); kind(err) != cloud.Refused {
		t.Errorf("a locked pod is stopped: %v", err)
	}
	w.Spoil(id, "cluster", map[string]any{"id": "c1", "rank": 0})
	for name, err := range map[string]error{
		"stop": w.cloud.Stop(t.Context(), id), "destroy": w.cloud.Destroy(t.Context(), id), "rejoin": w.cloud.Rejoin(t.Context(), id, "x"),
	} {
		if kind(err) != cloud.Refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCreates: what is made though it seems not, and what is not though it seems so.
func TestCreates(t *testing.T) {
	t.Parallel()
	cloudtest.CheckOrders(t, sim.Create, func() cloudtest.Orders {
		w := open(t, cloudsim.Config{})
		return cloudtest.Orders{Sim: w.Sim.Sim, Rent: func() error { _, err := w.rent(t); return err },
			List: func() (int, error) { return w.list(t) }, IsUnclear: func(err error) bool { return kind(err) == cloud.Unclear }}
	})
	w := open(t, cloudsim.Config{})
	for range 5 {
		if _, err := w.rent(t); err != nil {
			t.Fatal(err)
		}
	}
	_, err := w.cloud.Create(t.Context(), cloud.Order{Offer: cloud.Offer{ID: "secure/US-KS-2/2/NVIDIA+H100+80GB+HBM3"}, Name: "n"})
	if kind(err) != cloud.NoOffer {
		t.Errorf("a sixth pod on ten GPUs: %v", err)
	}
}

// TestKeys: a key that may only read is refused where it must write, and one that nobody knows everywhere.
func TestKeys(t *testing.T) {
	t.Parallel()
	w := open(t, cloudsim.Config{Keys: map[string][]string{cloudtest.Key: {sim.Read}}})
	if n, err := w.list(t); n != 0 || err != nil {
		t.Errorf("it lists %d, %v", n, err)
	}
	if err := w.cloud.Destroy(t.Context(), "pod00001"); kind(err) != cloud.KeyRefused {
		t.Errorf("it destroys: %v", err)
	}
	w = open(t, cloudsim.Config{Keys: map[string][]string{"another": nil}})
	if _, err := w.list(t); kind(err) != cloud.KeyRefused {
		t.Errorf("another's key: %v", err)
	}
}
