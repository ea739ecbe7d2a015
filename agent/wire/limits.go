package wire

import "time"

// Limits of whole requests, and of times.
const (
	MaxRegisterBody = 64 << 10 // bytes
	MaxAdoptBody    = 64 << 10 // bytes
	MaxBody         = 1 << 20  // bytes of a request that has no limit of its own
	MaxGPUs         = 1024     // GPUs of one node, rows and counts

	EnrollWindow    = 5 * time.Minute // how far a register request's time may be off
	SignatureWindow = time.Minute     // how far a signature's created may be off
	MinInterval     = 5 * time.Second // bounds for an interval that the gateway wishes
	MaxInterval     = 10 * time.Minute
	UsualInterval   = 30 * time.Second // between heartbeats, and between looks at the GPUs, if nobody wishes another one
	MaxPace         = time.Hour        // a HeartbeatRequest's interval: a node must not look alive for days

	// Backdate is how long before its issue a certificate begins, so that a node whose clock is a little slow can use it at once.
	Backdate = 5 * time.Minute
)

// RenewAfter returns the latest time, counted from its issue, at which a node renews a certificate of this lifetime. A third of the
// lifetime is left for a gateway that is away.
func RenewAfter(lifetime time.Duration) time.Duration { return lifetime * 2 / 3 }

// RenewSpread returns the longest time by which a node renews before RenewAfter. The node chooses the time at random, so that nodes which
// enrolled together do not renew together. The gateway waits for the same time after RenewAfter before it calls a renewal overdue.
func RenewSpread(lifetime time.Duration) time.Duration { return lifetime / 20 }

// Limits of single fields. A gateway refuses what is beyond them, or leaves it out and says so in a notice.
const (
	MaxNameLength   = 63      // characters of a node's name
	MaxLabels       = 64      // labels on one node from one source
	MaxLabelKey     = 63      // characters of a label's key, and of a prefix before its slash
	MaxLabelValue   = 128     // characters
	MaxProvider     = 63      // characters
	MaxInstanceID   = 128     // characters
	MaxCSR          = 8 << 10 // bytes of PEM
	MaxGeneration   = 1 << 30 // in an AdoptRequest
	MinRunID        = 8       // characters
	MaxRunID        = 64      // characters
	MaxSkewMillis   = 1 << 53 // either way; more cannot travel as JSON
	MaxNotices      = 16      // entries, of Health too
	MaxNoticeBytes  = 8 << 10 // all notices together
	MaxHealthDetail = 300     // bytes of one entry of a heartbeat's health_detail
	MaxSelf         = 1 << 10 // bytes of JSON of AgentInfo, and of Cost
	MaxDepth        = 16      // levels of JSON in a Hardware, an AgentInfo or a Cost
	MaxText         = 512     // bytes of one text in them
	MaxList         = 64      // elements of one list in them, the GPUs aside
	MaxXids         = 16      // events of the kernel's log in a Hardware
	MaxStartsWhy    = 200     // bytes of Starts.Why
	MaxUnshipped    = 16      // entries of a heartbeat's unshipped
	MaxUnshippedWhy = 200     // bytes of one of them
	MaxEpoch        = 64      // characters
	MaxNodeID       = 64      // characters
	MaxGateways     = 16      // URLs in a list of gateways
	MaxGatewayURL   = 300     // bytes of one of them
)

// StartsWindow is the time in which Starts counts.
const StartsWindow = 10 * time.Minute

// Limits of tasks.
const (
	MaxTaskWait    = 55 * time.Second // of one long poll; less than a minute, after which proxies cut
	MaxTaskPayload = 64 << 10         // bytes that are signed
	MaxTaskHead    = 64 << 10         // bytes of output kept from its beginning
	MaxTaskTail    = 192 << 10        // bytes of output kept from its end
	MaxTaskPiece   = 512 << 10        // bytes of data in one TaskOutput
	MaxTaskArchive = 32 << 20         // bytes of the file that a task makes
	MaxTaskError   = 2 << 10          // bytes of TaskResult.Error
	MaxTaskValues  = 64 << 10         // bytes of JSON of TaskResult.Values
	MaxTaskLife    = 7 * 24 * time.Hour
	MaxTaskAhead   = 5 * time.Minute // by which the clock of an operator who signs may be ahead

	// TaskLease is how long after a node was last heard its claims stay open, and how long a running task may go without a word of its
	// own. After that they end as lost.
	TaskLease = 15 * time.Minute

	// TaskPulse is how often the node says that a task is at work if the task writes nothing. It bounds how long a cancel takes.
	TaskPulse = 2 * time.Second
)

// Limits of releases and of their trial on a node.
const (
	MaxPointer      = 64 << 10  // bytes that are signed
	MaxLayer        = 256 << 20 // bytes of one platform's layer
	MaxProgram      = 256 << 20 // bytes of the program in it
	MaxChannel      = 63        // characters of a channel's name
	MaxUpdateLog    = 16 << 10  // bytes of Update.Log
	MaxUpdateDetail = 1 << 10   // bytes of Update.Detail
	MaxUpdateWord   = 32        // characters of Update.Phase and Update.Code
	MaxStagger      = time.Hour // a node waits no longer than that for its share

	TrialBeat   = 10 * time.Second // between the heartbeats of a version on trial
	TrialBeats  = 3                // so many of them must be accepted
	TrialStable = 12 * time.Second // so long the process must have lived
	TrialTime   = 90 * time.Second // so long it has for all that; the way back must be complete 30 s later
	TrialCap    = 15 * time.Minute // the longest trial, if the previous version does not reach the gateway either
)

// Limits of sessions. A path to the node may hold back small answers until they are complete, so bytes travel in pieces: requests and
// answers that are complete by themselves.
const (
	MaxSessionWait    = time.Minute      // from signing a session's document to when the node must have opened it
	MaxSession        = 24 * time.Hour   // that a session may last
	MaxPiece          = 512 << 10        // bytes in one piece
	PipeRoom          = 1 << 20          // bytes that the gateway keeps of one direction of one channel until they are fetched
	PieceWait         = 20 * time.Second // how long the gateway waits for bytes, or for room, before it answers
	SessionBridge     = time.Minute      // how long one end may not be heard before the session ends
	MaxConnections    = 256              // that an operator has in one session at the same time
	MaxChannels       = 512              // of one session that the node or the gateway holds: they hear of an end later than the operator
	MaxNodeSessions   = 512              // on one node at the same time
	MaxSessionCommand = 32 << 10         // bytes of a program and its arguments
	MaxSessionPath    = 4096             // bytes
	MaxCopyUnknown    = 64 << 20         // bytes of a file that says that it has none, such as those of the kernel
	MaxTerm           = 32               // characters
	MaxTerminal       = 1000             // rows or columns
	MaxNumber         = 1 << 53          // what a number in JSON can hold
)

// Limits of logs.
const (
	MaxLogName   = 128       // characters of the name of a unit or a workload
	MaxLogLine   = 64 << 10  // bytes of a LogLine's message; what is longer is cut, and Cut says so
	MaxLogBatch  = 512 << 10 // bytes of JSON of a LogBatch
	MaxLogFields = 16        // of one line
)
