package inventory

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/label"
	"muster/gateway/internal/placement/inventory/slot"
	"muster/store"
	records "muster/store/placement"
)

const (
	checkTime   = time.Hour       // until a node must have begun with a check
	checkAgain  = 5 * time.Minute // after one that gave nothing; doubled with each, up to checkPause
	checkPause  = 6 * time.Hour
	checksAhead = 100 // nodes that are asked in one round: a fleet that comes at once is not asked at once
)

// check is how far a node is asked for evidence.
type check struct {
	task  string    // under way; empty: none
	asked time.Time // when it was sent
	tries int       // that gave nothing since the last evidence
	next  time.Time // none is sent before
}

// Named makes the id of a task from what the task is for: the same parts give the same id, so no second task is made.
func Named(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\n")))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:10]))
}

// Check has a node look at itself now.
func (s *Service) Check(ctx context.Context, who Caller, name string, q api.CheckRequest, may func(string) error) (api.CheckStarted,
	error) {
	row, err := s.Row(ctx, who.Tenant, name)
	if err != nil {
		return api.CheckStarted{}, err
	}
	if !q.Accept && (q.Image != "" || len(q.Command) > 0) {
		return api.CheckStarted{}, wire.Refuse(wire.CodeBadRequest, "a container runs with an acceptance alone",
			"muster node check "+row.Name+" --accept --image IMAGE")
	}
	o := Order{ID: wire.NewTaskID(), NodeID: row.ID, Type: wire.TaskNodeCheck, Expires: checkTime, By: store.Actor{Name: ByGateway}}
	o.May = func(taskType string) error { // who may ask for checks may have a node look
		if taskType == wire.TaskNodeCheck {
			return nil
		}
		return may(taskType)
	}
	s.mu.Lock()
	n := s.at(row.ID)
	o.Params = s.params(n.profile, q)
	before := n.check
	n.check.sent(o.ID, s.Now()) // before it is: the node may be fast
	s.mu.Unlock()
	err = s.Send(ctx, o)
	if err == nil {
		err = s.Store.AddEvents(ctx, s.Event("evidence.asked", row, who.By, map[string]string{"task": o.ID}))
	}
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.at(row.ID).check = before
	}
	return api.CheckStarted{Task: o.ID}, err
}

// params are those of a check of a node with this profile. The caller holds the lock.
func (s *Service) params(profile string, q api.CheckRequest) wire.NodeCheck {
	p := wire.NodeCheck{Profile: profile, Image: q.Image, Command: q.Command, Login: q.Login}
	asked := wire.HostChecks() // without a profile all of them: they show which one would fit
	if known, ok := s.profile(profile); ok {
		asked = slices.Concat([]string{wire.CheckGPUs, wire.CheckDriver}, known.Checks)
		q.Accept = q.Accept || known.Acceptance
	}
	if q.Accept {
		asked = append(asked, wire.AcceptChecks()...)
	}
	for _, name := range asked {
		isOurs := name == wire.CheckAsPaid || name == wire.CheckProgram && q.Image == ""
		if !isOurs && !slices.Contains(p.Checks, name) {
			p.Checks = append(p.Checks, name)
		}
	}
	return p
}

// SeeBoots finds nodes that have booted or enrolled again since their evidence came.
func (s *Service) SeeBoots(ctx context.Context) error {
	var booted []*api.NodeRow
	s.mu.Lock()
	enrolled := slices.Collect(maps.Keys(s.again))
	clear(s.again)
	for _, id := range enrolled {
		s.at(id).check = check{}
	}
	s.mu.Unlock()
	if err := s.Reread(ctx, enrolled...); err != nil {
		return err
	}
	s.mu.Lock()
	for id, n := range s.nodes {
		row, known := s.Node(id)
		if known && n.evidence.Current && (row.BootTime != nil && row.BootTime.After(n.evidence.At) || n.isOther(row)) {
			booted = append(booted, row)
		}
	}
	s.mu.Unlock()
	for _, row := range booted {
		err := s.Records.Booted(ctx, row.ID, s.Event("evidence.old", row, store.Actor{},
			map[string]string{"why": "the machine has started anew, or shows other GPUs"}))
		if err == nil {
			err = s.Reread(ctx, row.ID)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// surely is how much later than its evidence a reading of a node must be to count against it: clocks are compared by a heartbeat's way.
const surely = 10 * time.Second

// isOther reports whether a node's reading of now shows other GPUs than its slots have. Parts of divided GPUs are not in it.
func (n *node) isOther(row *api.NodeRow) bool {
	own := n.uuids()
	if !row.Fresh || row.ReadAt == nil || !row.ReadAt.After(n.evidence.At.Add(surely)) || len(row.GPUs) == 0 || len(own) == 0 {
		return false
	}
	for _, g := range row.GPUs {
		if !own[g.UUID] {
			return true
		}
	}
	return len(row.GPUs) < len(own)
}

// SendChecks asks for evidence from the nodes that have none that is up to date.
func (s *Service) SendChecks(ctx context.Context) error {
	now := s.Now()
	var orders []Order
	for _, row := range s.Nodes() {
		if row.Status != store.StatusOnline || row.Unheard || row.State == wire.StateUnavailable {
			continue
		}
		s.mu.Lock()
		n := s.at(row.ID)
		if n.check.task != "" && now.Sub(n.check.asked) > checkTime+wire.TaskLease { // it ended, and nothing was found
			n.check.fail(now)
		}
		if !n.isCurrent() && n.check.task == "" && !now.Before(n.check.next) {
			boot := ""
			if row.BootTime != nil {
				boot = row.BootTime.UTC().Format(time.RFC3339)
			}
			orders = append(orders, Order{ID: Named("check", row.ID, row.CreatedAt.Format(time.RFC3339Nano), boot, n.profile, n.evidence.Task,
				strconv.Itoa(n.check.tries)), NodeID: row.ID, Type: wire.TaskNodeCheck, Params: s.params(n.profile, api.CheckRequest{}),
				Expires: checkTime, By: store.Actor{Name: ByGateway}})
		}
		s.mu.Unlock()
		if len(orders) == checksAhead {
			break
		}
	}
	var failed error
	for _, o := range orders {
		t, err := s.Store.Task(store.Fresh(ctx), "", o.ID)
		if errors.Is(err, store.ErrNotFound) {
			err = s.Send(ctx, o)
		}
		s.mu.Lock()
		switch n := s.at(o.NodeID); {
		case err != nil:
			n.check.fail(now)
			failed = err
		case t.FinishedAt != nil: // it ended before this node enrolled again, or before the gateway's start
			n.check.tries++
			s.Wake()
		default:
			n.check.sent(o.ID, now)
		}
		s.mu.Unlock()
	}
	return failed
}

func (c *check) sent(task string, now time.Time) { c.task, c.asked = task, now }

// fail counts a try that gave nothing.
func (c *check) fail(now time.Time) {
	c.task = ""
	c.next = now.Add(min(checkAgain<<min(c.tries, 10), checkPause))
	c.tries++
}

// Unseen returns the checks that have ended while nobody looked. It also notes the checks that are under way.
func (s *Service) Unseen(ctx context.Context) (ids []string, err error) {
	for cursor := ""; ; {
		tasks, next, err := s.Store.Tasks(ctx, store.TaskQuery{Type: wire.TaskNodeCheck, Limit: store.Piece, Cursor: cursor})
		if err != nil {
			return nil, err
		}
		s.mu.Lock()
		for _, t := range tasks {
			n := s.at(t.NodeID)
			switch {
			case t.CreatedBy != ByGateway:
			case t.FinishedAt == nil:
				n.check.sent(t.ID, t.CreatedAt)
			case t.Status == store.TaskCompleted && n.evidence.Task != t.ID && t.FinishedAt.After(n.evidence.At):
				ids = append(ids, t.ID)
			}
		}
		s.mu.Unlock()
		if cursor = next; cursor == "" {
			return ids, nil
		}
	}
}

// TakeEvidence takes the evidence of a check.
func (s *Service) TakeEvidence(ctx context.Context, t store.Task) error {
	row, known := s.Node(t.NodeID)
	if !known || row.State == wire.StateRetired || t.CreatedBy != ByGateway { // somebody else asked, and maybe for less
		return nil
	}
	seen, err := evidenceOf(t)
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.at(row.ID).check.fail(s.Now())
		s.Logger.Warn("a check of a node gave no evidence", "node", row.Name, "task", t.ID, "error", err)
		return nil
	}
	for range 2 { // another profile was assigned meanwhile
		if err = s.put(ctx, row, t, seen); !errors.Is(err, store.ErrConflict) {
			break
		}
		if err = s.Reread(ctx, row.ID); err != nil {
			return err
		}
	}
	if err != nil && !errors.Is(err, store.ErrConflict) {
		return err
	}
	s.mu.Lock()
	n := s.at(row.ID)
	n.check = check{next: s.Now().Add(checkAgain)}
	if isAcceptance(seen) {
		s.accepted[row.ID] = figuresOf(seen)
	}
	s.mu.Unlock()
	return s.Reread(ctx, row.ID)
}

func evidenceOf(t store.Task) (wire.Evidence, error) {
	if t.Status != store.TaskCompleted {
		return wire.Evidence{}, fmt.Errorf("the task ended as %s: %s", t.Status, cmpOr(t.Code, t.Error))
	}
	var values wire.TaskValues
	if err := json.Unmarshal([]byte(t.Values), &values); err != nil {
		return wire.Evidence{}, err
	}
	return wire.ReadEvidence(values)
}

// put judges evidence and stores it with the slots that it gives.
func (s *Service) put(ctx context.Context, row *api.NodeRow, t store.Task, seen wire.Evidence) error {
	before, err := s.Records.Newest(ctx, row.ID)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	var earlier wire.Evidence
	if err == nil && json.Unmarshal([]byte(before.Body), &earlier) == nil {
		seen.Facts = slot.Recall(seen.Facts, earlier.Facts)
	}
	accept := isAcceptance(seen)
	if err := s.judge(ctx, row, &seen, accept); err != nil {
		return err
	}
	profile, err := s.settle(ctx, row, seen.Facts)
	if err != nil {
		return err
	}
	body, err := json.Marshal(seen)
	if err != nil {
		return err
	}
	e := records.Evidence{Task: t.ID, NodeID: row.ID, Profile: profile.Name, BootID: seen.BootID, Digest: slot.Digest(seen.Facts), At: s.Now(),
		Accept: accept, Current: true, Body: string(body)}
	if row.BootTime != nil && t.FinishedAt != nil && row.BootTime.After(*t.FinishedAt) {
		e.Current = false // it started anew since
	}
	lacks := missing(profile, seen)
	e.Ready = profile.Name != "" && len(lacks) == 0
	promised, err := s.Records.Promised(ctx, row.ID)
	if err != nil {
		return err
	}
	slots := s.proposals(row, profile, seen.Facts)
	for i := range slots {
		if of := promised[label.RentedFor]; of != "" && slots[i].Rule == "" { // it was rented to be allocated
			slots[i].Rule = "allocation:" + of
		}
	}
	return s.Records.PutEvidence(ctx, e, slots, s.news(row, e, lacks)...)
}

// news are the events of evidence: that it came, and that it shows another machine than the slots were approved for.
func (s *Service) news(row *api.NodeRow, e records.Evidence, missing []string) []store.Event {
	detail := map[string]string{"task": e.Task, "profile": e.Profile, "digest": e.Digest, "ready": strconv.FormatBool(e.Ready)}
	if len(missing) > 0 {
		detail["missing"] = wire.Cut(strings.Join(missing, "; "), wire.MaxText)
	}
	events := []store.Event{s.Event("evidence.taken", row, store.Actor{Name: "node:" + row.ID}, detail)}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.at(row.ID).slots {
		if one.Decision == records.Approved && one.Digest != e.Digest {
			drift := map[string]string{"before": one.Digest, "now": e.Digest}
			return append(events, s.Event("slot.drift", row, store.Actor{Name: "node:" + row.ID}, drift))
		}
	}
	return events
}

// settle gives a node the profile that follows from what it is, if nobody has given it one.
func (s *Service) settle(ctx context.Context, row *api.NodeRow, f wire.Facts) (api.Profile, error) {
	s.mu.Lock()
	name := s.at(row.ID).profile
	s.mu.Unlock()
	isRented := f.Contained || row.Provider != "" && row.Provider != providerMAAS
	if name == "" && isRented {
		name = api.ProfileContainer
		err := s.Records.Assign(ctx, records.Assignment{NodeID: row.ID, To: name},
			s.Event("profile.assigned", row, store.Actor{}, map[string]string{"profile": name, "before": ""}))
		if err != nil {
			return api.Profile{}, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at(row.ID).profile = name
	p, _ := s.profile(name)
	return p, nil
}

// providerMAAS is the provider of machines that are the operator's own.
const providerMAAS = "maas"

// proposals are the slots that facts give, approved where a rule says so.
func (s *Service) proposals(row *api.NodeRow, p api.Profile, f wire.Facts) []records.Proposal {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []records.Proposal
	for _, one := range slot.Propose(row.ID, p, f) {
		proposal := records.Proposal{ID: one.ID, Shape: one.Shape, Model: one.Model, Rule: s.ruleFor(row, one.Shape)}
		for _, u := range one.Units {
			proposal.Units = append(proposal.Units, records.Unit{Key: u.Key, UUID: u.UUID})
		}
		out = append(out, proposal)
	}
	return out
}

// isAcceptance reports whether evidence is of a check that proves what is paid for: no other one measures the disk.
func isAcceptance(e wire.Evidence) bool { return checkOf(e, wire.CheckDiskSpeed).Saw != notLookedAt }

// notLookedAt is what a check saw that is not in the evidence.
const notLookedAt = "it was not looked at"

func checkOf(e wire.Evidence, name string) wire.Check {
	for _, c := range e.Checks {
		if c.Name == name {
			return c
		}
	}
	return wire.Check{Name: name, State: wire.CheckUnknown, Saw: notLookedAt}
}
