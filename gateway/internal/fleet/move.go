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

// Provide moves a node for its provider: Accept, Deploy, Redeploy and Decommission. The last three end the node's identity: its
// certificates, and the tokens that are bound to it, are no longer good. Unless force is set, they are refused if an allocation has a part
// of the node.
func (f *Fleet) Provide(ctx context.Context, nodeID string, verb Verb, force bool, by store.Actor) error {
	_, err := f.apply(ctx, nodeID, change{verb: verb, by: by, force: force})
	return err
}

// apply decides a change on the node's present row and writes it. The store refuses with ErrConflict if the node has left that
// state meanwhile. Then apply decides again.
func (f *Fleet) apply(ctx context.Context, nodeID string, c change) (store.Node, error) {
	var row store.Node
	err := tries(func() (err error) {
		if row, err = f.store.Node(ctx, "", nodeID); err != nil {
			return err
		}
		move, err := f.decide(row, c)
		if err != nil || move == nil {
			return err
		}
		err = f.store.MoveNode(ctx, *move)
		f.Forget(nodeID)
		if err == nil {
			row, err = f.store.Node(ctx, "", nodeID)
		}
		return err
	})
	return row, err // not in one line: Go does not say whether row would be read before the call
}

// tries decides and writes again while the store finds that the node has changed meanwhile.
func tries(write func() error) error {
	for range moveTries {
		if err := write(); !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
	return wire.Refuse(wire.CodeUnavailable, "the node changes too fast", "try again")
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
	e := f.event(cmp.Or(c.kind, eventOf(c.verb)), aboutNode(row), c.by, map[string]string{"from": move.From, "to": move.To})
	e.Security = move.From != move.To || c.verb == Ban || c.verb == Retire || c.security
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

// eventOf is the kind of the event of a move.
func eventOf(verb Verb) string {
	for _, move := range life {
		if move.verb == verb {
			return "node." + move.event
		}
	}
	return "node." + string(verb)
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
	detail := map[string]string{}
	for key, value := range set {
		detail["set."+key] = value
	}
	if len(remove) > 0 {
		detail["removed"] = strings.Join(remove, ",")
	}
	e := f.audited("node.labelled", aboutNode(node.Node), by, detail)
	if err := f.store.SetLabels(ctx, node.ID, set, remove, e); err != nil {
		return Node{}, err
	}
	return f.Node(ctx, "", node.ID)
}
