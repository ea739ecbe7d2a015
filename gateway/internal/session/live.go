package session

import (
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"muster/agent/pipe"
	"muster/agent/wire"
	"muster/gateway/api"
	"muster/store"
	"muster/store/sessions"
)

// live is a session in memory. What stands before mu does not change after it was offered to its node.
type live struct {
	sessions.Session // its times, bytes and end are guarded by mu; the rest does not change
	kind             wire.SessionType
	owner            Caller
	inside           bool // the gateway itself is the operator's end: the session is on no record
	enrolment        string
	params           json.RawMessage
	expires          time.Time // until then the node must take it
	record           bool
	kept             atomic.Int64 // bytes that wait to be fetched

	main talk // what both ends say on the channel pipe.Main

	mu       sync.Mutex
	payload  wire.TaskPayload // of the document, where the gateway signs; without an id: an operator has signed
	signed   wire.SignedTask  // the document
	claimer  *Claimer
	offered  bool      // the node may have the document
	given    time.Time // when the claimer got the document last
	spoken   bool      // the claimer has spoken for the session, so it has the document
	channels map[int]*channel
	used     numbers
	closed   error // what everybody hears after the end
	saved    bool
	ending   ending

	nodeAt     time.Time // when the node was last heard
	operatorAt time.Time
	movedAt    time.Time // when the last byte was taken
	in, out    int64
}

// channel is a pair of directions.
type channel struct {
	toNode, fromNode *flow
}

// flow is one direction of a channel.
type flow struct {
	room *pipe.Room
	turn chan struct{} // held by the one who puts

	mu      sync.Mutex
	weight  int64         // what is counted of it in Service.kept
	all     *atomic.Int64 // what is counted of all flows of its session
	arrived atomic.Bool   // its end was fetched
}

// newChannel makes a channel of a session.
func (s *live) newChannel() *channel {
	flows := [2]*flow{}
	for i := range flows {
		flows[i] = &flow{room: pipe.NewRoom(wire.PipeRoom), turn: make(chan struct{}, 1), all: &s.kept}
	}
	return &channel{toNode: flows[0], fromNode: flows[1]}
}

func newLive(now time.Time, who Caller, kind wire.SessionType, node store.Node) *live {
	now = now.UTC()
	s := &live{kind: kind, owner: who, enrolment: node.EnrolmentID, channels: map[int]*channel{}, nodeAt: now, operatorAt: now, movedAt: now}
	s.Session = sessions.Session{NodeID: node.ID, NodeName: node.Name, Tenant: node.Tenant, Type: kind.Name, Account: who.Account,
		CreatedBy: who.Actor.Name, Address: who.Actor.Address, CreatedAt: now}
	s.channels[pipe.Main] = s.newChannel()
	return s
}

// view is the session as it is now. Its params are for who opened it.
func (s *live) view(params bool) api.Session {
	if params {
		return shown(s.row(), s.params)
	}
	return shown(s.row(), nil)
}

// row is what is on record of it, as it is now.
func (s *live) row() sessions.Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	row := s.Session
	row.In = s.in
	row.Out = s.out
	return row
}

// over tells when the session ended, zero while it has not, and whether that is on record.
func (s *live) over() (ended time.Time, saved bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.EndedAt == nil {
		return time.Time{}, false
	}
	return *s.EndedAt, s.saved
}

// overdue tells whether the time of a session is over, and which.
func (s *live) overdue(now time.Time) (ending, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.EndedAt != nil:
		return ending{}, false
	case s.claimer == nil && now.After(s.expires):
		return ending{why: "node " + s.NodeName + " did not take the session", untaken: true,
			hint: "muster node show " + s.NodeName + " says when it was last heard, and its agent's version"}, true
	case s.claimer != nil && now.Sub(s.nodeAt) > wire.SessionBridge:
		return ending{why: "the node is not heard from", hint: "muster node show " + s.NodeName}, true
	case !s.inside && now.Sub(s.operatorAt) > wire.SessionBridge:
		return ending{why: "its operator is not heard from", hint: "open the session again"}, true
	case now.Sub(s.movedAt) > s.Idle:
		return ending{why: fmt.Sprintf("nothing was written for %v", s.Idle), hint: "open the session again"}, true
	case now.Sub(s.CreatedAt) > s.Limit:
		return ending{why: fmt.Sprintf("it lasted %v, which is its limit", s.Limit), hint: "open the session again"}, true
	}
	return ending{}, false
}

// parted says why a session cannot go on with its node as it is now; "": it can.
func (s *live) parted(node store.Node) string {
	switch {
	case node.Banned:
		return "the node was banned"
	case node.RetiredAt != nil:
		return "the node was retired"
	case node.EnrolmentID != s.enrolment:
		return "the node has enrolled again"
	case conflicted(node):
		return "two machines use the node's identity"
	}
	return ""
}

// numbers are the numbers of channels that were used. They rise, but the first requests of some overtake one another: so it is enough to
// know the highest, and those below it that have not come.
type numbers struct {
	last   int
	missed map[int]bool
}

func (n *numbers) has(number int) bool { return number <= n.last && !n.missed[number] }

// takes tells whether so few numbers are missed with this one that they can be remembered.
func (n *numbers) takes(number int) bool { return number-n.last-1+len(n.missed) <= mostMissed }

func (n *numbers) add(number int) {
	if n.missed == nil {
		n.missed = map[int]bool{}
	}
	for ; n.last < number; n.last++ {
		n.missed[n.last+1] = true
	}
	delete(n.missed, number)
}

// mostMissed is how many numbers of channels may have been left out.
const mostMissed = 1 << 12

// channel finds a channel. Those but pipe.Main exist from the first request that names them.
func (s *live) channel(number int) (*channel, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.channels[number]; c != nil {
		return c, nil
	}
	switch {
	case s.closed != nil:
		return nil, s.closed
	case s.Type != wire.SessionForward || number < 0:
		return nil, wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("this session has no channel %d", number), "it has the channel 0")
	case s.used.has(number):
		return nil, errChannelOver
	case !s.used.takes(number):
		return nil, wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("the number %d of a channel is too high", number), "count from 1")
	case len(s.channels) > wire.MaxChannels:
		return nil, wire.Refuse(wire.CodeTooManyRequests, fmt.Sprintf("this session has %d channels", len(s.channels)),
			"close some, or open another session")
	}
	c := s.newChannel()
	s.channels[number] = c
	s.used.add(number)
	return c, nil
}

var errChannelOver = wire.Refuse(wire.CodeSessionBroken, "this channel has ended", "a number is good for one connection: use the next one")

// share is how many bytes of a channel are given at once. Who fetches has so much memory for each.
func (s *live) share() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return pipe.Share(len(s.channels))
}

// drop forgets a channel both of whose directions have arrived.
func (s *live) drop(number int, c *channel, kept *atomic.Int64) {
	if number == pipe.Main || !c.toNode.arrived.Load() || !c.fromNode.arrived.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.channels[number] == c {
		delete(s.channels, number)
		c.toNode.weigh(kept, true)
		c.fromNode.weigh(kept, true)
	}
}

// forget gives the memory of an ended session back.
func (s *live) forget(kept *atomic.Int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.channels {
		c.toNode.weigh(kept, true)
		c.fromNode.weigh(kept, true)
	}
	s.channels = map[int]*channel{}
}

// enter takes a place for a session, which nobody can use yet.
func (d *Service) enter(s *live) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	all, ofNode, ofAccount := 0, 0, 0
	for _, other := range d.live {
		if ended, _ := other.over(); !ended.IsZero() {
			continue
		}
		all++
		if other.NodeID == s.NodeID {
			ofNode++
		}
		if !other.inside && other.owner.Account == s.owner.Account {
			ofAccount++
		}
	}
	const close = "end some: muster session ls"
	switch {
	case d.stopped:
		return wire.Refuse(wire.CodeUnavailable, "the gateway stops", "try again when it is back")
	case d.live[s.ID] != nil:
		return usedID(store.ErrConflict)
	case all >= most:
		return wire.Refuse(wire.CodeTooManyRequests, fmt.Sprintf("the gateway has %d sessions open", all), close)
	case ofNode >= wire.MaxNodeSessions:
		return wire.Refuse(wire.CodeTooManyRequests, fmt.Sprintf("node %s has %d sessions open", s.NodeName, ofNode), close)
	case ofAccount >= mostOfOne && !s.inside:
		return wire.Refuse(wire.CodeTooManyRequests, fmt.Sprintf("this account has %d sessions open", ofAccount), close)
	}
	d.live[s.ID] = s
	return nil
}

// leave gives the place back of a session that came to nothing.
func (d *Service) leave(s *live) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.live, s.ID)
}

// offer lets the node of a session have its document.
func (d *Service) offer(s *live) {
	s.mu.Lock()
	s.offered = true
	s.mu.Unlock()
	d.Ring(s.NodeID)
}

// unheard tells whether the document should be given again: its node has taken it and says nothing, so the answer with the document may have
// been lost on its way. A node that has a document does not open it twice.
func (s *live) unheard(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.claimer != nil && !s.spoken && s.EndedAt == nil && now.Sub(s.given) >= giveAgain && !now.After(s.expires)
}
