package wire

import "time"

// Limits of single fields. A gateway refuses what is beyond them, or leaves it out and says so in a notice.
const (
	MaxLabelKey    = 63        // characters of a label's key, and of a prefix before its slash
	MaxLabelValue  = 128       // characters
	MaxProvider    = 63        // characters
	MaxInstanceID  = 128       // characters
	MaxCSR         = 8 << 10   // bytes of PEM
	MaxAdoptBody   = 64 << 10  // bytes
	MaxGeneration  = 1 << 30   // in an AdoptRequest
	MinRunID       = 8         // characters
	MaxRunID       = 64        // characters
	MaxPace        = time.Hour // a HeartbeatRequest's interval: a node must not look alive for days
	MaxSkewMillis  = 1 << 53   // either way; more cannot travel as JSON
	MaxNotices     = 16        // entries, of Health too
	MaxNoticeBytes = 8 << 10   // all notices together
	MaxSelf        = 1 << 10   // bytes of JSON of AgentInfo, and of Cost
	MaxDepth       = 16        // levels of JSON in a Hardware, an AgentInfo or a Cost
	MaxText        = 512       // bytes of one text in them
	MaxList        = 64        // elements of one list in them, the GPUs aside
	MaxEpoch       = 64        // characters
	MaxNodeID      = 64        // characters
)
