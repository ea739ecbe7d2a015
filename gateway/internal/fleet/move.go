package fleet

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"strings"

	"muster/agent/wire"
	"muster/gateway/internal/label"
	"muster/store"
)

// moveTries bounds how often a move is decided again because the node changed meanwhile.
const moveTries = 5

// change is one move to decide and write.
type change struct {
	verb        Verb
	by          store.Actor
	addHealth   []string
	clearHealth []string
	because     map[string]string // the details of the added reasons, by reason
	kind        string            // of the event; empty: made from the verb
	detail      map[string]string // added to the event's own details
	force       bool              // although an allocation has a part of it; only looked at where a provider moves it
	security    bool              // the event is one for the auditor, whether the state changes or not
}

// Apply moves a node as a verb says, and returns the node afterwards. If the node is in that state already, this is no error
// and makes no second event.
func (f *Fleet) Apply(ctx context.Context, tenant, idOrName string, verb Verb, by store.Actor) (Node, error) {
	node, err := f.Node(ctx, tenant, idOrName)
	if err != nil {
		return Node{}, err
	}
	row, err := f.apply(ctx, node.ID, change{verb: verb, by: by})
	if err != nil {
		return Node{}, err
	}
	return f.node(row), nil
}

// Provide moves a node for its provider: Accept, Deploy, Redeploy and Decommission. The last three end what it was: its certificates are no
// good any more, and neither are the tokens that are bound to it. Unless force is set, a node of which an allocation has a part is refused
// that.
func (f *Fleet) Provide(ctx context.Context, nodeID string, verb Verb, force bool, by store.Actor) error {
	_, err := f.apply(ctx, nodeID, change{verb: verb, by: by, force: force})
	return err
}

// apply decides a change on the node's present row and writes it. The store refuses with ErrConflict if the node has left that
// state meanwhile. Then apply decides again.
func (f *Fleet) apply(ctx context.Context, nodeID string, c change) (store.Node, error) {
	for range moveTries {
		row, err := f.store.Node(ctx, "", nodeID)
		if err != nil {
			return store.Node{}, err
		}
		move, err := f.decide(row, c)
		if err != nil || move == nil {
			return row, err
		}
		err = f.store.MoveNode(ctx, *move)
		f.Forget(nodeID)
		if err == nil {
			return f.store.Node(ctx, "", nodeID)
		}
		if !errors.Is(err, store.ErrConflict) {
			return store.Node{}, err
		}
	}
	return store.Node{}, wire.Refuse(wire.CodeUnavailable, "the node changes too fast to be moved", "try again")
}

// decide turns a change into a store.Move, or nil if there is nothing to do.
func (f *Fleet) decide(row store.Node, c change) (*store.Move, error) {
	if c.verb == Resume && has(row.Reasons, wire.ReasonConflict) {
		return nil, wire.Refuse(wire.CodeIllegalMove,
			"two machines use the identity of node "+row.Name+": it cannot resume before that is settled", settle(row.Name))
	}
	to, err := Decide(Situation{State: State(row.State), Person: personSet(row.Reasons)}, c.verb)
	if err != nil {
		return nil, err
	}
	move := &store.Move{NodeID: row.ID, From: row.State, To: string(to), At: f.now(), RemoveReasons: c.clearHealth}
	for _, reason := range c.addHealth {
		if !has(row.Reasons, reason) {
			move.AddReasons = append(move.AddReasons, store.Reason{Reason: reason, Since: f.now(), Detail: c.because[reason]})
		}
	}
	switch c.verb {
	case Retire, Ban:
		move.RevokeCertificates = true
		move.Ban = c.verb == Ban
	case Resume:
		move.ClearReasons = true
	case Deploy, Redeploy, Decommission:
		move.RevokeCertificates, move.RevokeTokens, move.ClearReasons, move.Unheld = true, true, true, !c.force
	case Suspend:
		if !personSet(row.Reasons) {
			move.AddReasons = append(move.AddReasons, store.Reason{Reason: wire.ReasonSuspended, Person: true, Since: f.now()})
		}
	}
	stays := row.State == string(to) && len(move.AddReasons)+len(move.RemoveReasons) == 0 && (!move.Ban || row.Banned)
	if stays {
		return nil, nil
	}
	move.Events = []store.Event{f.moveEvent(row, *move, c)}
	return move, nil
}

func (f *Fleet) moveEvent(row store.Node, move store.Move, c change) store.Event {
	e := f.event("node."+pastTense(c.verb), aboutNode(row), c.by)
	if c.kind != "" {
		e.Kind = c.kind
	}
	e.Security = move.From != move.To || c.verb == Ban || c.verb == Retire || c.security
	e.Detail = map[string]string{"from": move.From, "to": move.To}
	if len(c.addHealth) > 0 {
		e.Detail["reasons"] = strings.Join(c.addHealth, ",")
	}
	if len(c.clearHealth) > 0 {
		e.Detail["cured"] = strings.Join(c.clearHealth, ",")
	}
	maps.Copy(e.Detail, c.because)
	maps.Copy(e.Detail, c.detail)
	return e
}

// pastTense is the word for a move in the kind of its event. These words are part of the API: auditors search for them.
func pastTense(verb Verb) string {
	words := map[Verb]string{
		Drain: "drained", Resume: "resumed", Retire: "retired", Ban: "banned", Heartbeat: "active", Fail: "failed", Cure: "cured",
		Suspend: "suspended", Fetch: "script_fetched", Accept: "accepted", Deploy: "deploying", Redeploy: "redeploying",
		Decommission: "decommissioned",
	}
	return cmp.Or(words[verb], string(verb))
}

// SetLabels sets and removes labels for the operator. They win over the labels of the credential and of the agent.
func (f *Fleet) SetLabels(
	ctx context.Context, tenant, idOrName string, set map[string]string, remove []string, by store.Actor,
) (Node, error) {
	if err := label.Check(set); err != nil {
		return Node{}, err
	}
	for _, key := range remove {
		if err := wire.CheckLabelKey(key); err != nil {
			return Node{}, err
		}
	}
	node, err := f.Node(ctx, tenant, idOrName)
	if err != nil {
		return Node{}, err
	}
	e := f.event("node.labelled", aboutNode(node.Node), by)
	e.Security = true
	e.Detail = map[string]string{}
	for key, value := range set {
		e.Detail["set."+key] = value
	}
	if len(remove) > 0 {
		e.Detail["removed"] = strings.Join(remove, ",")
	}
	if err := f.store.SetLabels(ctx, node.ID, set, remove, e); err != nil {
		return Node{}, err
	}
	return f.Node(ctx, "", node.ID)
}
