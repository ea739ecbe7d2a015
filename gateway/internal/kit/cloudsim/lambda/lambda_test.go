package lambda_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/gateway/internal/kit/cloudsim"
	"muster/gateway/internal/kit/cloudsim/cloudtest"
	sim "muster/gateway/internal/kit/cloudsim/lambda"
	"muster/gateway/internal/provider/cloud"
	"muster/gateway/internal/provider/cloud/call"
	"muster/gateway/internal/provider/cloud/lambda"
)

// world is a Lambda Cloud with an account.
type world struct {
	*sim.Sim
	cloudtest.World
	cloud *lambda.Cloud
}

func open(t *testing.T, c cloudsim.Config) *world {
	t.Helper()
	w := &world{}
	w.Sim = sim.New(w.Config(c),
		sim.Type{Name: "gpu_8x_h100_sxm5", GPU: "H100 (80 GB SXM5)", GPUs: 8, Cents: 2392, Free: map[string]int{"us-west-1": 3, "us-east-1": 0}},
		sim.Type{Name: "gpu_1x_a10", GPU: "A10 (24 GB PCIe)", GPUs: 1, Cents: 75, Free: map[string]int{"us-west-1": 1}},
	)
	var err error
	w.cloud, err = lambda.New(call.Account{URL: cloudtest.Serve(t, w.Sim) + "/api/v1", Key: cloudtest.Key, Now: w.Time, Sleep: w.Sleep})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) list(t *testing.T) (n int, err error) {
	err = w.cloud.List(t.Context(), func(some []cloud.Instance) { n += len(some) })
	return n, err
}

// rent launches an instance.
func (w *world) rent(t *testing.T) (string, error) {
	t.Helper()
	return w.cloud.Create(t.Context(), cloud.Order{
		Offer: cloud.Offer{ID: "gpu_8x_h100_sxm5/us-west-1"}, Name: "muster-x", Script: "#!/bin/sh\njoin\n", SSHKey: "k",
	})
}

func kind(err error) string {
	var failed *cloud.Error
	if errors.As(err, &failed) {
		return failed.Kind
	}
	return fmt.Sprint(err)
}

// TestLife: an instance is launched and given back. It is charged until it is gone.
func TestLife(t *testing.T) {
	t.Parallel()
	var told []string
	tell := func(what string) func(cloudsim.Machine) {
		return func(m cloudsim.Machine) { told = append(told, what+" "+strings.ReplaceAll(m.Script, "\n", ";")) }
	}
	w := open(t, cloudsim.Config{
		Boot: 25 * time.Minute, End: time.Minute, OnStart: tell("start"), OnStop: tell("stop"), OnDestroy: tell("destroy"),
	})
	offers, err := w.cloud.Offers(t.Context(), cloud.Want{GPU: "h100", GPUs: 8, GPUMiB: 81920})
	if err != nil || len(offers) != 1 || offers[0].ID != "gpu_8x_h100_sxm5/us-west-1" || offers[0].Price != 23_920_000 {
		t.Fatalf("the offers are %+v, %v", offers, err)
	}
	launched := w.Time()
	id, err := w.rent(t)
	if err != nil {
		t.Fatal(err)
	}
	destroy := func() error { return w.cloud.Destroy(t.Context(), id) }
	for _, step := range []struct {
		name string
		do   func() error
		wait time.Duration
		want string
	}{
		{"launched", func() error { return nil }, 0, cloud.Starting},
		{"booted", func() error { return nil }, 25 * time.Minute, cloud.Running},
		{"its process dies", func() error { w.Kill(id); return nil }, time.Hour, cloud.Running},
		{"its host is gone", func() error { w.Lose(id); return nil }, time.Hour, cloud.Broken},
		{"ends", destroy, 0, cloud.Ending},
		{"ends already", destroy, 0, cloud.Ending},
	} {
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		w.Wait(step.wait)
		i, err := w.cloud.Get(t.Context(), id)
		if err != nil || i.State != step.want || i.Name != "muster-x" || i.GPUs != 8 || i.StartedAt == nil || !i.StartedAt.Equal(launched) {
			t.Errorf("%s: %+v, %v", step.name, i, err)
		}
		if i.Price == nil || int64(*i.Price) != w.Rate() {
			t.Errorf("%s: it costs %v, and is charged %d", step.name, i.Price, w.Rate())
		}
	}
	w.Wait(time.Minute)
	if _, err := w.cloud.Get(t.Context(), id); kind(err) != cloud.NoSuch || w.Rate() != 0 {
		t.Errorf("an instance that is gone: %v, and %d is charged", err, w.Rate())
	}
	if err := destroy(); err != nil {
		t.Errorf("an instance that is gone is destroyed: %v", err)
	}
	if want := []string{"start #!/bin/sh;join;", "stop #!/bin/sh;join;", "destroy #!/bin/sh;join;"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}

// TestLists: under no fault do instances vanish.
func TestLists(t *testing.T) {
	t.Parallel()
	w := open(t, cloudsim.Config{})
	for range 3 {
		if _, err := w.rent(t); err != nil {
			t.Fatal(err)
		}
	}
	odd := []string{`{"data":null}`, `{"data":{}}`, `{"data":[null]}`, `{"data":[{}]}`, `{"data":[],"error":{"code":"global/internal-error"}}`,
		`{"data":[`, `{"error":{"code":"global/object-does-not-exist","message":"x"}}`, `{"data":[],"page_token":"x"}`, `{"data":[]}{"data":[]}`,
		`{"data":{"data":[]}}`, `{"data":[],"data":[]}`}
	cloudtest.CheckLists(t, w.Sim.Sim, sim.List, 3, odd, func() (int, error) { return w.list(t) })
}

// TestSpoilt: a field that cannot be spoils at most what it is about. An instance without an id spoils the list.
func TestSpoilt(t *testing.T) {
	t.Parallel()
	w := open(t, cloudsim.Config{})
	id, err := w.rent(t)
	if err != nil {
		t.Fatal(err)
	}
	for field, value := range map[string]any{"name": nil, "ip": "-x", "status": "odd", "region": nil, "instance_type": nil, "tags": nil} {
		w.Spoil(id, field, value)
	}
	i, err := w.cloud.Get(t.Context(), id)
	if err != nil || i.State != cloud.Unknown || i.Price != nil || i.StartedAt != nil || i.Region != "" || i.GPUs != 0 || i.SSH != nil {
		t.Errorf("it is %+v, %v", i, err)
	}
	w.Spoil(id, "id", nil)
	if n, err := w.list(t); kind(err) != cloud.Unclear || n != 0 {
		t.Errorf("a list with an instance that has no id: %d, %v", n, err)
	}
}

// TestEnds: an end that is promised and does not happen is seen, and so is one that happens though it seems not.
func TestEnds(t *testing.T) {
	t.Parallel()
	for fault, want := range map[string]struct {
		kind string
		left int
	}{
		"": {"<nil>", 0}, cloudsim.Nothing: {cloud.Unclear, 1}, cloudsim.Half: {"<nil>", 0}, cloudsim.Lost: {"<nil>", 0},
		cloudsim.Truncated: {"<nil>", 0}, cloudsim.HTML: {cloud.Unclear, 1},
	} {
		w := open(t, cloudsim.Config{})
		id, err := w.rent(t)
		if err != nil {
			t.Fatal(err)
		}
		w.Add(cloudsim.Fault{On: sim.Terminate, Kind: fault})
		err = w.cloud.Destroy(t.Context(), id)
		if n, bad := w.list(t); kind(err) != want.kind || n != want.left || bad != nil {
			t.Errorf("%s: %v, and there are %d, %v", fault, err, n, bad)
		}
	}
}

// TestLaunches: what is made though it seems not, and what is not though it seems so. Then there is no room.
func TestLaunches(t *testing.T) {
	t.Parallel()
	cloudtest.CheckOrders(t, sim.Launch, func() cloudtest.Orders {
		w := open(t, cloudsim.Config{})
		return cloudtest.Orders{Sim: w.Sim.Sim, Rent: func() error { _, err := w.rent(t); return err },
			List: func() (int, error) { return w.list(t) }, IsUnclear: func(err error) bool { return kind(err) == cloud.Unclear }}
	})
	w := open(t, cloudsim.Config{})
	for i, want := range []string{"<nil>", "<nil>", "<nil>", cloud.NoOffer} {
		if _, err := w.rent(t); kind(err) != want {
			t.Errorf("launch %d: %v, want %s", i, err, want)
		}
	}
}

// TestKeys: a key that nobody knows is refused.
func TestKeys(t *testing.T) {
	t.Parallel()
	w := open(t, cloudsim.Config{Keys: map[string][]string{"another": nil}})
	if _, err := w.list(t); kind(err) != cloud.KeyRefused {
		t.Errorf("another's key: %v", err)
	}
}
