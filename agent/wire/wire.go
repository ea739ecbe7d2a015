// Package wire holds what the agent and the gateway say to each other: paths, headers, requests, answers and error codes.
//
// Everything is JSON in UTF-8. Times are RFC 3339 in UTC. A number that could not be read is null, never 0, so measured values are
// pointers. Decoders ignore fields that they do not know, so that an old gateway serves a new agent and a new one an old agent.
//
// It also owns the names of the environment variables that the agent reads.
package wire

import (
	"encoding/json"
	"time"
)

// ProtocolVersion is one integer for the whole conversation. It grows when an old peer would misread a new one, not when
// a field is added.
//
//	1  2026-11  first version
//
// A gateway that raises it serves the previous version as well.
const ProtocolVersion = 1

// Headers of muster's own.
const (
	HeaderProof  = "Muster-Proof"  // HMAC over an answer to a register request
	HeaderAnswer = "Muster-Answer" // Ed25519 signature over an answer to a signed request
	HeaderEpoch  = "Muster-Epoch"  // the gateway's epoch of this start, in every answer
)

// AgentInfo describes the program that speaks.
type AgentInfo struct {
	Version string `json:"version"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
	Digest  string `json:"digest,omitempty"` // sha256:<hex> of the running binary

	// ReleaseEnds is the end of the newest pointer of its channel that this node has believed. Null: it has seen none yet. If it is left
	// out, the agent does not look at that.
	ReleaseEnds *time.Time `json:"release_ends"`
}

// RegisterRequest asks for an identity. Nonce is 16 random bytes in standard base64, new for every attempt. The CSR's key
// is made on the node and stays the same over retries: it is what makes a retry recognisable.
type RegisterRequest struct {
	Protocol   int               `json:"protocol"`
	Name       string            `json:"name"`
	Nonce      string            `json:"nonce"`
	Time       time.Time         `json:"time"`
	CSR        string            `json:"csr"` // PEM
	Labels     map[string]string `json:"labels,omitempty"`
	Provider   string            `json:"provider,omitempty"`
	InstanceID string            `json:"instance_id,omitempty"`
	Hardware   json.RawMessage   `json:"hardware,omitempty"` // a Hardware
	Agent      AgentInfo         `json:"agent"`
}

// Welcome answers a RegisterRequest: 201 for a new node, 200 for one that was known.
type Welcome struct {
	Protocol        int             `json:"protocol"`
	NodeID          string          `json:"node_id"`
	Enrolment       string          `json:"enrolment,omitempty"` // names this enrolment; tasks are bound to it
	Name            string          `json:"name"`
	Tenant          string          `json:"tenant"`
	Certificate     string          `json:"certificate"` // PEM, leaf first
	Generation      int             `json:"generation"`
	Roots           string          `json:"roots"`      // PEM bundle
	TrustKey        string          `json:"trust_key"`  // base64 Ed25519: signs sets and nothing else
	Trust           json.RawMessage `json:"trust"`      // the newest signed set: a sign.Envelope with a TrustSet
	AnswerKey       string          `json:"answer_key"` // base64 Ed25519
	Epoch           string          `json:"epoch"`
	Channel         string          `json:"channel"` // empty: no updates
	ChannelSequence int64           `json:"channel_sequence"`
	IntervalSeconds int             `json:"interval_seconds"`
	GPUsExpected    int             `json:"gpus_expected,omitempty"` // 0: the credential names no number
	Time            time.Time       `json:"time"`

	Gateways []string `json:"gateways,omitempty"` // as in a HeartbeatAnswer
}

// HeartbeatRequest reports that the agent is alive and, when it has a reading, what it saw. RunID is random per start of
// the agent. Counter grows by one with every heartbeat of that run. An empty Hardware leaves the last reading in place.
type HeartbeatRequest struct {
	RunID           string    `json:"run_id"`
	Counter         uint64    `json:"counter"`
	IntervalSeconds float64   `json:"interval_seconds"` // the pace this agent really keeps
	SkewMillis      int64     `json:"skew_ms"`          // gateway's clock minus the node's
	Agent           AgentInfo `json:"agent"`
	Cost            Cost      `json:"cost"`
	Notices         []string  `json:"notices,omitempty"` // what the agent misses, for a person

	// Health is what speaks against work on this node, such as HealthProbeHung. Null means that nobody has looked in this run:
	// that adds nothing and cures nothing. An empty list means that a look found nothing wrong.
	Health []string `json:"health"`
	// GPUsSeen is how many GPUs the last finished look knows to exist: rows that answer, rows that could not be read, and
	// devices that are named as lost. Nil: no look has told.
	GPUsSeen *int `json:"gpus_seen,omitempty"`
	// HealthDetail explains entries of Health to a person. The key is the entry. Each text has at most MaxHealthDetail bytes.
	HealthDetail map[string]string `json:"health_detail,omitempty"`

	Update *Update `json:"update,omitempty"` // nil: this agent cannot update itself

	// Unshipped says of sources that the gateway wants shipped why they are not: the owner forbids it, or they cannot be read. It has at
	// most MaxUnshipped entries of MaxUnshippedWhy bytes.
	Unshipped map[string]string `json:"unshipped,omitempty"`

	Hardware json.RawMessage `json:"hardware,omitempty"`
}

// Values of HeartbeatRequest.Health. Each is one word for what the gateway would otherwise have to find in the whole reading.
const (
	HealthProbeFailed     = "probe_failed"
	HealthProbeHung       = "probe_hung"
	HealthGPUCountDropped = "gpu_count_dropped" // fewer GPUs than expected answer, or nvidia-smi is gone while some are expected
	HealthGPUFault        = "gpu_fault"         // a GPU says that it must not be used: it is lost, waits for a reset, cannot remap memory
)

// Cost is what the agent itself takes from its node, and how steadily it runs there.
type Cost struct {
	RSSKiB      *int64  `json:"rss_kib"`
	CPUMillis   *int64  `json:"cpu_ms"`   // user and system since the start of this run, children left out
	ProbeMillis *int64  `json:"probe_ms"` // the last nvidia-smi, start to end
	Starts      *Starts `json:"starts"`   // nil: an older agent
}

// Starts counts how often the agent was started within the last StartsWindow.
type Starts struct {
	Recent  *int   `json:"recent"`        // with the start of this run, if that is so recent
	Crashes *int   `json:"crashes"`       // those of them that came after a run which had not ended as it should
	Why     string `json:"why,omitempty"` // how the last such run ended, at most MaxStartsWhy bytes; empty: there is none on record
}

// HeartbeatAnswer answers a heartbeat.
type HeartbeatAnswer struct {
	IntervalSeconds int       `json:"interval_seconds"`
	State           string    `json:"state"`
	StateReasons    []string  `json:"state_reasons,omitempty"`    // what holds the node there, such as ReasonConflict
	Tasks           int       `json:"tasks"`                      // how many tasks wait for this node
	Enrolment       string    `json:"enrolment,omitempty"`        // as in the Welcome, for nodes that enrolled before it stood there
	Name            string    `json:"name,omitempty"`             // the node's name now: an operator may rename it
	Release         string    `json:"release,omitempty"`          // digest of the wanted release; empty: stay with the present one
	Channel         string    `json:"channel,omitempty"`          // the node's channel, where the node has said another one
	ChannelSequence int64     `json:"channel_sequence,omitempty"` // with Channel: the node obeys no lower number on it
	Epoch           string    `json:"epoch"`
	Time            time.Time `json:"time"`
	Trust           int64     `json:"trust,omitempty"` // number of the newest trust set: a node with a lower one fetches GET /trust

	// GPUsExpected is how many GPUs the gateway's record of this node has. It replaces the number that the agent expects, up or down.
	// Nil: there is no record.
	GPUsExpected *int `json:"gpus_expected,omitempty"`

	Logs *LogShipping `json:"logs,omitempty"` // nil: the node ships nothing

	// Gateways are URLs that lead to this gateway, through others too. A node that cannot reach it by one of them tries the next one. The
	// list is the whole one, so that it replaces what the node knew. Without it the node knows only the URL that it has joined with.
	Gateways []string `json:"gateways,omitempty"`
}

// RenewRequest asks for the certificate of the next generation. Its key is a new one, saved before the request.
type RenewRequest struct {
	CSR string `json:"csr"`
}

// RenewAnswer carries the next certificate. The old one stays good until the new one is first used.
type RenewAnswer struct {
	Certificate string    `json:"certificate"` // PEM, leaf first
	Generation  int       `json:"generation"`
	Time        time.Time `json:"time"`
}

// AdoptRequest shows a certificate to a gateway that was restored from a backup and does not have it on record. The request is
// proven like any other of a node: by the certificate's own key.
type AdoptRequest struct {
	Certificate string `json:"certificate"` // PEM, leaf first
	Generation  int    `json:"generation"`  // as the node counts
}

// AdoptAnswer says that the certificate is on record now.
type AdoptAnswer struct {
	Generation int       `json:"generation"`
	Time       time.Time `json:"time"`
}

// LeaveAnswer confirms that the node is retired.
type LeaveAnswer struct {
	State string `json:"state"`
}

// Manifest lists the agents that a gateway can hand out.
type Manifest struct {
	Version   string     `json:"version"`
	Platforms []Platform `json:"platforms"`
}

// Platform is one agent binary.
type Platform struct {
	OS     string `json:"os"`
	Arch   string `json:"arch"`
	Size   int64  `json:"size"`   // bytes
	SHA256 string `json:"sha256"` // hex
	Path   string `json:"path"`   // relative to the gateway's URL
}

// TrustSet is the payload of a set that the trust key signs. It says which roots and which verifier keys nodes may believe. Sets are
// numbered from 1, and a node never goes back to a lower number. GET /trust serves {"sets":[sign.Envelope,...]}, oldest first.
type TrustSet struct {
	Number      int64     `json:"number"`
	IssuedAt    time.Time `json:"issued_at"`
	TrustDomain string    `json:"trust_domain"`
	TrustKey    string    `json:"trust_key"` // the key that signs the next set, base64 Ed25519
	Roots       string    `json:"roots"`     // PEM bundle
	AnswerKeys  []string  `json:"answer_keys"`
	TaskKeys    []string  `json:"task_keys"`
	ReleaseKeys []string  `json:"release_keys"`
}
