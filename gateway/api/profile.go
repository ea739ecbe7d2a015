package api

import "time"

// Names of the profiles that are built in.
const (
	ProfileContainer = "container"
	ProfileSliceVM   = "gpuaas-profile-slice-vm"
	ProfileBareMetal = "gpuaas-profile-baremetal"
)

// Profile says what a kind of host must show, what cloud-init does for it, and which slots it gives. A node has at most one.
type Profile struct {
	Name        string       `json:"name"`
	About       string       `json:"about"`
	Checks      []string     `json:"checks"`     // that evidence must show as ok; names of wire.HostChecks
	Acceptance  bool         `json:"acceptance"` // evidence must also show that the machine is what is paid for
	Slots       ProfileSlots `json:"slots"`
	CloudConfig string       `json:"cloud_config"` // cloud-init's user data for such a host; empty: nothing
	Erase       bool         `json:"erase"`        // MAAS erases its disks when it is given back
	Restart     bool         `json:"restart"`      // it counts from the next boot on: a machine that MAAS installs restarts before it joins
	BuiltIn     bool         `json:"built_in"`
	Nodes       int          `json:"nodes"` // that have it
	UpdatedAt   *time.Time   `json:"updated_at"`
	UpdatedBy   string       `json:"updated_by"`
}

// ProfileSlots say which slots a host gives.
type ProfileSlots struct {
	Shapes []string `json:"shapes"` // of the Shapes of slots
	Sizes  []int    `json:"sizes"`  // GPUs of one slot of ShapeVM; empty: 1
}

// ProfileList answers GET profiles.
type ProfileList struct {
	Profiles []Profile `json:"profiles"`
}

// AssignRequest gives nodes a profile, or takes it from them.
type AssignRequest struct {
	Nodes    []string `json:"nodes,omitempty"` // names or ids
	Selector string   `json:"selector,omitempty"`
	Profile  string   `json:"profile"` // empty: none
}

// Assigned answers an AssignRequest: what happened for each node.
type Assigned struct {
	Nodes []AssignedNode `json:"nodes"`
}

// AssignedNode is one node of an Assigned.
type AssignedNode struct {
	Node    string `json:"node"`
	Before  string `json:"before"`
	Profile string `json:"profile"`
	Task    string `json:"task"`    // that looks whether the node is as the profile asks; empty: it is not heard from
	Refused string `json:"refused"` // why it kept what it had; empty: it did not
}
