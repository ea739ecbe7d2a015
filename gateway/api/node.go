package api

import (
	"encoding/json"
	"fmt"
	"time"
)

// Node is a node as the API shows it. Hardware is what the node reported; null: it never did.
type Node struct {
	ID           string            `json:"id"`
	Name         string            `json:"name"`
	Tenant       string            `json:"tenant"`
	Labels       map[string]string `json:"labels"`
	Provider     string            `json:"provider"`
	InstanceID   string            `json:"instance_id"`
	State        string            `json:"state"`
	StateReasons []string          `json:"state_reasons"`
	StateDetails map[string]string `json:"state_details"` // by reason: what is known beyond the reason
	StateSince   time.Time         `json:"state_since"`
	Status       string            `json:"status"`
	Unheard      bool              `json:"unheard"` // it counts as online, but was not heard since the gateway's start or restore
	LastSeen     *time.Time        `json:"last_seen"`
	CreatedAt    time.Time         `json:"created_at"`
	EnrolledAt   *time.Time        `json:"enrolled_at"` // null: it has not joined yet
	RetiredAt    *time.Time        `json:"retired_at"`  // null: it is not given back
	Banned       bool              `json:"banned"`
	Recoveries   int               `json:"recoveries"` // renewals with an expired certificate
	Address      string            `json:"address"`
	SkewMillis   *int64            `json:"skew_ms"` // gateway's clock minus the node's
	Notices      []string          `json:"notices"` // what is wrong on the machine, in the agent's words
	Cost         json.RawMessage   `json:"cost"`    // a wire.Cost
	Agent        *Agent            `json:"agent"`
	Update       *NodeUpdate       `json:"update"` // null: nothing is known of releases
	Certificate  *Certificate      `json:"certificate"`
	Enrolment    string            `json:"enrolment"` // its last one, for a task that is signed elsewhere; empty: none

	GPUsExpected    *int     `json:"gpus_expected"`    // the gateway's record of how many GPUs it has; null: none
	PricePerHour    *float64 `json:"price_per_hour"`   // by its label; null: no price, or none that can be read
	DownCost        *float64 `json:"down_cost"`        // as that of NodeRow
	IntervalSeconds *float64 `json:"interval_seconds"` // between its heartbeats, as it says

	RecoveryUntil *time.Time `json:"recovery_until"` // until when an operator lets it back in

	Placement *NodePlacement `json:"placement"` // null: nothing is known of what it is made of, and it has no profile

	Hardware json.RawMessage `json:"hardware"` // a wire.Hardware
}

// Agent is the program that a node runs.
type Agent struct {
	Version string `json:"version"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
	Digest  string `json:"digest"`
}

// NodeUpdate says how far a node is with the release of its channel.
type NodeUpdate struct {
	Channel  string     `json:"channel"`
	Sequence int64      `json:"seq"`     // the highest number that it has obeyed there
	Digest   string     `json:"digest"`  // of the release that it last spoke about; empty: none
	Version  string     `json:"version"` // of that release
	Phase    string     `json:"phase"`   // of that: one of wire.UpdatePhases
	Code     string     `json:"code"`    // why it did not go on: one of wire.UpdateCodes
	Detail   string     `json:"detail"`
	At       *time.Time `json:"at"`   // when it said so
	Held     string     `json:"held"` // why it gets nothing now
	Pinned   bool       `json:"pinned"`
	Unable   bool       `json:"unable"` // its agent cannot update itself
}

// Certificate is a node's current identity.
type Certificate struct {
	Fingerprint string    `json:"fingerprint"`
	NotAfter    time.Time `json:"not_after"`
	Generation  int       `json:"generation"`

	RenewalOverdue bool `json:"renewal_overdue"` // it should have been renewed by now
}

// NodePage is one page of a list of nodes.
type NodePage struct {
	Nodes []Node `json:"nodes"`
	Next  string `json:"next"` // cursor of the next page, empty on the last
	Total int    `json:"total"`
}

// NodeRows is a NodePage whose nodes are as the gateway sent them, so that fields which this client does not know are kept.
type NodeRows struct {
	Nodes []json.RawMessage `json:"nodes"`
	Next  string            `json:"next"`
	Total int               `json:"total"`
}

// NodeFilter picks nodes. A zero field does not count.
type NodeFilter struct {
	Selector string `json:"selector,omitempty"`
	Status   string `json:"status,omitempty"`
	State    string `json:"state,omitempty"`
	All      bool   `json:"all,omitempty"` // retired ones too
	Limit    int    `json:"limit,omitempty" most:"1000" usual:"100"`
	Cursor   string `json:"cursor,omitempty"`
}

// ReadNode reads a node as the gateway sent it.
func ReadNode(raw json.RawMessage) (Node, error) {
	var n Node
	if err := json.Unmarshal(raw, &n); err != nil {
		return n, fmt.Errorf("a node in the gateway's answer is not as this version expects: %w", err)
	}
	return n, nil
}

// LabelsRequest changes a node's labels as the operator.
type LabelsRequest struct {
	Set    map[string]string `json:"set,omitempty"`
	Remove []string          `json:"remove,omitempty"`
}

// RenameRequest gives a node another name.
type RenameRequest struct {
	Name string `json:"name"`
}

// RenamedNode answers a RenameRequest.
type RenamedNode struct {
	Node Node     `json:"node"`
	Old  []string `json:"old"` // what the caller may see and still goes by the old name, such as "health rule gpu_hot, selector name=gpu-7"
}

// NodePatch changes what is on record of a node: how many GPUs it has. GPUsExpected is a person's word and stands until another one,
// or until the node enrols anew; GPUsAsSeen goes back to the highest number that is seen from now on.
type NodePatch struct {
	GPUsExpected *int `json:"gpus_expected,omitempty"`
	GPUsAsSeen   bool `json:"gpus_as_seen,omitempty"`
}
