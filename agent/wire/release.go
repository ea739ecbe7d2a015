package wire

import (
	"encoding/json"
	"time"
)

// AgentRepository is the repository of agent releases in the gateway's own registry.
const AgentRepository = "muster/agent"

// DefaultChannel is the channel of a node to which nobody has given another one.
const DefaultChannel = "stable"

// Labels of a node that say how it is updated. An operator or a token sets them.
const (
	LabelChannel = "channel"            // the node follows this channel
	LabelWindow  = "maintenance-window" // the node is updated only in this time, such as "Sat Sun 02:00-04:00", in UTC
)

// Media types of OCI, and of muster's own artifacts.
const (
	MediaIndex    = "application/vnd.oci.image.index.v1+json"
	MediaManifest = "application/vnd.oci.image.manifest.v1+json"
	MediaEmpty    = "application/vnd.oci.empty.v1+json" // of a config that says nothing: {}
	MediaProgram  = "application/octet-stream"          // of a layer that is the program itself
	MediaTar      = "application/vnd.oci.image.layer.v1.tar"
	MediaTarGzip  = "application/vnd.oci.image.layer.v1.tar+gzip"

	ArtifactAgent   = "application/vnd.muster.agent.v1"                // artifactType of one platform's agent
	ArtifactPointer = "application/vnd.muster.release-pointer.v1+json" // artifactType of a signature that refers to a release
)

// ReleasePointer is what the signature of a release covers. A channel points at one release at a time. Each change of the channel, going
// back too, has a higher sequence number. A node obeys no lower number than the highest that it has obeyed on that channel.
//
// It names what a node fetches by digest, so the registry need not be trusted.
type ReleasePointer struct {
	Channel   string            `json:"channel"`
	Sequence  int64             `json:"seq"`
	Digest    string            `json:"digest"` // of the release: sha256:<hex> of its OCI index
	Size      int64             `json:"size"`   // bytes of that index
	Version   string            `json:"version"`
	Platforms []ReleasePlatform `json:"platforms"`
	NotBefore time.Time         `json:"not_before"`
	Expires   time.Time         `json:"expires"` // a node does not begin to install it at this time or later
}

// ReleasePlatform is one platform's agent in a release: one layer with one program. The layer is the program itself (MediaProgram), or a
// tar archive (MediaTar, MediaTarGzip) with that one file.
type ReleasePlatform struct {
	OS          string `json:"os"`
	Arch        string `json:"arch"`
	MediaType   string `json:"media_type"`
	Digest      string `json:"digest"`       // of the layer: sha256:<hex>
	Size        int64  `json:"size"`         // bytes of the layer
	Program     string `json:"program"`      // digest of the program; that of the layer, where the layer is the program
	ProgramSize int64  `json:"program_size"` // bytes
}

// Release answers a node that asks what it should run. Only Pointer decides anything; the rest says where to get it, and is not signed.
type Release struct {
	Channel  string `json:"channel"`
	Sequence int64  `json:"seq"`
	Digest   string `json:"digest"` // of the release
	Size     int64  `json:"size"`   // bytes of its index

	// URL is where this node's layer is: a path of this gateway, to be asked like every route of a node, or an https URL elsewhere.
	URL string `json:"url"`
	// Authorization is the header for a URL elsewhere, good for some minutes; empty: none. It goes to no other host.
	Authorization string `json:"authorization,omitempty"`

	StaggerSeconds int             `json:"stagger_seconds,omitempty"` // the node waits for its share of this time first
	Pointer        json.RawMessage `json:"pointer"`                   // a sign.Envelope in the role of release, with a ReleasePointer
}

// Update is what a heartbeat says about releases. Channel and Sequence are there in every heartbeat of an agent that can update itself.
// The rest is there while an update is under way, and afterwards until a heartbeat with it was accepted.
type Update struct {
	Channel  string `json:"channel"`
	Sequence int64  `json:"seq"`               // the highest that this node has obeyed on the channel
	Release  string `json:"release,omitempty"` // digest of the release that the rest is about
	About    int64  `json:"about,omitempty"`   // sequence number of the pointer that named it
	Phase    string `json:"phase,omitempty"`
	Code     string `json:"code,omitempty"`   // why it did not go on: one of the codes below
	Detail   string `json:"detail,omitempty"` // for a person
	Log      string `json:"log,omitempty"`    // the last lines of a version that the node has gone back from
}

// Phases of an update on its node.
const (
	UpdateHeld       = "held"        // wanted, but not begun: Code says what it waits for
	UpdateFetching   = "fetching"    // the layer is on its way
	UpdateTrial      = "trial"       // the new version runs, and has to prove itself
	UpdateCommitted  = "committed"   // it is the good version now
	UpdateRolledBack = "rolled_back" // the new version did not prove itself, or did not stay up later, and the node went back
	UpdateFailed     = "failed"      // the new version was never started: refused, not fetched, or no room for it
)

// UpdatePhases returns the phases in the order in which they come.
func UpdatePhases() []string {
	return []string{UpdateHeld, UpdateFetching, UpdateTrial, UpdateCommitted, UpdateRolledBack, UpdateFailed}
}

// UpdateEnded reports whether a phase is the end of an update.
func UpdateEnded(phase string) bool {
	return phase == UpdateCommitted || phase == UpdateRolledBack || phase == UpdateFailed
}

// Values of Update.Code.
const (
	UpdateStagger     = "stagger"      // held: its share of the stagger
	UpdateBusy        = "tasks_run"    // held: tasks run
	UpdateUnsigned    = "bad_pointer"  // failed: the pointer's signature or its form is wrong
	UpdateOlder       = "older"        // failed: the pointer's number is lower than one that was obeyed
	UpdateNotNow      = "not_valid"    // failed: before not_before, or expired
	UpdateForbidden   = "forbidden"    // failed: the owner's policy demands another key
	UpdateNoPlatform  = "no_platform"  // failed: the release has no agent for this machine
	UpdateNotFetched  = "not_fetched"  // failed: the registry did not give it in time
	UpdateBadContent  = "bad_content"  // failed: size, digest or archive are not as the pointer says
	UpdateNoRoom      = "no_room"      // failed, rolled_back: the disk is full, or cannot be written
	UpdateSelfTest    = "self_test"    // failed: the program does not run here
	UpdateCrashed     = "crashed"      // rolled_back: it ended too often
	UpdateNoStart     = "no_start"     // rolled_back: it could not be started
	UpdateHung        = "hung"         // rolled_back: it did not get on
	UpdateUnreachable = "no_gateway"   // rolled_back: it did not reach the gateway, and the previous version does
	UpdateTaken       = "still_failed" // failed: this release has failed here before, under this number
)

// UpdateCodes returns the values of Update.Code.
func UpdateCodes() []string {
	return []string{UpdateStagger, UpdateBusy, UpdateUnsigned, UpdateOlder, UpdateNotNow, UpdateForbidden, UpdateNoPlatform,
		UpdateNotFetched, UpdateBadContent, UpdateNoRoom, UpdateSelfTest, UpdateCrashed, UpdateNoStart, UpdateHung, UpdateUnreachable,
		UpdateTaken}
}
