package fleet

import (
	"slices"
	"strings"

	"muster/agent/wire"
	"muster/store"
)

// State is the state of a node in its life.
type State string

// States. The table life says which moves there are.
const (
	Commissioned State = wire.StateCommissioned
	Ready        State = wire.StateReady
	Deploying    State = wire.StateDeploying
	Enrolled     State = wire.StateEnrolled
	Active       State = wire.StateActive
	Drained      State = wire.StateDrained
	Unavailable  State = wire.StateUnavailable
	Retired      State = wire.StateRetired
)

// Verb is what may move a node. The log has an event for each move.
type Verb string

// Verbs.
const (
	Accept       Verb = "accept"       // commissioning ended well
	Fetch        Verb = "fetch"        // its bootstrap script was fetched
	Enrol        Verb = "enrol"        // it got an identity, the first or a new one
	Heartbeat    Verb = "heartbeat"    // it was heard from
	Fail         Verb = "fail"         // a reason not to rely on it appeared
	Cure         Verb = "cure"         // the last such reason went away
	Suspend      Verb = "suspend"      // a person makes it unavailable
	Drain        Verb = "drain"        // a person wants no new work on it
	Resume       Verb = "resume"       // a person wants it back
	Deploy       Verb = "deploy"       // its provider sets it up
	Redeploy     Verb = "redeploy"     // its provider sets it up again from the start
	Decommission Verb = "decommission" // its provider takes it back: nothing is installed on it any more
	Retire       Verb = "retire"       // its life ends, by a person or by itself; its name is free again
	Ban          Verb = "ban"          // it is retired, and neither its name nor its key may return
)

// life is the table of all moves, in the order of a node's life: for each verb the state that it leads to from Commissioned, Ready,
// Deploying, Enrolled, Active, Drained, Unavailable and Retired. Empty: the move is illegal. No other place in the program knows this.
//
// A second fetch changes nothing, and neither does the heartbeat, the fault or the cure of a node that gets no new work anyway. What a
// person decided stays when the node enrols again. A node that works is drained before its provider takes it back.
var life = [...]struct {
	verb  Verb
	event string // the word for the move in the kind of its event; part of the API: auditors search for it
	to    [8]State
}{
	{Accept, "accepted", [8]State{Ready}},
	{Fetch, "script_fetched", [8]State{"", Deploying, Deploying, Enrolled, Active, Drained, Unavailable}},
	{Enrol, "enrolled", [8]State{"", Enrolled, Enrolled, Enrolled, Enrolled, Drained, Enrolled}},
	{Heartbeat, "active", [8]State{"", "", Deploying, Active, Active, Drained, Unavailable}},
	{Fail, "failed", [8]State{"", "", Deploying, Unavailable, Unavailable, Drained, Unavailable}},
	{Cure, "cured", [8]State{"", "", Deploying, "", Active, Drained, Active}},
	{Suspend, "suspended", [8]State{"", "", "", "", Unavailable, "", Unavailable}},
	{Drain, "drained", [8]State{"", "", "", "", Drained, Drained}},
	{Resume, "resumed", [8]State{"", "", "", "", Active, Active, Active}},
	{Deploy, "deploying", [8]State{"", Deploying, Deploying}},
	{Redeploy, "redeploying", [8]State{"", "", Deploying, "", "", Deploying}},
	{Decommission, "decommissioned", [8]State{Commissioned, Commissioned, Commissioned, Commissioned, "", Commissioned, Commissioned}},
	{Retire, "retired", [8]State{Retired, Retired, Retired, Retired, Retired, Retired, Retired, Retired}},
	{Ban, "banned", [8]State{Retired, Retired, Retired, Retired, Retired, Retired, Retired, Retired}},
}

// Situation is what Decide looks at.
type Situation struct {
	State  State
	Person bool // a person put the node into this state
}

// Decide returns the state that a verb leads to. An illegal move is refused with code illegal_move, and the hint names the legal moves.
func Decide(s Situation, verb Verb) (State, error) {
	var legal []string
	for _, move := range life {
		to := s.next(move.verb, move.to)
		if to != "" && move.verb == verb {
			return to, nil
		}
		if to != "" {
			legal = append(legal, string(move.verb))
		}
	}
	return "", wire.Refuse(wire.CodeIllegalMove, "a node that is "+string(s.State)+" cannot "+string(verb),
		"what it can do now: "+strings.Join(legal, ", "))
}

// next gives the state that a verb leads to; to is its row of the table. What a person made unavailable stays so until a person resumes it.
// A node that is unavailable by a fault alone cannot be resumed: it is cured.
func (s Situation) next(verb Verb, to [8]State) State {
	held := s.Person && s.State == Unavailable
	switch {
	case held && (verb == Enrol || verb == Cure):
		return Unavailable
	case !held && s.State == Unavailable && verb == Resume:
		return ""
	}
	states := [...]State{Commissioned, Ready, Deploying, Enrolled, Active, Drained, Unavailable, Retired}
	if at := slices.Index(states[:], s.State); at >= 0 {
		return to[at]
	}
	return ""
}

// personSet is true if a person gave one of the reasons. Only a person may then bring the node back.
func personSet(reasons []store.Reason) bool {
	return slices.ContainsFunc(reasons, func(x store.Reason) bool { return x.Person })
}
