package provider_test

import (
	"time"

	"muster/gateway/api/providers"
)

const (
	rentalID = "4sl5ucv6e2vnxq7a"
	longNode = "a-node-whose-name-has-all-of-the-sixty-three-letters-that-it-may"
)

func at(hours float64) *time.Time {
	t := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC).Add(time.Duration(hours * float64(time.Hour)))
	return &t
}

func some[T any](v T) *T { return &v }

// accounts are one that is seen, one that fails and one that is new.
func accounts() providers.List {
	return providers.List{Providers: []providers.Account{
		{Name: "vast", Kind: "vast_ai", Tenant: "research", URL: "https://console.vast.ai", CreatedAt: *at(-50), CreatedBy: "account:ada",
			SyncedAt: at(-.01), Instances: some(3), PerHour: some(6.25), Limit: some(20.0), Known: true},
		{Name: "lab", Kind: "runpod", Tenant: "default", CreatedAt: *at(-5), SyncedAt: at(-2), FailedAt: at(-1), Instances: some(1),
			Error: "HTTP 503: \x1b[31mbusy (unclear)"},
		{Name: "new", Kind: "lambda", Tenant: "default", CreatedAt: *at(0)}}}
}

func silentOne() providers.Instance {
	return providers.Instance{Provider: "vast", Kind: "vast_ai", ID: "39467543", Name: "muster-x", Tenant: "research", State: "running",
		RawState: "running", Host: "m-7", Region: "DE", GPU: "H100 SXM", GPUs: 8, PerHour: some(2.125), Storage: some(0.05), StartedAt: at(-30),
		SSH: "root@ssh4.vast.ai:39467", SeenAt: *at(-.01), Node: "gpu-7", NodeID: "id-gpu-7", Status: "stale", Rental: rentalID,
		Lease: &providers.Lease{State: providers.LeaseLive, EndsAt: *at(3), Act: providers.ActDestroy}}
}

func machines() providers.InstanceList {
	second := providers.Instance{Provider: "vast", Kind: "vast_ai", ID: "2", State: "stopped", RawState: "exited", GPU: "RTX 4090", GPUs: 1,
		Storage: some(0.02), SeenAt: *at(-.01)}
	return providers.InstanceList{SyncedAt: at(-.01), Known: true, Instances: []providers.Instance{silentOne(), second,
		{Provider: "vast", Kind: "vast_ai", ID: "3", State: "unknown", RawState: "frobnicated\x1b[31m", Node: longNode, NodeID: "id-3",
			Status: "online"}}}
}

func thePlan() providers.Plan {
	return providers.Plan{Providers: accounts().Providers, PerDay: 51, Findings: []providers.Finding{
		{Kind: providers.FoundBilledSilent, Severity: "severe", Provider: "vast", Instance: "39467543", Node: "gpu-7", NodeID: "id-gpu-7",
			Tenant: "research", Since: *at(-2), Text: "it runs for 2.125 an hour, and its node is stale since 08:00",
			PerDay: some(51.0), Next: "muster provider onboard vast/39467543"},
		{Kind: providers.FoundNeverEnrolled, Severity: "warn", Provider: "vast", Instance: "9", Since: *at(-1),
			Text: "it runs, and no node is it",
			Next: "muster provider onboard vast/9"},
		{Kind: providers.FoundUnknown, Severity: "warn", Provider: "lab", Since: *at(-1), Text: "lab: not seen since 08:00",
			Next: "muster provider onboard vast/39467543"}},
		Unjudged: []providers.Unjudged{{Provider: "lab", Machines: 2, Why: "no complete view of the account is of now"},
			{Provider: "vast", Machines: 1, Why: "running for less than 15 minutes, and still to join"}},
		Foreign: []providers.Unjudged{{Provider: "vast", Machines: 1, Why: "rented by another gateway, or before this one was restored"}}}
}

func offers() providers.OfferList {
	return providers.OfferList{PerHour: 4.1, Offers: []providers.Offer{
		{ID: "101", Host: "m-7", Region: "DE", GPU: "H100 SXM", GPUs: 1, MemoryMiB: some(int64(81559)), PerHour: 2, Reliability: some(.993),
			Until: at(72), Known: "3 of its machines passed", Chosen: true},
		{ID: "102", Region: "US", GPU: "H100 SXM", GPUs: 1, PerHour: 2.1, Chosen: true},
		{ID: "103", Host: "m-9", GPU: "H100 SXM", GPUs: 1, PerHour: 1.5, Known: "bad: it did not boot"}}}
}

// rentingOne is a request of which so many machines are ready.
func rentingOne(ready int) providers.Rented {
	r := providers.Rented{ID: rentalID, Provider: "vast", Tenant: "research", Owner: "ada", GPU: "H100", GPUs: 1, Count: 2,
		State: providers.RentedRenting, Ready: ready, CreatedAt: *at(-.1), Spent: some(.42), Machines: []providers.Rental{
			{ID: "r-1", State: providers.RentalBooting, Provider: "vast", Instance: "11", Region: "DE", PerHour: 2, CreatedAt: *at(-.1)},
			{ID: "r-2", State: providers.RentalIntended, Provider: "vast", PerHour: 2.1, CreatedAt: *at(-.1)}}}
	for i := range ready {
		r.Machines[i].State = providers.RentalReady
		r.Machines[i].Node = "muster-" + r.Machines[i].ID
	}
	if ready == r.Count {
		r.State, r.DoneAt = providers.RentedDone, at(0)
	}
	return r
}
