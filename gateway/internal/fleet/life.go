package fleet

import (
	"slices"
	"strings"

	"muster/agent/wire"
	"muster/store"
)

// State is the state of a node in its life.
type State string

// States. Decide says which moves there are.
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

// verbs are all verbs, in the order of a node's life. Refusals list them in this order.
var verbs = [...]Verb{
	Accept, Fetch, Enrol, Heartbeat, Fail, Cure, Suspend, Drain, Resume, Deploy, Redeploy, Decommission, Retire, Ban,
}

// Situation is what Decide looks at.
type Situation struct {
	State  State
	Person bool // a person put the node into this state
}

// Decide returns the state that a verb leads to. No other place in the program knows this. An illegal move is refused with code
// illegal_move, and the hint names the legal moves.
func Decide(s Situation, verb Verb) (State, error) {
	if to, ok := next(s, verb); ok {
		return to, nil
	}
	var legal []string
	for _, other := range verbs {
		if _, ok := next(s, other); ok {
			legal = append(legal, string(other))
		}
	}
	return "", wire.Refuse(
		wire.CodeIllegalMove,
		"a node that is "+string(s.State)+" cannot "+string(verb),
		"what it can do now: "+strings.Join(legal, ", "))

}

func next(s Situation, verb Verb) (State, bool) {
	switch verb {
	case Retire, Ban:
		return Retired, true
	case Accept:
		return Ready, s.State == Commissioned
	case Fetch:
		return fetched(s.State)
	case Enrol:
		return enrolled(s)
	case Heartbeat:
		return heard(s.State)
	case Fail:
		return failed(s.State)
	case Cure:
		return cured(s)
	case Suspend:
		return Unavailable, s.State == Active || s.State == Unavailable
	case Drain:
		return Drained, s.State == Active || s.State == Drained
	case Resume:
		return Active, s.State == Drained || s.State == Active || s.State == Unavailable && s.Person
	case Deploy:
		return Deploying, s.State == Ready || s.State == Deploying
	case Redeploy:
		return Deploying, s.State == Drained || s.State == Deploying
	case Decommission:
		return Commissioned, s.State != Active && s.State != Retired // one that works is drained first
	}
	return "", false
}

// fetched: a second fetch changes nothing. A node at work may fetch its script again and keeps its state.
func fetched(s State) (State, bool) {
	switch s {
	case Ready, Deploying:
		return Deploying, true
	case Enrolled, Active, Drained, Unavailable:
		return s, true
	}
	return "", false
}

// enrolled: what a person decided stays when the node enrols again.
func enrolled(s Situation) (State, bool) {
	switch s.State {
	case Drained:
		return Drained, true
	case Unavailable:
		if s.Person {
			return Unavailable, true
		}
		return Enrolled, true
	case Ready, Deploying, Enrolled, Active:
		return Enrolled, true
	}
	return "", false
}

// heard: a heartbeat makes an enrolled node active. It undoes nothing that a person or a fault has done.
func heard(s State) (State, bool) {
	switch s {
	case Enrolled, Active:
		return Active, true
	case Drained, Unavailable, Deploying:
		return s, true
	}
	return "", false
}

// failed: a node that gets no new work anyway keeps its state. Its reasons are recorded all the same.
func failed(s State) (State, bool) {
	switch s {
	case Enrolled, Active, Unavailable:
		return Unavailable, true
	case Drained, Deploying:
		return s, true
	}
	return "", false
}

// cured: only a person ends what a person began.
func cured(s Situation) (State, bool) {
	switch s.State {
	case Unavailable:
		if s.Person {
			return Unavailable, true
		}
		return Active, true
	case Drained, Active, Deploying:
		return s.State, true
	}
	return "", false
}

// personSet is true if a person gave one of the reasons. Only a person may then bring the node back.
func personSet(reasons []store.Reason) bool {
	return slices.ContainsFunc(reasons, func(x store.Reason) bool { return x.Person })
}
