// Package providers has the shapes of the admin API that are about companies that rent machines: accounts with them, what they show and
// charge, what is rented of them, and the leases that end it.
package providers

import "time"

// Request adds an account with a company that rents machines.
type Request struct {
	Kind   string `json:"kind"`             // vast_ai, runpod or lambda
	Name   string `json:"name,omitempty"`   // empty: the kind's
	Tenant string `json:"tenant,omitempty"` // whose machines these are, empty: default
	Key    string `json:"key"`              // the API key: it is sealed, and never shown again
	URL    string `json:"url,omitempty"`    // of the company's API; empty: its usual one
	SSHKey string `json:"ssh_key,omitempty"`
}

// Account is an account with a company that rents machines.
type Account struct {
	Name      string     `json:"name"`
	Kind      string     `json:"kind"`
	Tenant    string     `json:"tenant"`
	URL       string     `json:"url"`
	CreatedAt time.Time  `json:"created_at"`
	CreatedBy string     `json:"created_by"`
	SyncedAt  *time.Time `json:"synced_at"`      // when all its instances were seen last; null: never
	FailedAt  *time.Time `json:"failed_at"`      // since when they cannot be seen; null: they can
	Error     string     `json:"error"`          // why not
	Instances *int       `json:"instances"`      // of the last complete view; null: there was none
	PerHour   *float64   `json:"price_per_hour"` // that counts against the limit now
	Limit     *float64   `json:"limit_per_hour"` // null: none
	Known     bool       `json:"known"`          // the view is of now

	KeyReplaced bool `json:"key_replaced,omitempty"` // of an answer to a Request: the account was there, and has another key now
}

// RemoveFilter says what becomes of the machines of an account that is removed.
type RemoveFilter struct {
	ForgetMachines bool `json:"forget_machines,omitempty"` // the company cannot be asked any more: they are given up, and may be charged on
}

// List answers GET providers.
type List struct {
	Providers []Account `json:"providers"`
}

// SpendingLimit bounds what machines may cost an hour.
type SpendingLimit struct {
	PerHour *float64 `json:"per_hour"` // null: no limit
}

// Spending is a limit and what is spent.
type Spending struct {
	Of      string   `json:"of"` // account NAME or tenant NAME
	PerHour *float64 `json:"limit_per_hour"`
	Now     float64  `json:"spent_per_hour"` // by what runs, and what is being rented
}

// SpendingList answers GET spending.
type SpendingList struct {
	Spending []Spending `json:"spending"`
}

// Instance is a machine as its company shows it, beside what muster knows of it.
type Instance struct {
	Provider  string     `json:"provider"` // name of the account
	Kind      string     `json:"kind"`
	ID        string     `json:"instance_id"`
	Name      string     `json:"name"`
	Tenant    string     `json:"tenant"`
	State     string     `json:"state"`     // in muster's words
	RawState  string     `json:"raw_state"` // in the company's
	Why       string     `json:"why"`
	Host      string     `json:"host"`
	Region    string     `json:"region"`
	GPU       string     `json:"gpu"`
	GPUs      int        `json:"gpus"`
	PerHour   *float64   `json:"price_per_hour"` // that is charged now
	Storage   *float64   `json:"storage_per_hour"`
	StartedAt *time.Time `json:"started_at"`
	EndsAt    *time.Time `json:"ends_at"` // by the company
	SSH       string     `json:"ssh"`     // USER@HOST:PORT; empty: none
	SeenAt    time.Time  `json:"seen_at"`
	Node      string     `json:"node"` // name of the node that says that it is this; empty: none
	NodeID    string     `json:"node_id"`
	Status    string     `json:"status"`  // of the node
	Rental    string     `json:"rental"`  // that muster made it for; empty: muster did not rent it
	Foreign   bool       `json:"foreign"` // it has the name of a rental that is not on record here: another gateway may have rented it
	Lease     *Lease     `json:"lease"`

	RejoinCosts string  `json:"rejoin_costs"` // what it loses when it starts again with another script; empty: it cannot
	Rejoin      *Rejoin `json:"rejoin"`       // the last time that it was to; null: never
}

// Rejoin says how far a machine is that is to start again with another script, and join the fleet.
type Rejoin struct {
	State   string     `json:"state"`
	AskedBy string     `json:"asked_by"`
	AskedAt time.Time  `json:"asked_at"`
	EndedAt *time.Time `json:"ended_at"`
	Why     string     `json:"why"` // why it has failed, or may
}

// States of a Rejoin.
const (
	RejoinAsked  = "asked"  // and its agent was not heard since
	RejoinJoined = "joined" // it is heard
	RejoinFailed = "failed"
)

// InstanceList answers GET providers/{provider}/instances.
type InstanceList struct {
	SyncedAt  *time.Time `json:"synced_at"` // what the list is of
	Known     bool       `json:"known"`
	Instances []Instance `json:"instances"`
	Gone      []string   `json:"gone"` // ids of nodes that are not retired, whose machines the account had and has no longer
}

// Acts on an instance, and of a lease at its end.
const (
	ActStart   = "start"
	ActStop    = "stop"
	ActDestroy = "destroy"
	ActKeep    = "keep"   // of a lease: only tell
	ActRejoin  = "rejoin" // of an instance: start again with a script that joins the fleet
)

// InstanceAct does something with an instance.
type InstanceAct struct {
	Act string `json:"act"` // ActStart, ActStop, ActDestroy or ActRejoin
}

// Kinds of what is found when the fleet is held against what companies charge. They are conditions too.
const (
	FoundBilledSilent  = "billed_silent"    // it runs there, and its node is not heard
	FoundNeverEnrolled = "never_enrolled"   // it runs there, and no node says that it is this
	FoundDown          = "down_at_provider" // its node is in the fleet, and it does not run there
	FoundGone          = "gone_at_provider" // its node is in the fleet, and it is not there
	FoundStorage       = "storage_billed"   // it is stopped, and its disk costs
	FoundEndsSoon      = "ends_soon"        // the company ends it
	FoundOutbid        = "outbid"
	FoundPrice         = "price_differs" // from the label
	FoundUnknown       = "provider_unknown"
	FoundEnding        = "lease_ending"
	FoundOverdue       = "lease_overdue" // its lease is over, and it is still there
)

// Finding is one thing that is wrong between the fleet and a company.
type Finding struct {
	Kind     string    `json:"kind"`
	Severity string    `json:"severity"`
	Provider string    `json:"provider"`
	Instance string    `json:"instance_id"` // empty: it is about the account
	Node     string    `json:"node"`
	NodeID   string    `json:"node_id"`
	Tenant   string    `json:"tenant"`
	Since    time.Time `json:"since"`
	Text     string    `json:"text"`
	PerDay   *float64  `json:"cost_per_day"` // null: not known
	Next     string    `json:"next"`         // the command that settles it
}

// Plan answers GET providers/plan.
type Plan struct {
	Providers []Account  `json:"providers"`
	Findings  []Finding  `json:"findings"`
	PerDay    float64    `json:"cost_per_day"` // of the findings and of what is being given back, where it is known, each machine once
	Unjudged  []Unjudged `json:"not_judged"`
	Foreign   []Unjudged `json:"foreign"` // machines that another gateway has rented: see Instance
}

// Unjudged are machines of an account of which nobody can say, or can say yet, whether something is wrong with them.
type Unjudged struct {
	Provider string  `json:"provider"`
	Instance string  `json:"instance_id,omitempty"` // of the one machine that is being given back
	Machines int     `json:"machines"`
	Why      string  `json:"why"`
	PerDay   float64 `json:"cost_per_day,omitzero"` // until it is gone; absent: nothing, or not known
}

// Lease is the time until which somebody has decided to pay for a machine.
type Lease struct {
	Provider    string     `json:"provider"`
	Instance    string     `json:"instance_id"`
	Node        string     `json:"node"`
	Tenant      string     `json:"tenant"`
	Owner       string     `json:"owner"`
	State       string     `json:"state"`
	EndsAt      time.Time  `json:"ends_at"`
	Act         string     `json:"act"`          // at the end: stop, destroy or keep
	IdleSeconds *int64     `json:"idle_seconds"` // it ends too when the machine is idle for so long; null: it does not
	Why         string     `json:"why"`          // why it ends or has ended, or why that does not work
	Tries       int        `json:"tries"`        // of the act
	TryAt       *time.Time `json:"try_at"`
	CreatedAt   time.Time  `json:"created_at"`
	EndedAt     *time.Time `json:"ended_at"` // when the company was seen to have done it
	Rental      string     `json:"rental"`
}

// States of a Lease.
const (
	LeaseLive     = "live"
	LeaseDraining = "draining" // it has ended: its node takes no new work, and has time to finish
	LeaseEnding   = "ending"   // the company was asked, and does not yet say that it is done
	LeaseEnded    = "ended"
)

// LeaseList answers GET leases.
type LeaseList struct {
	Leases []Lease `json:"leases"`
}

// LeaseFilter picks leases. A zero field does not count.
type LeaseFilter struct {
	Provider string `json:"provider,omitempty"`
	Tenant   string `json:"tenant,omitempty"`
	All      bool   `json:"all,omitempty"` // those that have ended too
}

// LeaseRequest puts a machine under a lease, or changes its lease. It names a node, or an account and an instance.
type LeaseRequest struct {
	Node        string `json:"node,omitempty"`
	Provider    string `json:"provider,omitempty"`
	Instance    string `json:"instance_id,omitempty"`
	TTLSeconds  int    `json:"ttl_seconds,omitempty"` // from now; 0: as it is
	AddSeconds  int    `json:"add_seconds,omitempty"` // to its end: extends it
	Act         string `json:"act,omitempty"`         // empty: as it is, else destroy for what muster has rented, stop for the rest
	IdleSeconds *int   `json:"idle_seconds,omitempty"`
	End         bool   `json:"end,omitempty"` // now
}

// Renting asks for machines. The same id again is the same request.
type Renting struct {
	ID         string            `json:"id,omitempty"`
	Provider   string            `json:"provider"` // name of the account
	Tenant     string            `json:"tenant,omitempty"`
	GPU        string            `json:"gpu"`
	GPUs       int               `json:"gpus,omitempty"`      // in one machine; 0: one, or as many as the offers have that are chosen
	MoreGPUs   bool              `json:"more_gpus,omitempty"` // a machine may have more
	Count      int               `json:"count,omitempty"`     // machines; 0: one
	MaxPrice   *float64          `json:"max_price"`           // an hour, of one machine
	Memory     int64             `json:"gpu_mib,omitempty"`
	Region     string            `json:"region,omitempty"`
	DiskGB     int               `json:"disk_gb,omitempty"`
	Bid        bool              `json:"interruptible,omitempty"`
	Image      string            `json:"image,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
	TTLSeconds int               `json:"ttl_seconds"`
	Act        string            `json:"act,omitempty"` // at the end of the lease
	IdleEnd    int               `json:"idle_seconds,omitempty"`
	Offers     []string          `json:"offers,omitempty"` // that a person has chosen; empty: the cheapest
	Plan       bool              `json:"plan,omitempty"`   // only show what it would rent
	NoAccept   bool              `json:"no_accept,omitempty"`
}

// Offer is a machine that can be rented now.
type Offer struct {
	ID          string     `json:"id"`
	Host        string     `json:"host"`
	Region      string     `json:"region"`
	GPU         string     `json:"gpu"`
	GPUs        int        `json:"gpus"`
	MemoryMiB   *int64     `json:"gpu_mib"`
	PerHour     float64    `json:"price_per_hour"`
	Reliability *float64   `json:"reliability"`
	Until       *time.Time `json:"until"`
	Known       string     `json:"known"` // what muster knows of the host from before
	Chosen      bool       `json:"chosen"`
	Misfit      string     `json:"misfit,omitempty"` // why it cannot be chosen
}

// OfferList answers GET offers, and a Renting that is a plan.
type OfferList struct {
	Offers  []Offer `json:"offers"`
	PerHour float64 `json:"price_per_hour"` // of those that are chosen
	Refused string  `json:"refused"`        // why a limit does not allow these; empty: it does
}

// OfferFilter asks for offers. A zero field does not count.
type OfferFilter struct {
	Provider string   `json:"provider"` // name of the account
	Tenant   string   `json:"tenant,omitempty"`
	GPU      string   `json:"gpu,omitempty"`
	GPUs     int      `json:"gpus,omitempty"`
	Count    int      `json:"count,omitempty"` // so many are chosen, the cheapest
	MaxPrice *float64 `json:"max_price,omitempty"`
	Memory   int64    `json:"gpu_mib,omitempty"`
	Region   string   `json:"region,omitempty"`
	DiskGB   int      `json:"disk_gb,omitempty"`
	Bid      bool     `json:"interruptible,omitempty"`
	Image    string   `json:"image,omitempty"`
	Offers   []string `json:"offers,omitempty"` // that are chosen

	// The rest changes no offer. It is checked as for a Renting.
	Labels     []string `json:"labels,omitempty"` // KEY=VALUE
	TTLSeconds int      `json:"ttl_seconds,omitempty"`
	Act        string   `json:"act,omitempty"`
	IdleEnd    int      `json:"idle_seconds,omitempty"`
}

// Rented is a request for machines, as far as it is.
type Rented struct {
	ID        string     `json:"id"`
	Provider  string     `json:"provider"`
	Tenant    string     `json:"tenant"`
	Owner     string     `json:"owner"`
	GPU       string     `json:"gpu"`
	GPUs      int        `json:"gpus"`
	Count     int        `json:"count"`
	State     string     `json:"state"` // renting, done or failed
	Ready     int        `json:"ready"`
	CreatedAt time.Time  `json:"created_at"`
	DoneAt    *time.Time `json:"done_at"`
	Why       string     `json:"why"`
	Spent     *float64   `json:"spent"` // an estimate, of all its machines
	Machines  []Rental   `json:"machines"`
}

// States of a Rented.
const (
	RentedRenting = "renting"
	RentedDone    = "done"
	RentedFailed  = "failed"
)

// Rental is one machine of such a request.
type Rental struct {
	ID        string     `json:"id"`
	State     string     `json:"state"`
	Provider  string     `json:"provider"`
	Instance  string     `json:"instance_id"` // empty: there is none yet
	Host      string     `json:"host"`
	Region    string     `json:"region"`
	Node      string     `json:"node"`
	PerHour   float64    `json:"price_per_hour"`
	CreatedAt time.Time  `json:"created_at"`
	ReadyAt   *time.Time `json:"ready_at"`
	EndedAt   *time.Time `json:"ended_at"`
	Why       string     `json:"why"` // what it waits for, or why it failed
	Spent     *float64   `json:"spent"`
}

// States of a Rental.
const (
	RentalIntended = "intended" // it is on record, and the company may have been asked
	RentalBooting  = "booting"  // it is there, and its agent was not heard
	RentalChecking = "checking" // it is a node, and its acceptance runs
	RentalReady    = "ready"
	RentalFailed   = "failed" // it is given back, or there never was one
	RentalEnded    = "ended"  // given back after its use
)

// RentedList answers GET rentals.
type RentedList struct {
	Rentals []Rented `json:"rentals"`
}

// CostRow is what a group of machines has cost.
type CostRow struct {
	Group      string   `json:"group"`
	Machines   int      `json:"machines"`
	Hours      float64  `json:"hours"`
	Rented     *float64 `json:"rented"`     // all of it, and the sum of the next five; null: not known
	Used       *float64 `json:"used"`       // of that, while its GPUs were seen at work; null: they were never seen
	Idle       *float64 `json:"idle"`       // while they were seen idle
	Silent     *float64 `json:"silent"`     // while it was not heard, and charged
	Storage    *float64 `json:"storage"`    // while only its disk was charged
	Unmeasured *float64 `json:"unmeasured"` // while it was heard, and nobody saw what its GPUs did
	Estimate   bool     `json:"estimate"`   // some of it is by price and time, or by a label
	Unpriced   int      `json:"unpriced"`   // machines whose price is not known: they are not in the sums
}

// CostReport answers GET costs.
type CostReport struct {
	By    string    `json:"by"`
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
	Rows  []CostRow `json:"rows"`
	Total CostRow   `json:"total"`
}

// CostReportFilter asks for a CostReport.
type CostReportFilter struct {
	By       string    `json:"by,omitempty"` // provider, tenant, or the key of a label
	Selector string    `json:"selector,omitempty"`
	Tenant   string    `json:"tenant,omitempty"`
	Since    time.Time `json:"since,omitzero"`
	Until    time.Time `json:"until,omitzero"`
}
