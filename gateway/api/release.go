package api

import (
	"encoding/json"
	"time"

	"muster/agent/wire"
)

// Release is a build of the agent as the API shows it.
type Release struct {
	Digest    string    `json:"digest"` // of its OCI index
	Version   string    `json:"version"`
	Channels  []string  `json:"channels"`  // that point at it
	Platforms []string  `json:"platforms"` // os/arch
	Size      int64     `json:"size"`      // bytes of the index
	SignedBy  string    `json:"signed_by"` // id of the key that signed the newest pointer to it; empty: none does
	CreatedAt time.Time `json:"created_at"`
	CreatedBy string    `json:"created_by"`
	Reference string    `json:"reference"` // where it is, if not in the gateway's own repository: host/repository
	Carried   bool      `json:"carried"`   // the gateway brought it

	Programs []wire.ReleasePlatform `json:"programs"` // what a node fetches, for each platform
}

// ReleaseList answers GET node-agent-releases, the newest first.
type ReleaseList struct {
	Releases []Release `json:"releases"`
}

// NewRelease makes a release of what is in a registry.
type NewRelease struct {
	Digest     string `json:"digest"`
	Version    string `json:"version,omitempty"`    // empty: as its index says
	Channel    string `json:"channel,omitempty"`    // that shall point at it at once; empty: none
	Reference  string `json:"reference,omitempty"`  // host/repository of another registry; empty: the gateway's own muster/agent
	Credential string `json:"credential,omitempty"` // name of the credential for that registry
}

// Waves says in which waves a rollout lets nodes in. An empty Canary: there is none.
type Waves struct {
	Canary      string   `json:"canary,omitempty"` // the first wave: a count, or a percentage of the nodes
	Steps       []string `json:"steps,omitempty"`  // the waves after it: rising percentages of all nodes
	SoakSeconds *int     `json:"soak_seconds,omitempty"`
	MaxFailed   string   `json:"max_failed,omitempty"` // so many nodes of a wave may fail: a count or a percentage
	GoBack      bool     `json:"go_back,omitempty"`    // where more fail, the gateway takes the channel back by itself
}

// AllAtOnce is the wave of a promotion that lets all nodes in at once.
func AllAtOnce() json.RawMessage { return json.RawMessage("null") }

// Promotion points a channel at a release.
type Promotion struct {
	Digest  string          `json:"digest,omitempty"`  // digest or version; of a rollback: left out, it is the previous release
	Wave    json.RawMessage `json:"wave,omitempty"`    // Waves; left out: the usual ones; null: all nodes at once
	Pointer json.RawMessage `json:"pointer,omitempty"` // signed by an operator; left out: the gateway signs
	Seen    int64           `json:"seen,omitempty"`    // seq of the channel as the caller saw it: another one by now is refused
}

// Channel is a channel as the API shows it.
type Channel struct {
	Channel  string `json:"channel"`
	Digest   string `json:"digest"`
	Version  string `json:"version"`
	Previous string `json:"previous"` // digest of the previous release; empty: there was none
	Sequence int64  `json:"seq"`
	SignedBy string `json:"signed_by"`
	// State is of the newest rollout: running, paused, halted, aborted, taken_back or done; behind after a restore; empty: there was none.
	State     string        `json:"state"`
	Why       string        `json:"why"`
	Wave      int           `json:"wave"` // that is under way, from 1; 0: none
	Waves     int           `json:"waves"`
	NextAt    *time.Time    `json:"next_wave_at,omitempty"` // this wave is through, and watched until then
	Counts    RolloutCounts `json:"counts"`
	UpdatedAt time.Time     `json:"updated_at"`
	UpdatedBy string        `json:"updated_by"`
	Expires   time.Time     `json:"expires"` // of its pointer
	ToSign    string        `json:"to_sign"` // what an operator has to sign so that it goes on; empty: nothing
	// Note is in the answer to a change alone: what it ended, or why it changed nothing, for a person.
	Note string `json:"note,omitempty"`
}

// RolloutCounts are how many nodes of a channel stand where.
type RolloutCounts struct {
	Nodes      int `json:"nodes"`
	Running    int `json:"running"`     // run the channel's release
	Waiting    int `json:"waiting"`     // online, and not let in yet
	Admitted   int `json:"admitted"`    // let in, and not through
	Failed     int `json:"failed"`      // went back, or could not install it
	Silent     int `json:"silent"`      // fell silent after they were let in
	Late       int `json:"late"`        // are heard, and did not begin or get through in time
	Unwell     int `json:"unwell"`      // run it, and do not do well with it
	Held       int `json:"held"`        // by their maintenance window
	Pinned     int `json:"pinned"`      //
	Unable     int `json:"unable"`      // have an agent that cannot update itself
	Offline    int `json:"offline"`     //
	Committed  int `json:"committed"`   // took the release in this rollout
	RolledBack int `json:"rolled_back"` // went back in this rollout: some of failed
}

// ChannelList answers GET channels, by name.
type ChannelList struct {
	Channels []Channel `json:"channels"`
}

// ChannelNode is a node of a channel, and how far it is in the rollout.
type ChannelNode struct {
	ID      string     `json:"id"`
	Name    string     `json:"name"`
	Tenant  string     `json:"tenant"`
	Wave    int        `json:"wave"`    // from 1; 0: it was not let in
	State   string     `json:"state"`   // one of the words of RolloutCounts
	Phase   string     `json:"phase"`   // that it said last of this release: one of wire.UpdatePhases
	Code    string     `json:"code"`    // one of wire.UpdateCodes
	Detail  string     `json:"detail"`  //
	Log     string     `json:"log"`     // last lines of a version that it went back from
	Held    string     `json:"held"`    // why it gets nothing now
	At      *time.Time `json:"at"`      // of what it said; null: it said nothing
	Running string     `json:"running"` // digest of the program that it runs
}

// ChannelNodes is one page of the nodes of a channel, by name.
type ChannelNodes struct {
	Nodes []ChannelNode `json:"nodes"`
	Next  string        `json:"next"` // cursor of the next page, empty on the last
	Total int           `json:"total"`
}

// ChannelNodeFilter picks nodes of a channel. A zero field does not count.
type ChannelNodeFilter struct {
	State  string `json:"state,omitempty"`
	Phase  string `json:"phase,omitempty"`
	Limit  int    `json:"limit,omitempty" most:"1000" usual:"100"`
	Cursor string `json:"cursor,omitempty"`
}

// PointerFilter names the release that a channel is to point at next; empty: the channel's previous release.
type PointerFilter struct {
	Release string `json:"digest,omitempty"`
}

// UnsignedPointer is what an operator's key has to sign: these very bytes.
type UnsignedPointer struct {
	Payload []byte `json:"payload"`
}

// Pin is a node that does not follow its channel.
type Pin struct {
	Node    string    `json:"node"` // its name
	NodeID  string    `json:"node_id"`
	Tenant  string    `json:"tenant"`
	Digest  string    `json:"digest"`  // of its own release; empty: it stays where it is
	Version string    `json:"version"` // of that release
	Channel string    `json:"channel"`
	At      time.Time `json:"at"`
	By      string    `json:"by"`
}

// PinList answers GET pins.
type PinList struct {
	Pins []Pin `json:"pins"`
}

// NewPins pins nodes, or ends their pins.
type NewPins struct {
	Nodes   []string        `json:"nodes"`            // names or ids
	Digest  string          `json:"digest,omitempty"` // digest or version of their own release; empty: they stay where they are
	Pointer json.RawMessage `json:"pointer,omitempty"`
}
