package api

import (
	"encoding/json"
	"time"

	"muster/agent/wire"
)

// NodeEvidence answers GET nodes/{node}/check: the newest evidence of a node, and what follows from it.
type NodeEvidence struct {
	Node     string         `json:"node"`
	NodeID   string         `json:"node_id"`
	Profile  string         `json:"profile"`  // assigned now; empty: none
	Evidence *wire.Evidence `json:"evidence"` // null: none was ever given
	At       *time.Time     `json:"at"`       // when it came, by the gateway's clock
	Digest   string         `json:"digest"`   // over the stable facts
	Current  bool           `json:"current"`  // it is of this boot, and for the profile of now
	Missing  []string       `json:"missing"`  // what the profile asks for and the evidence does not show, one line each
	Pending  string         `json:"pending"`  // id of a check that is under way; empty: none
	Tags     []Tag          `json:"tags"`
	Figures  []FigureBeside `json:"figures"` // of the newest acceptance, each beside its kind
}

// NodePlacement is what lists show of a node's place in the fleet's capacity.
type NodePlacement struct {
	Profile  string    `json:"profile"`  // empty: none
	Tags     []string  `json:"tags"`     // of its hardware
	Capacity string    `json:"capacity"` // one of the Capacities
	Reasons  []string  `json:"reasons"`  // why its capacity is so, one line each
	Holds    []GPUHold `json:"holds"`    // GPUs that are not free
}

// Capacities are what a node gives now: its state, its certificate, its evidence and its slots together.
const (
	CapacityOpen        = "open"        // something can be allocated
	CapacityFull        = "full"        // all that could be allocated is
	CapacityBlocked     = "blocked"     // nothing is free, and something could not be cleaned
	CapacityNone        = "none"        // no slot is approved
	CapacityUnproven    = "unproven"    // its evidence is not of now, or does not show what its profile asks for
	CapacitySilent      = "silent"      // it is not heard from
	CapacityDrained     = "drained"     // a person keeps it for no new work
	CapacityUnavailable = "unavailable" // its health, its certificate or its identity
	CapacityGone        = "gone"        // it has not joined yet, or was given back
)

// GPUHold says who has a GPU.
type GPUHold struct {
	GPU        string    `json:"gpu"` // UUID
	Allocation string    `json:"allocation"`
	Owner      string    `json:"owner"`
	Tenant     string    `json:"tenant"`
	State      string    `json:"state"` // allocated, cleaning or cleanup_blocked, as of a slot
	Since      time.Time `json:"since"` // of the allocation's claim
	EndsAt     time.Time `json:"ends_at"`
}

// HeldBy says who has a GPU of the node; nil: nobody.
func (g *NodeRow) HeldBy(uuid string) *GPUHold {
	if g.Placement == nil {
		return nil
	}
	for i := range g.Placement.Holds {
		if g.Placement.Holds[i].GPU == uuid {
			return &g.Placement.Holds[i]
		}
	}
	return nil
}

// Tag is a hardware tag, and what it follows from.
type Tag struct {
	Name string `json:"name"`
	From string `json:"from"` // one line, such as 8 x PCI 10de:2335
}

// FigureBeside is a figure of a node beside those of the nodes of its kind.
type FigureBeside struct {
	wire.Figure
	Median *float64 `json:"median"` // of the newest figures of the nodes with the same GPUs; null: it is alone
	Of     int      `json:"of"`     // how many nodes that is
}

// CheckRequest asks for evidence now.
type CheckRequest struct {
	Accept  bool     `json:"accept,omitempty"`  // also what proves that the machine is what is paid for
	Image   string   `json:"image,omitempty"`   // with Accept: a container that runs on all GPUs
	Command []string `json:"command,omitempty"` // in it
	Login   string   `json:"login,omitempty"`   // name of a secret for the image's registry
}

// CheckStarted answers a CheckRequest: the task that looks.
type CheckStarted struct {
	Task string `json:"task"`
}

// States of a Slot.
const (
	SlotProposed  = "proposed"  // nobody has approved it
	SlotApproved  = "approved"  // may be allocated, where Reason is empty
	SlotAllocated = "allocated" // one of its GPUs belongs to an allocation
	SlotCleaning  = "cleaning"  // the allocation has ended, and its GPUs are not yet looked at
	SlotBlocked   = "cleanup_blocked"
	SlotDisabled  = "disabled" // a person said so
)

// SlotStates are the states of a Slot.
func SlotStates() []string {
	return []string{SlotProposed, SlotApproved, SlotAllocated, SlotCleaning, SlotBlocked, SlotDisabled}
}

// Shapes of slots.
const (
	ShapeGPU  = "gpu"  // one GPU, or one part of a divided GPU, on the machine itself
	ShapeVM   = "vm"   // some GPUs for a virtual machine
	ShapeNode = "node" // the whole machine with all its GPUs
)

// Slot is a part of a node that can be allocated.
type Slot struct {
	ID         string     `json:"id"`
	Node       string     `json:"node"`
	NodeID     string     `json:"node_id"`
	Tenant     string     `json:"tenant"`
	Shape      string     `json:"shape"`
	Model      string     `json:"model"` // of its GPUs, such as h200-sxm
	SKUs       []string   `json:"skus"`  // that it is for
	State      string     `json:"state"`
	Reason     string     `json:"reason"` // why it is in this state, or takes no allocation; empty: it does
	Next       string     `json:"next"`   // what to do about that
	Units      []Unit     `json:"units"`
	Allocation string     `json:"allocation"` // that has it, or one of its GPUs; empty: none
	Evidence   string     `json:"evidence"`   // digest that it was proposed from
	Price      *float64   `json:"price_per_hour"`
	DecidedBy  string     `json:"decided_by"`
	DecidedAt  *time.Time `json:"decided_at"`
}

// Unit is one GPU, or one part of a divided one.
type Unit struct {
	PCI  string `json:"pci"`
	UUID string `json:"uuid"`
}

// SlotList answers GET slots.
type SlotList struct {
	Slots []Slot `json:"slots"`
	Next  string `json:"next"` // cursor of the next page, empty on the last
	Total int    `json:"total"`
}

// SlotFilter picks slots. A zero field does not count.
type SlotFilter struct {
	Selector string `json:"selector,omitempty"` // of nodes
	Node     string `json:"node,omitempty"`     // name or id
	State    string `json:"state,omitempty"`
	SKU      string `json:"sku,omitempty"`
	Tenant   string `json:"tenant,omitempty"`
	Limit    int    `json:"limit,omitempty" most:"1000" usual:"200"`
	Cursor   string `json:"cursor,omitempty"`
}

// SlotDecision approves or disables slots: those with these ids, or all of the nodes that the selector names.
type SlotDecision struct {
	Slots    []string `json:"slots,omitempty"`
	Selector string   `json:"selector,omitempty"`
	Node     string   `json:"node,omitempty"`
	Shape    string   `json:"shape,omitempty"` // only those; empty: any
	Disable  bool     `json:"disable,omitempty"`
	Reason   string   `json:"reason,omitempty"`
	DryRun   bool     `json:"dry_run,omitempty"`
}

// SlotsDecided answers a SlotDecision: the slots as they are now, and how many of them it changed.
type SlotsDecided struct {
	Slots   []Slot `json:"slots"`
	Changed int    `json:"changed"`
}

// SlotRule approves the slots of the nodes that a selector names, as soon as they are proposed.
type SlotRule struct {
	Name      string    `json:"name"`
	Selector  string    `json:"selector"`
	Shape     string    `json:"shape"` // only these; empty: any
	CreatedAt time.Time `json:"created_at"`
	CreatedBy string    `json:"created_by"`
}

// SlotRuleList answers GET slot-rules.
type SlotRuleList struct {
	Rules []SlotRule `json:"rules"`
}

// SlotRuleRequest sets a rule.
type SlotRuleRequest struct {
	Selector string `json:"selector"`
	Shape    string `json:"shape,omitempty"`
}

// SKU is a kind of slot, as it follows from tags, profile and shape now. It is stored nowhere.
type SKU struct {
	Name     string   `json:"name"`
	Shape    string   `json:"shape"`
	Model    string   `json:"model"`
	GPUs     int      `json:"gpus"`      // of one slot
	Nodes    int      `json:"nodes"`     // that have such slots
	Slots    int      `json:"slots"`     // that are approved or more
	Free     int      `json:"free"`      // that can be allocated now
	PriceMin *float64 `json:"price_min"` // per hour of one slot; null: not known
	PriceMax *float64 `json:"price_max"`
}

// SKUList answers GET skus.
type SKUList struct {
	SKUs []SKU `json:"skus"`
}

// SKUExplained answers GET skus/{sku}: which nodes qualify, which do not, and why not.
type SKUExplained struct {
	SKU
	Rules   []string     `json:"rules"`   // what a slot of this SKU is, one line each
	Nearest []string     `json:"nearest"` // SKUs that there are, where no node qualifies
	Counts  []SKUCount   `json:"counts"`  // nodes by why not, the most first
	List    []SKUVerdict `json:"list"`    // at most MostVerdicts, those that qualify first
}

// SKUCount counts the nodes that do not qualify for one reason.
type SKUCount struct {
	Why   string `json:"why"`
	Nodes int    `json:"nodes"`
}

// SKUVerdict says whether one node qualifies.
type SKUVerdict struct {
	Node  string   `json:"node"`
	Slots int      `json:"slots"`
	Free  int      `json:"free"`
	Why   []string `json:"why"` // why not, or why not all are free
}

// MostVerdicts is how many nodes a SKUExplained lists.
const MostVerdicts = 200

// States of an Allocation.
const (
	AllocationWaiting   = "waiting"
	AllocationAllocated = "allocated"
	AllocationReleasing = "releasing" // it has ended, and its GPUs are cleaned
	AllocationReleased  = "released"
)

// AllocationStates are the states of an Allocation.
func AllocationStates() []string {
	return []string{AllocationWaiting, AllocationAllocated, AllocationReleasing, AllocationReleased}
}

// Wish is what an allocation is to be made of.
type Wish struct {
	SKU      string   `json:"sku,omitempty"`
	GPU      string   `json:"gpu,omitempty"` // model of GPUs, such as h100
	Count    int      `json:"count"`         // of slots of the SKU, or of GPUs; 0: one
	Selector string   `json:"selector,omitempty"`
	MaxPrice *float64 `json:"max_price,omitempty"` // per hour, of all of it
	Spread   bool     `json:"spread,omitempty"`    // the GPUs may be on several nodes
	Rent     bool     `json:"rent,omitempty"`      // what no free slot can serve is rented, within the limits, and given back at its end
}

// NewAllocation asks for GPUs.
type NewAllocation struct {
	// ID is chosen by the caller, so that the same request again gives the same allocation. Empty: the gateway chooses.
	ID     string `json:"id,omitempty"`
	Tenant string `json:"tenant,omitempty"` // empty: the account's; an account of all tenants names one
	Wish
	TTLSeconds int    `json:"ttl_seconds,omitempty"` // from the claim; 0: the operator's default
	Priority   int    `json:"priority,omitempty"`    // the higher is served first; -100 to 100; above 0 needs placement:write
	Wait       bool   `json:"wait,omitempty"`        // in the queue, where it cannot be placed now
	DryRun     bool   `json:"dry_run,omitempty"`     // only say what it would get or wait for
	Note       string `json:"note,omitempty"`

	User   *AllocationUser `json:"user,omitempty"`   // account that its owner gets on each node
	Launch *Launch         `json:"launch,omitempty"` // what each node runs as soon as it is allocated
}

// Launch is a workload that is started on exactly the GPUs of an allocation.
type Launch struct {
	Type   string          `json:"type"`   // wire.TaskWorkloadLaunch or wire.TaskWorkloadProcess
	Params json.RawMessage `json:"params"` // without gpus and allocation
}

// AllocationUser is an account on the nodes of an allocation.
type AllocationUser struct {
	Name string   `json:"name"`
	Keys []string `json:"ssh_public_keys"`
	Sudo bool     `json:"sudo,omitempty"`
}

// Allocation is GPUs that belong to somebody until a time.
type Allocation struct {
	ID         string           `json:"id"`
	Owner      string           `json:"owner"` // the account
	Tenant     string           `json:"tenant"`
	SKU        string           `json:"sku"` // that was asked for; empty: by model
	Wish       Wish             `json:"wish"`
	Priority   int              `json:"priority"`
	Note       string           `json:"note"`
	State      string           `json:"state"`
	Slots      []AllocatedSlot  `json:"slots"`
	TTLSeconds int              `json:"ttl_seconds"`
	CreatedAt  time.Time        `json:"created_at"`
	ClaimedAt  *time.Time       `json:"claimed_at"`
	EndsAt     *time.Time       `json:"ends_at"`  // null: it waits
	EndedAt    *time.Time       `json:"ended_at"` // when it was released or expired
	EndedWhy   string           `json:"ended_why"`
	WaitsFor   string           `json:"waits_for"` // one line; empty: nothing
	Ahead      int              `json:"ahead"`     // allocations that are served before it, while it waits
	PerHour    *float64         `json:"price_per_hour"`
	User       *AllocationUser  `json:"user"`
	Launch     *Launch          `json:"launch"`
	Tasks      []AllocationTask `json:"tasks"` // that make its users, and clean up after it; in lists empty
	Warned     bool             `json:"warned"`
}

// AllocatedSlot is a slot of an allocation.
type AllocatedSlot struct {
	Slot   string   `json:"slot"`
	Node   string   `json:"node"`
	NodeID string   `json:"node_id"`
	GPUs   []string `json:"gpus"`   // UUIDs
	State  string   `json:"state"`  // allocated, cleaning or cleanup_blocked
	Reason string   `json:"reason"` // why it is not clean
	Next   string   `json:"next"`
}

// AllocationTask is a task that an allocation asked for.
type AllocationTask struct {
	ID     string `json:"id"`
	Node   string `json:"node"`
	Type   string `json:"type"`
	Status string `json:"status"`
	Error  string `json:"error"`
}

// AllocationList answers GET allocations, the newest first.
type AllocationList struct {
	Allocations []Allocation `json:"allocations"`
	Next        string       `json:"next"` // cursor of the next page, empty on the last
	Total       int          `json:"total"`
}

// AllocationFilter picks allocations. A zero field does not count.
type AllocationFilter struct {
	Owner  string `json:"owner,omitempty"`
	Tenant string `json:"tenant,omitempty"`
	State  string `json:"state,omitempty"`
	Node   string `json:"node,omitempty"`
	All    bool   `json:"all,omitempty"` // released ones too
	Limit  int    `json:"limit,omitempty" most:"1000" usual:"100"`
	Cursor string `json:"cursor,omitempty"`
}

// ExtendRequest moves the end of an allocation. One of the two is given.
type ExtendRequest struct {
	Seconds int        `json:"seconds,omitempty"` // from its end of now
	Until   *time.Time `json:"until,omitempty"`
}

// Quota is how many GPUs a tenant may have at once.
type Quota struct {
	Tenant string `json:"tenant"`
	GPUs   *int   `json:"gpus"` // null: it has no quota
	Used   int    `json:"used"` // allocated, or not yet clean again
}

// QuotaList answers GET quotas: the tenants with a quota, and those that have GPUs.
type QuotaList struct {
	Quotas []Quota `json:"quotas"`
}

// QuotaRequest sets a quota; null removes it.
type QuotaRequest struct {
	GPUs *int `json:"gpus"`
}

// SlotShapes are the shapes of slots.
func SlotShapes() []string { return []string{ShapeGPU, ShapeVM, ShapeNode} }
