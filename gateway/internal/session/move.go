package session

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"time"

	"muster/agent/pipe"
	"muster/agent/wire"
	"muster/store"
)

// Claimer is a node that has proven its identity.
type Claimer struct {
	NodeID, Enrolment, Fingerprint string
	Generation                     int
	Address                        string
}

// Aside gives the next document for a node, the oldest first; nil: there is none. From then on the one who took it, and nobody else, may
// speak for the session. It gets the document again until it speaks.
func (d *Service) Aside(c Claimer) *wire.SignedTask {
	now := d.Now()
	for _, s := range d.of(c.NodeID) {
		if signed := d.give(s, c, now); signed != nil {
			return signed
		}
	}
	return nil
}

// give notes who has the document. One for another enrolment, and one whose time is over, is given to nobody: the sweep ends the session.
func (d *Service) give(s *live, c Claimer, now time.Time) *wire.SignedTask {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.claimer != nil && (s.spoken || !s.claimer.is(c) || now.Sub(s.given) < giveAgain)
	if !s.offered || taken || s.EndedAt != nil || s.enrolment != c.Enrolment || now.After(s.expires) {
		return nil
	}
	if s.claimer == nil {
		d.date(s, now)
	}
	s.claimer = &c
	s.given = now
	s.nodeAt = now
	signed := s.signed
	return &signed
}

// date signs the document as of now, where the gateway signs. An agent believes nothing that is older than itself, and it may have started
// after somebody asked for the session. The caller holds the session's lock.
func (d *Service) date(s *live, now time.Time) {
	if s.payload.TaskID == "" {
		return
	}
	s.payload.IssuedAt = now.UTC().Truncate(time.Millisecond)
	raw, err := json.Marshal(s.payload)
	if err != nil {
		panic(err) // it was encoded once
	}
	signed, err := d.Sign(raw)
	if err == nil && len(raw) <= wire.MaxTaskPayload && signed.SigningKeyID == s.KeyID { // else the one of before may do
		s.signed = signed
	}
}

// NodeSend takes a piece from the node.
func (d *Service) NodeSend(ctx context.Context, c Claimer, id string, number int, at int64, p pipe.Piece) (next int64, err error) {
	s, ch, err := d.ofNode(ctx, c, id, number)
	if err != nil {
		return at, err
	}
	defer func() { s.heard(&s.nodeAt, d.Now()) }()
	if number == pipe.Main {
		return d.nodeSays(ctx, s, ch.fromNode, at, p)
	}
	return d.put(ctx, ch.fromNode, at, p, func(fresh []byte) { s.count(&s.out, len(fresh), d.Now()) })
}

// NodeFetch returns to the node the piece that begins at byte at. The piece is empty if none came in time.
func (d *Service) NodeFetch(ctx context.Context, c Claimer, id string, number int, at int64, within time.Duration) (pipe.Piece, error) {
	s, ch, err := d.ofNode(ctx, c, id, number)
	if errors.Is(err, errChannelOver) && at > 0 {
		return pipe.Piece{End: true}, nil // the answer that said so was lost
	}
	if err != nil {
		return pipe.Piece{}, err
	}
	defer func() { s.heard(&s.nodeAt, d.Now()) }()
	return d.fetch(ctx, s, number, ch, ch.toNode, at, within)
}

// Send takes a piece from the operator who opened the session.
func (d *Service) Send(ctx context.Context, who Caller, id string, number int, at int64, p pipe.Piece) (next int64, err error) {
	s, ch, err := d.ofOperator(ctx, who, id, number)
	if err != nil {
		return at, err
	}
	return d.send(ctx, s, ch, number, at, p)
}

func (d *Service) send(ctx context.Context, s *live, ch *channel, number int, at int64, p pipe.Piece) (int64, error) {
	defer func() { s.heard(&s.operatorAt, d.Now()) }()
	return d.put(ctx, ch.toNode, at, p, func(fresh []byte) {
		s.count(&s.in, len(fresh), d.Now())
		if number == pipe.Main {
			d.operatorSays(s, fresh)
		}
	})
}

// Fetch returns to the operator the piece that begins at byte at. The piece is empty if none came in time.
func (d *Service) Fetch(ctx context.Context, who Caller, id string, number int, at int64, within time.Duration) (pipe.Piece, error) {
	s, ch, err := d.ofOperator(ctx, who, id, number)
	if errors.Is(err, errChannelOver) && at > 0 {
		return pipe.Piece{End: true}, nil
	}
	if err != nil {
		return pipe.Piece{}, err
	}
	defer func() { s.heard(&s.operatorAt, d.Now()) }()
	return d.fetch(ctx, s, number, ch, ch.fromNode, at, within)
}

// ofNode finds a channel of a session whose claimer this is.
func (d *Service) ofNode(ctx context.Context, c Claimer, id string, number int) (*live, *channel, error) {
	s := d.session(id)
	if s == nil {
		return nil, nil, wire.Refuse(wire.CodeSessionOver, "the gateway knows no such session", "it has ended, or the gateway was restarted")
	}
	if !s.claimed(c, d.Now()) {
		d.tellClaim(ctx, s, c)
		return nil, nil, wire.Refuse(wire.CodeClaimMismatch, "another identity has taken session "+id, "only that one may speak for it")
	}
	ch, err := s.channel(number)
	return s, ch, err
}

// claimed tells whether a node has taken the session. A later certificate of the same enrolment stands for the earlier one.
func (s *live) claimed(c Claimer, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.claimer == nil || !s.claimer.is(c) {
		return false
	}
	s.claimer = &c
	s.spoken = true
	s.nodeAt = now
	return true
}

// is tells whether c is the same claimer, maybe with a later certificate.
func (had Claimer) is(c Claimer) bool {
	return had.NodeID == c.NodeID && had.Enrolment == c.Enrolment && (had.Fingerprint == c.Fingerprint || c.Generation > had.Generation)
}

// tellClaim makes an event of a node that spoke for a session of somebody else.
func (d *Service) tellClaim(ctx context.Context, s *live, c Claimer) {
	e := s.event("session.refused", store.Actor{Name: "node:" + c.NodeID, Address: c.Address}, d.Now())
	e.Outcome = wire.CodeClaimMismatch
	e.Detail["fingerprint"] = c.Fingerprint
	if d.CountAgain != nil && d.CountAgain(ctx, e) {
		return
	}
	if err := d.Store.AddEvents(context.WithoutCancel(ctx), e); err != nil {
		d.Logger.Error("an event was not recorded", "kind", e.Kind, "error", err)
	}
}

// ofOperator finds a channel of a session of this caller. That of another one is not found.
func (d *Service) ofOperator(ctx context.Context, who Caller, id string, number int) (*live, *channel, error) {
	s := d.session(id)
	if s == nil {
		return nil, nil, d.known(ctx, who, id)
	}
	if s.inside || s.owner.Account != who.Account {
		return nil, nil, noSession(id)
	}
	if err := who.may(s.kind); err != nil {
		return nil, nil, err
	}
	s.heard(&s.operatorAt, d.Now())
	ch, err := s.channel(number)
	return s, ch, err
}

// known is what a late request of its operator hears of a session that is on record alone.
func (d *Service) known(ctx context.Context, who Caller, id string) error {
	row, err := d.records.Get(ctx, who.Tenant, id)
	switch {
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return err
	case err != nil || row.Account != who.Account || row.EndedAt == nil:
		return noSession(id)
	}
	return wire.Refuse(wire.CodeSessionOver, "the session has ended: "+row.End, "open the session again")
}

func noSession(id string) error {
	return wire.Refuse(wire.CodeNotFound, "there is no session "+id, "muster session ls")
}

func (s *live) heard(who *time.Time, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*who = now
}

func (s *live) count(way *int64, bytes int, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*way += int64(bytes)
	if bytes > 0 {
		s.movedAt = now
	}
}

// put hands a piece to one direction, and what was new of it to each.
func (d *Service) put(ctx context.Context, f *flow, at int64, p pipe.Piece, each func(fresh []byte)) (next int64, err error) {
	ctx, done := context.WithTimeout(ctx, wire.PieceWait)
	defer done()
	if err := f.begin(ctx); err != nil {
		return at, err
	}
	defer f.done()
	return d.add(ctx, f, at, p, each)
}

// add is put for who has the turn.
func (d *Service) add(ctx context.Context, f *flow, at int64, p pipe.Piece, each func(fresh []byte)) (next int64, err error) {
	before := f.room.Passed()
	next, err = f.room.Put(ctx, at, d.fit(f, p))
	f.weigh(&d.kept, false)
	if fresh := next - before; fresh > 0 {
		each(p.Data[before-at : next-at])
	}
	return next, err
}

// fit cuts a piece where its session, or all together, keep too much.
func (d *Service) fit(f *flow, p pipe.Piece) pipe.Piece {
	if d.kept.Load() < mostKept && f.all.Load() < mostKeptOfOne {
		return p
	}
	if room := max(little-f.room.Kept(), 0); room < len(p.Data) {
		return pipe.Piece{Data: p.Data[:room]}
	}
	return p
}

// fetch gives what one direction has.
func (d *Service) fetch(ctx context.Context, s *live, number int, ch *channel, f *flow, at int64, within time.Duration) (pipe.Piece, error) {
	ctx, done := context.WithTimeout(ctx, min(within, wire.PieceWait))
	defer done()
	p, err := f.room.Get(ctx, at, s.share())
	f.weigh(&d.kept, false)
	if p.End && len(p.Data) == 0 {
		f.arrived.Store(true)
		s.drop(number, ch, &d.kept)
	}
	return p, err
}

// begin waits for the turn: a request that comes again may meet the first one.
func (f *flow) begin(ctx context.Context) error {
	select {
	case f.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return wire.Refuse(wire.CodeUnavailable, "an earlier piece of this channel is still on its way", "send it again")
	}
}

func (f *flow) done() { <-f.turn }

// weigh counts what is kept now. If the channel is gone, nothing of it counts any more.
func (f *flow) weigh(kept *atomic.Int64, gone bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := int64(f.room.Kept())
	if gone {
		now = 0
	}
	kept.Add(now - f.weight)
	f.all.Add(now - f.weight)
	f.weight = now
}
