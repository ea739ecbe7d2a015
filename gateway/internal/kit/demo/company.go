package main

import (
	"net/http"
	"time"

	"muster/gateway/internal/kit/cloudsim"
	"muster/gateway/internal/kit/cloudsim/guest"
	"muster/gateway/internal/kit/cloudsim/lambda"
	"muster/gateway/internal/kit/cloudsim/runpod"
	"muster/gateway/internal/kit/cloudsim/vast"
)

const (
	key = "key-of-the-demo" // of all accounts
	mib = 81559             // of one H100
)

// company is a simulated one.
type company struct {
	kind string
	path string // of its API
	sim  interface {
		http.Handler
		Tick()
		Control() http.Handler
	}
	address string
}

func (c *company) url() string { return "http://" + c.address + c.path }

// companies are simulators whose machines are guests.
func companies(g *guest.Guests) []*company {
	c := cloudsim.Config{Keys: map[string][]string{key: nil}, Boot: 3 * time.Second, Halt: 2 * time.Second, End: 3 * time.Second,
		Limits: true, OnStop: g.Stop, OnDestroy: g.Stop,
		OnStart: func(m cloudsim.Machine) {
			m.MiB = mib // not every company says it
			g.Start(m)
		}}
	h100 := runpod.GPU{ID: "NVIDIA H100 80GB HBM3", Name: "H100 SXM", Memory: 80, Secure: 2.99, Community: 2.49, Most: 8,
		Free: map[string]int{"EU-NL-1": 8, "US-KS-2": 4}}
	return []*company{
		{kind: "vast_ai", sim: vast.New(c, hosts()...)},
		{kind: "runpod", path: "/v2", sim: runpod.New(c, h100)},
		{kind: "lambda", path: "/api/v1", sim: lambda.New(c, lambda.Type{Name: "gpu_1x_h100_sxm5", GPU: "H100 (80 GB SXM5)", GPUs: 1, Cents: 329,
			Free: map[string]int{"us-west-1": 3, "europe-central-1": 1}})},
	}
}

// lacking is a host of 8 GPUs that has 7 of them only, so it does not pass acceptance.
const lacking = "109"

// hosts are what people rent out at vast.ai.
func hosts() (all []vast.Host) {
	add := func(count int, of vast.Host) {
		for range count {
			of.ID = int64(len(all)) + 101
			all = append(all, of)
			of.Price += of.Price / 50
		}
	}
	add(6, vast.Host{GPU: "H100 SXM", GPUs: 1, MiB: mib, Price: 2_010_000, MinBid: 1_200_000, Disk: 150, Place: "Prague, CZ"})
	add(2, vast.Host{GPU: "H100 SXM", GPUs: 1, MiB: mib, Price: 2_650_000, Disk: 150, Place: "Oregon, US"})
	add(3, vast.Host{GPU: "H100 SXM", GPUs: 8, MiB: mib, Price: 16_400_000, Disk: 150, Place: "Oregon, US"})
	return all
}
