package api

import "time"

// RecoveryRequest lets a node back in. For this time (zero: an hour) its expired certificate may renew, or another machine may take over
// its name, once. Fingerprint, or its first 8 or more digits, ends an identity conflict: that certificate stays.
type RecoveryRequest struct {
	Fingerprint string   `json:"fingerprint,omitempty"`
	For         Duration `json:"for,omitempty"`
}

// NodeDetail is a node as GET nodes/{node} shows it: with the certificates and the agents' runs that were seen of it.
type NodeDetail struct {
	Node
	Certificates []NodeCertificate `json:"certificates"` // of its present enrolment, newest first
	Runs         []NodeRun         `json:"runs"`         // heard last first
	Findings     []Finding         `json:"findings"`     // what is wrong with it, the severe first
	Today        *Today            `json:"today"`        // what was seen of it on this day; null: nothing, or not known yet
}

// NodeCertificate is one certificate on record.
type NodeCertificate struct {
	Fingerprint string     `json:"fingerprint"`
	Generation  int        `json:"generation"`
	Status      string     `json:"status"` // pending, current, superseded or revoked
	IssuedAt    time.Time  `json:"issued_at"`
	NotAfter    time.Time  `json:"not_after"`
	FirstUsedAt *time.Time `json:"first_used_at"`
	EndedAt     *time.Time `json:"ended_at"`
	Recovery    bool       `json:"recovery"` // issued to an expired one
}

// NodeRun is one start of an agent that showed the node's identity. Two runs that go on at the same time are two machines.
type NodeRun struct {
	RunID       string    `json:"run_id"`
	Fingerprint string    `json:"fingerprint"`
	Address     string    `json:"address"`
	FirstHeard  time.Time `json:"first_heard"`
	LastHeard   time.Time `json:"last_heard"`
}
