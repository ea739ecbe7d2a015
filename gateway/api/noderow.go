// Package api has the shapes of the admin API: one Go type for each thing that the gateway is asked for or answers with. The listener
// sends them, the client reads them, and the command line and the console show them. It also has what both sides must agree on beside the
// shapes: scopes, states, media types, and how rows of nodes are counted and sorted.
package api

import (
	"time"

	"muster/agent/wire"
)

// NodeRow is what a list shows of a node: lists, tiles and the live stream show it. A value that is not known is null.
type NodeRow struct {
	ID           string            `json:"id"`
	Name         string            `json:"name"`
	Tenant       string            `json:"tenant"`
	Provider     string            `json:"provider"`
	InstanceID   string            `json:"instance_id"`
	Labels       map[string]string `json:"labels"`
	State        string            `json:"state"`
	StateReasons []string          `json:"state_reasons"`
	StateSince   time.Time         `json:"state_since"`
	Status       string            `json:"status"`
	Unheard      bool              `json:"unheard"` // as that of Node
	LastSeen     *time.Time        `json:"last_seen"`
	CreatedAt    time.Time         `json:"created_at"`
	AgentVersion string            `json:"agent_version"`
	Address      string            `json:"-"` // where its last heartbeat came from

	IntervalSeconds *float64   `json:"interval_seconds"` // between its heartbeats, as it says
	RenewalOverdue  bool       `json:"renewal_overdue"`
	NotAfter        *time.Time `json:"not_after"` // of its certificate

	Probe        string     `json:"probe"`         // state of the last look at the GPUs, one of wire.Probe's; empty: no reading
	ReadAt       *time.Time `json:"read_at"`       // when its rows of GPUs were read, by the gateway's clock
	Fresh        bool       `json:"fresh"`         // the node is online and was heard, and those rows are of now; else show their age
	GPUsExpected *int       `json:"gpus_expected"` // the gateway's record; null: none
	GPUs         []GPU      `json:"gpus"`          // null: not known; empty: it has none
	Xids         *wire.Xids `json:"-"`             // what the kernel said of its GPUs; nil: not known

	Runs          []wire.Run `json:"runs"` // programs that tasks have started on it; null: not known
	CPUs          *int       `json:"cpus"`
	MemoryUsedMiB *int64     `json:"memory_used_mib"` // of the host
	MemoryMiB     *int64     `json:"memory_total_mib"`
	DiskUsedMiB   *int64     `json:"disk_used_mib"`
	DiskMiB       *int64     `json:"disk_total_mib"`
	Load1         *float64   `json:"load1"`

	PricePerHour *float64   `json:"price_per_hour"` // by its label; null: no price, or none that can be read
	DownCost     *float64   `json:"down_cost"`      // an hour, while its company says that it does not run; null: it does not say that
	IdleSince    *time.Time `json:"idle_since"`     // since when all its GPUs are idle; null: not idle, or not known
	Today        *Today     `json:"today"`          // what was seen of it on this day; null: nothing, or not known yet
	Findings     []Finding  `json:"findings"`       // what is wrong with it, the severe first

	Placement *NodePlacement `json:"placement"` // null: nothing is known of what it is made of, and it has no profile
	BootTime  *time.Time     `json:"-"`         // of its machine, by the node's clock; nil: not known
}

// GPU is a GPU in such a line.
type GPU struct {
	Index              int        `json:"index"`
	UUID               string     `json:"uuid"`
	Name               string     `json:"name"`
	MemoryUsedMiB      *int64     `json:"memory_used_mib"`
	MemoryMiB          *int64     `json:"memory_total_mib"`
	MemoryFreeMiB      *int64     `json:"memory_free_mib"` // less than total less used: some is reserved
	MemorySource       string     `json:"memory_source"`   // one of wire.MemoryDevice and wire.MemoryUnified
	UtilizationPercent *float64   `json:"utilization_percent"`
	TemperatureCelsius *float64   `json:"temperature_celsius"`
	PowerWatts         *float64   `json:"power_watts"`
	PowerLimitWatts    *float64   `json:"power_limit_watts"`
	MIG                *bool      `json:"mig"`
	Health             []string   `json:"health"`     // what is wrong with it, in the agent's words
	Use                string     `json:"use"`        // one of the Uses; empty: not known
	IdleSince          *time.Time `json:"idle_since"` // null: not idle, or not known
	Row                *wire.GPU  `json:"-"`          // all that the node said of it; nil: nothing. Nobody changes it
}

// Uses of a GPU, by its last reading.
const (
	UseIdle  = "idle"  // nothing works on it, and has not for ten minutes
	UseQuiet = "quiet" // nothing works on it, but not for so long yet
	UseBusy  = "busy"  // or a program keeps it for itself
)

// RunOn is the name of the program that keeps a GPU of the node for itself; empty: none is known.
func (g *NodeRow) RunOn(uuid string) string {
	for _, r := range g.Runs {
		if r.Holds(uuid) {
			return r.Name
		}
	}
	return ""
}

// Severities of a Finding.
const (
	SeverityNote   = wire.SeverityNote
	SeverityWarn   = wire.SeverityWarn
	SeveritySevere = wire.SeveritySevere
)

// Finding is one thing that is wrong with a node, found by a rule.
type Finding struct {
	Rule     string    `json:"rule"`
	Severity string    `json:"severity"`
	GPU      string    `json:"gpu"` // UUID; empty: it is about the node
	Since    time.Time `json:"since"`
	Text     string    `json:"text"`  // one sentence: what is wrong, with the value
	Next     string    `json:"next"`  // one sentence: what to do
	Topic    string    `json:"topic"` // of muster help
	Old      bool      `json:"old"`   // the node is not heard from: this may be different by now
}

// Totals counts what matches a query.
type Totals struct {
	Nodes         int            `json:"nodes"`
	States        map[string]int `json:"states"`
	Statuses      map[string]int `json:"statuses"`
	Unheard       int            `json:"unheard"`       // of those that are online: not heard since the gateway's start or restore
	Findings      map[string]int `json:"findings"`      // nodes by their worst severity
	GPUsExpected  int            `json:"gpus_expected"` // where there is a record
	GPUsSeen      int            `json:"gpus_seen"`     // in readings that are of now
	GPUsUnknown   int            `json:"gpus_unknown"`  // nodes without a reading of now
	GPUsIdle      int            `json:"gpus_idle"`
	GPUsQuiet     int            `json:"gpus_quiet"`
	GPUsBusy      int            `json:"gpus_busy"`
	MemoryUsedMiB int64          `json:"memory_used_mib"` // of the GPUs that say it
	MemoryMiB     int64          `json:"memory_total_mib"`
	Rent

	// Each of these is the sum of what is known; null: it is known nowhere.
	PowerWatts    *float64 `json:"power_watts"`     // of the GPUs that say it
	IdleCostToday *float64 `json:"idle_cost_today"` // as far as it was watched
	CostToday     *float64 `json:"cost_today"`      // the prices, while the nodes were heard from

	UtilizationPercent *float64 `json:"utilization_percent"` // mean of the GPUs that say it; null: none does
}
