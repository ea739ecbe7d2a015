package placement

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/label"
	"muster/gateway/internal/placement/inventory"
	"muster/gateway/internal/placement/inventory/pick"
	"muster/store"
	records "muster/store/placement"
)

const (
	mostGPUs     = 4096 // that one allocation may ask for
	mostPriority = 100
	retries      = 5 // of a claim that the database refused
)

// ask is an allocation that somebody asks for.
type ask struct {
	records.Allocation
	wish      api.Wish
	picks     []label.Term
	user      *api.AllocationUser
	launch    *api.Launch
	anyTenant bool                // the caller is of all tenants, and named none
	gpus      map[string][]string // UUIDs that it has, by node, once it is placed
}

// extras is what a record keeps beside the wish.
type extras struct {
	User   *api.AllocationUser `json:"user,omitempty"`
	Launch *api.Launch         `json:"launch,omitempty"`
}

// Allocate gives GPUs to the caller, or has the allocation wait for them. The same id again returns the same allocation. may refuses a type
// of task that the caller may not ask for.
func (s *Service) Allocate(ctx context.Context, who Caller, q api.NewAllocation, may func(string) error) (a api.Allocation, created bool,
	err error) {
	wanted, err := s.read(who, q, may)
	if err != nil {
		return a, false, err
	}
	if !q.DryRun {
		if a, err := s.same(ctx, who, wanted); !errors.Is(err, store.ErrNotFound) {
			return a, false, err
		}
	}
	if q.DryRun {
		if err := s.could(ctx, wanted); err != nil {
			return a, false, err
		}
		a, err = s.dryRun(ctx, wanted)
		return a, false, err
	}
	if err := ctx.Err(); err != nil {
		return a, false, err
	}
	ctx = context.WithoutCancel(ctx) // a caller who goes away must not leave half an allocation
	why, err := s.place(ctx, &wanted, true, s.takenBefore(&wanted))
	if err == nil && why != "" {
		err = s.waitOrRefuse(ctx, wanted, why, q.Wait || q.Rent, who.By)
	}
	switch {
	case errors.Is(err, errTaken):
		a, err = s.same(store.Fresh(ctx), who, wanted)
		return a, false, err
	case err != nil:
		return a, false, err
	}
	a, err = s.Allocation(store.Fresh(ctx), who.Tenant, wanted.ID)
	return a, true, err
}

// waitOrRefuse has what cannot be placed now wait, if it may and could be placed at some time.
func (s *Service) waitOrRefuse(ctx context.Context, wanted ask, why string, wait bool, by store.Actor) error {
	if err := s.could(ctx, wanted); err != nil {
		return err
	}
	if !wait {
		return refused(why)
	}
	return s.queue(ctx, wanted, why, by)
}

// errTaken: an allocation with this id came first.
var errTaken = errors.New("the id of the allocation is taken")

func refused(why string) error {
	code := wire.CodeNoCapacity
	if strings.HasPrefix(why, overQuota) {
		code = wire.CodeOverQuota
	}
	return wire.Refuse(code, why, "muster alloc create ... --wait waits for it; muster alloc ls shows who has what until when")
}

// overQuota begins the reason of an allocation that its tenant's quota keeps waiting.
const overQuota = "the tenant's quota"

// read checks all of a request that can be checked without the nodes.
func (s *Service) read(who Caller, q api.NewAllocation, may func(string) error) (ask, error) {
	bad := func(what, hint string) (ask, error) { return ask{}, wire.Refuse(wire.CodeBadRequest, what, hint) }
	tenant := cmp.Or(q.Tenant, who.Tenant)
	ttl, known := seconds(q.TTLSeconds)
	ttl = cmp.Or(ttl, s.ttl)
	switch {
	case tenant == "":
		tenant = store.DefaultTenant
	case who.Tenant != "" && tenant != who.Tenant:
		return ask{}, wire.Refuse(wire.CodeForbidden, "the account is for the tenant "+who.Tenant+" only", "leave the tenant out")
	}
	if q.ID == "" {
		q.ID = wire.NewTaskID()
	}
	if err := wire.CheckTaskID(q.ID); err != nil {
		return ask{}, err
	}
	switch {
	case (q.SKU == "") == (q.GPU == ""):
		return bad("it takes a SKU, or a model of GPUs", "--sku h100-sxm-gpu or --gpu h100; muster sku ls shows them")
	case q.Count < 0 || q.Count > mostGPUs:
		return bad(fmt.Sprintf("%d is no number of GPUs", q.Count), fmt.Sprintf("from 1 to %d", mostGPUs))
	case !known || ttl < time.Minute || ttl > s.longest:
		return bad(fmt.Sprintf("an allocation cannot last for %d seconds", q.TTLSeconds),
			"from a minute to "+inWords(s.longest)+"; then muster alloc extend")
	case q.Priority < -mostPriority || q.Priority > mostPriority:
		return bad(fmt.Sprintf("%d is no priority", q.Priority), fmt.Sprintf("from -%d to %d", mostPriority, mostPriority))
	case q.Priority > 0 && !who.Write:
		return ask{}, wire.Refuse(wire.CodeForbidden, "a priority above 0 goes before others", "it needs the scope "+api.ScopePlacementWrite)
	case q.MaxPrice != nil && !(*q.MaxPrice > 0):
		return bad("the highest price is no price", "such as 2.50, per hour of all of it")
	case len(q.Note) > wire.MaxText || q.Note != wire.Plain(q.Note, wire.MaxText):
		return bad("the note is too long, or no line of text", fmt.Sprintf("at most %d bytes", wire.MaxText))
	}
	if q.Rent {
		if err := checkRent(q.Wish); err != nil {
			return ask{}, err
		}
	}
	q.Count = max(q.Count, 1)
	picks, err := label.ParseSelector(q.Selector)
	if err != nil {
		return ask{}, err
	}
	if err := checkExtras(q, may); err != nil {
		return ask{}, err
	}
	wish, err := json.Marshal(q.Wish)
	if err != nil {
		return ask{}, err
	}
	a := records.Allocation{ID: q.ID, Owner: who.Account, Tenant: tenant, SKU: q.SKU, Wish: string(wish), Priority: q.Priority, Note: q.Note,
		TTL:   ttl,
		State: records.Waiting, CreatedAt: s.Now()}
	if q.User != nil || q.Launch != nil {
		text, err := json.Marshal(extras{q.User, q.Launch})
		if err != nil {
			return ask{}, err
		}
		a.User = string(text)
	}
	return ask{Allocation: a, wish: q.Wish, picks: picks, user: q.User, launch: q.Launch, anyTenant: who.Tenant == "" && q.Tenant == ""}, nil
}

// seconds is a time of so many seconds; false: it is longer than a time.Duration can be.
func seconds(n int) (time.Duration, bool) {
	const most = int64(math.MaxInt64 / time.Second)
	return time.Duration(n) * time.Second, int64(n) <= most && int64(n) >= -most
}

// inWords writes a time, in days where they are whole.
func inWords(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= day && d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	return d.String()
}

// checkExtras refuses a user or a workload that no node would take.
func checkExtras(q api.NewAllocation, may func(string) error) error {
	if q.User != nil {
		p := wire.ProvisionUser{Username: q.User.Name, Keys: q.User.Keys, Sudo: q.User.Sudo}
		if err := p.Check(); err != nil {
			return err
		}
		if q.User.Sudo {
			if err := may(wire.TaskProvisionUser); err != nil { // root on the whole node
				return err
			}
		}
	}
	if q.Launch == nil {
		return nil
	}
	if q.Launch.Type != wire.TaskWorkloadLaunch && q.Launch.Type != wire.TaskWorkloadProcess {
		return wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("%.60q starts no workload", q.Launch.Type),
			"it is "+wire.TaskWorkloadLaunch+" or "+wire.TaskWorkloadProcess)
	}
	if err := may(q.Launch.Type); err != nil {
		return err
	}
	return checkLaunch(*q.Launch)
}

// same gives the allocation with this id, if it asks for the same. ErrNotFound: there is none. What an earlier request with the id has not
// ended is ended now.
func (s *Service) same(ctx context.Context, who Caller, wanted ask) (api.Allocation, error) {
	was, err := s.Records.Allocation(ctx, wanted.ID)
	if err != nil {
		return api.Allocation{}, err
	}
	if was.Tenant != wanted.Tenant || was.Owner != wanted.Owner || was.Wish != wanted.Wish || was.User != wanted.User {
		return api.Allocation{}, wire.Refuse(wire.CodeAlreadyThere, "there is another allocation with the id "+wanted.ID, "leave the id out")
	}
	ctx = context.WithoutCancel(ctx)
	switch {
	case was.State == records.Waiting:
		err = s.enqueue(ctx, was.ID, "")
	case isToEquip(was, s.Now()):
		s.equipOrLater(ctx, askOf(was))
	}
	if err != nil {
		return api.Allocation{}, err
	}
	return s.Allocation(store.Fresh(ctx), "", was.ID)
}

// tenantsWith are other tenants whose nodes could give what is asked for, where the caller may ask for any tenant.
func (s *Service) tenantsWith(wanted ask) (others []string) {
	if !wanted.anyTenant {
		return nil
	}
	seen := map[string]bool{wanted.Tenant: true}
	for _, row := range s.Nodes() {
		if seen[row.Tenant] {
			continue
		}
		seen[row.Tenant] = true
		nodes, _ := s.Offer(wanted.ID, row.Tenant, wanted.picks)
		if why, _ := pick.Could(nodes, wanted.wish); why == "" {
			others = append(others, row.Tenant)
		}
	}
	return others
}

// could refuses what no node could ever give, and what is more than the tenant may have.
func (s *Service) could(ctx context.Context, wanted ask) error {
	nodes, _ := s.Offer(wanted.ID, wanted.Tenant, wanted.picks)
	why, nearest := pick.Could(nodes, wanted.wish)
	isGot, err := why == "", error(nil)
	if !isGot {
		isGot, err = s.couldGet(ctx, &wanted)
	}
	switch {
	case err != nil:
		return err
	case isGot:
		return s.withinQuota(ctx, wanted, nodes)
	}
	hint := "muster sku ls shows what there is"
	if others := s.tenantsWith(wanted); len(others) > 0 {
		hint = "the tenant " + wanted.Tenant + " has none; others have: --tenant " + strings.Join(others, ", ")
	}
	if len(nearest) > 0 {
		hint = "what is nearest: " + strings.Join(nearest, ", ")
	}
	return wire.Refuse(wire.CodeNoCapacity, why, hint)
}

// withinQuota refuses what the tenant's quota could never allow.
func (s *Service) withinQuota(ctx context.Context, wanted ask, nodes []pick.Node) error {
	q, err := s.Records.Quota(ctx, wanted.Tenant)
	if err != nil || q.GPUs == nil {
		return err
	}
	each := 1
	if wanted.wish.SKU != "" {
		each = math.MaxInt32
		for _, n := range nodes {
			for _, slot := range n.Slots {
				if slot.SKU == wanted.wish.SKU {
					each = min(each, len(slot.Units))
				}
			}
		}
	}
	if most := *q.GPUs; int64(each)*int64(wanted.wish.Count) > most {
		return wire.Refuse(wire.CodeOverQuota, fmt.Sprintf("%s is %d GPUs, and this is more", overQuota, most),
			"ask for less, or have an operator raise it: muster quota set")
	}
	return nil
}

// place claims slots for an allocation, beside those that are taken. why says why it cannot be placed now; empty: it was.
func (s *Service) place(ctx context.Context, wanted *ask, isNew bool, taken pick.Taken) (why string, err error) {
	for range retries {
		choice, rows := s.choose(wanted, taken)
		if len(choice.Slots) == 0 {
			return cmp.Or(strings.Join(choice.Why, "; "), "nothing is free"), nil
		}
		claim := s.claimOf(wanted, choice, isNew)
		why, err = s.overQuota(ctx, wanted.Tenant, claim.Want)
		if err == nil && why == "" {
			err = s.Records.Claim(ctx, claim, s.claimEvents(wanted, choice, rows)...)
		}
		if err == nil && why == "" {
			s.keep(wanted, choice, claim)
			s.equipOrLater(ctx, wanted)
			return "", nil
		}
		if err != nil && !errors.Is(err, store.ErrConflict) { // it may be written: what is read decides, and until then nobody has these slots
			s.doubt(context.WithoutCancel(ctx), doubtful{wanted.ID, choice, slices.Collect(maps.Keys(rows))})
			return "", err
		}
		s.LetGo(choice, wanted.ID)
		if err == nil {
			return why, nil
		}
		row, err := s.Records.Allocation(store.Fresh(ctx), wanted.ID)
		switch {
		case isNew && err == nil:
			return "", errTaken
		case !isNew && (errors.Is(err, store.ErrNotFound) || err == nil && row.State != records.Waiting):
			s.leave(wanted.ID) // it has ended before it was in the queue, and would keep others from their turn
			return "", nil
		}
		if err := s.Reread(ctx, slices.Collect(maps.Keys(rows))...); err != nil {
			return "", err
		}
	}
	return "other allocations were faster", nil
}

// choose picks slots, and has nobody else pick them while the claim is written.
func (s *Service) choose(wanted *ask, taken pick.Taken) (pick.Choice, map[string]*api.NodeRow) {
	return s.Reserve(wanted.ID, wanted.Tenant, wanted.picks, func(nodes []pick.Node) pick.Choice {
		return pickBeside(taken, nodes, wanted.wish)
	})
}

// pickBeside picks slots beside those that are taken.
func pickBeside(taken pick.Taken, nodes []pick.Node, wish api.Wish) pick.Choice {
	choice := pick.Pick(taken.Without(nodes), wish)
	if len(choice.Slots) == 0 && len(taken) > 0 && len(pick.Pick(nodes, wish).Slots) > 0 {
		choice.Why = []string{"others that wait for the same are ahead of it"}
	}
	return choice
}

// keep notes that a claim was written.
func (s *Service) keep(wanted *ask, choice pick.Choice, claim records.Claim) {
	wanted.gpus = s.Keep(choice, inventory.Hold{Hold: records.Hold{Allocation: wanted.ID}, Owner: wanted.Owner, Tenant: wanted.Tenant,
		Since: claim.At, EndsAt: claim.EndsAt})
	s.leave(wanted.ID)
}

// leave takes an allocation out of the queue.
func (s *Service) leave(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waits, id)
	delete(s.rents, id)
	s.queued = slices.DeleteFunc(s.queued, func(w *ask) bool { return w.ID == id })
}

// claimOf is the claim for a choice.
func (s *Service) claimOf(wanted *ask, choice pick.Choice, isNew bool) records.Claim {
	now := s.Now()
	c := records.Claim{Allocation: wanted.ID, At: now, EndsAt: now.Add(wanted.TTL)}
	if isNew {
		c.New = &wanted.Allocation
	}
	c.Slots, c.Want = s.Picks(choice)
	return c
}

// overQuota says that a tenant would have more than it may; empty: it would not.
func (s *Service) overQuota(ctx context.Context, tenant string, more int) (why string, err error) {
	q, err := s.Records.Quota(ctx, tenant)
	if err != nil || q.GPUs == nil || q.Used+int64(more) <= *q.GPUs {
		return "", err
	}
	return fmt.Sprintf("%s is %d GPUs, and %d are in use", overQuota, *q.GPUs, q.Used), nil
}

// claimEvents are the events of a claim, one for each node.
func (s *Service) claimEvents(wanted *ask, choice pick.Choice, rows map[string]*api.NodeRow) (events []store.Event) {
	gpus := map[string]int{}
	for _, c := range choice.Slots {
		gpus[c.Node.ID] += len(c.Slot.Units)
	}
	for id, count := range gpus {
		e := s.Event("allocation.claimed", rows[id], store.Actor{Name: wanted.Owner}, map[string]string{"allocation": wanted.ID,
			"gpus": fmt.Sprint(count), "ends": s.Now().Add(wanted.TTL).UTC().Format(time.RFC3339)})
		events = append(events, e)
	}
	return events
}

// dryRun says what an allocation would get.
func (s *Service) dryRun(ctx context.Context, wanted ask) (api.Allocation, error) {
	nodes, rows := s.Offer(wanted.ID, wanted.Tenant, wanted.picks)
	choice := pickBeside(s.takenBefore(&wanted), nodes, wanted.wish)
	a, err := s.shownAllocation(ctx, wanted.Allocation, false)
	if err != nil {
		return a, err
	}
	a.PerHour = choice.PerHour
	if len(choice.Slots) == 0 {
		why := strings.Join(choice.Why, "; ")
		a.WaitsFor = cmp.Or(s.wouldGet(ctx, &wanted, why), why)
		return a, nil
	}
	units := 0
	for _, c := range choice.Slots {
		units += len(c.Slot.Units)
	}
	if a.WaitsFor, err = s.overQuota(ctx, wanted.Tenant, units); err != nil || a.WaitsFor != "" {
		return a, err
	}
	for _, c := range choice.Slots {
		one := api.AllocatedSlot{Slot: c.Slot.ID, Node: c.Node.Name, NodeID: c.Node.ID, GPUs: []string{}, State: api.SlotAllocated}
		slot, _ := s.Slot(rows[c.Node.ID], c.Slot.ID)
		for _, u := range slot.Units {
			one.GPUs = append(one.GPUs, u.UUID)
		}
		a.Slots = append(a.Slots, one)
	}
	return a, nil
}
