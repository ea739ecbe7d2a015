package view

import (
	"container/list"
	"encoding/json"
	"maps"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/label"
	"muster/gateway/internal/view/reading"
	"muster/store"
)

// node is what the view has of one node. Fleet.mu guards it. Its row is never changed, only replaced: readers keep it.
type node struct {
	row       *api.NodeRow
	enrolment string
	interval  time.Duration
	skew      *int64
	said      bool        // a person set how many GPUs are expected
	probe     *wire.Probe // of the last reading; nil: none
	idle      map[string]*stretch

	place    int           // its number, from 0, which it keeps
	version  uint64        // of the view, when the row was last replaced
	reshaped uint64        // and when more of it than api.Live was
	change   *list.Element // in the view's changes
}

// read makes a node of its row. earlier is what the view has of it; nil: nothing. A heartbeat that the view has heard and the row
// does not know stays.
func read(row *store.Node, earlier *node, ref store.StatusRef) *node {
	n := &node{enrolment: row.EnrolmentID, said: row.GPUsSaid, idle: map[string]*stretch{}, row: &api.NodeRow{}}
	same := earlier != nil && earlier.enrolment == row.EnrolmentID
	if same {
		n.idle = earlier.idle
	}
	if row.State == wire.StateRetired { // the readings of machines that were given back would only fill memory
		n.idle = nil
		n.interval = row.Interval
		n.row.LastSeen = api.UTC(row.LastSeen)
		n.record(row)
		n.look(ref)
		return n
	}
	knows, hasReport := same && earlier.knows(row, ref.Now), same && earlier.hasReport(row)
	if knows || hasReport {
		n.keep(earlier)
	}
	n.record(row)
	if !knows {
		s := sampleOf(row)
		if hasReport { // only the sign of life is newer
			s.Hardware = nil
		}
		n.hear(s)
	}
	n.look(ref)
	return n
}

// keep takes over what was heard before.
func (n *node) keep(earlier *node) {
	n.interval = earlier.interval
	n.skew = earlier.skew
	n.probe = earlier.probe
	*n.row = *earlier.row
}

// knows is true if the view has heard all that the row says, or more. A time in the future is of a clock that was set back.
func (n *node) knows(row *store.Node, now time.Time) bool {
	heard := n.row.LastSeen
	return heard != nil && !heard.After(now.Add(time.Minute)) && row.LastSeen != nil && !heard.Before(*row.LastSeen)
}

// hasReport is true if the view has heard the report that the row has, or a later one.
func (n *node) hasReport(row *store.Node) bool {
	heard := n.row.LastSeen
	return heard != nil && row.ReportedAt != nil && !heard.Before(*row.ReportedAt)
}

// record puts into the row what is on record of a node, whoever has heard it.
func (n *node) record(row *store.Node) {
	g := n.row
	g.ID, g.Name, g.Tenant, g.Provider, g.InstanceID = row.ID, row.Name, row.Tenant, row.Provider, row.InstanceID
	g.Labels = maps.Clone(row.Labels)
	if g.Labels == nil {
		g.Labels = map[string]string{}
	}
	g.PricePerHour = label.PriceOf(row.Labels)
	g.CreatedAt = row.CreatedAt.UTC()
	g.State, g.StateSince, g.StateReasons = row.State, row.StateSince.UTC(), []string{}
	for _, reason := range row.Reasons {
		g.StateReasons = append(g.StateReasons, reason.Reason)
	}
	g.GPUsExpected = nil
	if row.GPUsExpected > 0 || row.GPUsSaid {
		g.GPUsExpected = new(row.GPUsExpected) // a copy: else it would keep the whole row in memory
	}
	g.NotAfter, g.RenewalOverdue = nil, false
	if row.Certificate.Fingerprint != "" {
		g.NotAfter = api.UTC(&row.Certificate.NotAfter)
		g.RenewalOverdue = row.Certificate.OverdueAt != nil
	}
}

// sampleOf is what the database has of the last heartbeat, or of the enrolment if there was none.
func sampleOf(row *store.Node) Sample {
	s := Sample{NodeID: row.ID, Interval: row.Interval, Address: row.Address, Agent: decode[wire.AgentInfo](row.Agent),
		Hardware: decode[wire.Hardware](row.Hardware)}
	if row.LastSeen != nil {
		s.At = *row.LastSeen
	}
	if row.SkewMillis != nil {
		s.SkewMillis = *row.SkewMillis
	}
	if row.ReportedAt != nil && s.Hardware != nil {
		s.Hardware = reading.Past(s.Hardware)
	}
	return s
}

// decode reads what the database has of a part of a heartbeat; nil: nothing.
func decode[T any](text string) *T {
	into := new(T)
	if json.Unmarshal([]byte(text), into) != nil {
		return nil
	}
	return into
}

// hear puts a heartbeat into the row, which nobody else has yet. A zero time: the node was never heard.
func (n *node) hear(s Sample) {
	g := n.row
	if !s.At.IsZero() {
		g.LastSeen = api.UTC(&s.At)
	}
	n.interval = s.Interval
	n.skew = new(s.SkewMillis)
	if s.Address != "" {
		g.Address = s.Address
	}
	g.IntervalSeconds = nil
	if s.Interval > 0 {
		g.IntervalSeconds = new(s.Interval.Seconds())
	}
	if s.Agent != nil {
		g.AgentVersion = s.Agent.Version
	}
	if s.Hardware == nil {
		return
	}
	h := s.Hardware
	n.probe = &h.Probe
	g.Probe = h.Probe.State
	g.ReadAt = api.UTC(api.ReadAt(h.Probe.SampledAt, n.skew))
	g.Xids = h.Xids
	g.BootTime = h.BootTime
	g.Runs = h.Runs
	g.CPUs = h.CPUs
	g.MemoryUsedMiB = h.MemoryUsedMiB
	g.MemoryMiB = h.MemoryTotalMiB
	g.DiskUsedMiB = h.DiskUsedMiB
	g.DiskMiB = h.DiskTotalMiB
	g.Load1 = h.Load1
	n.hearGPUs(h.GPUs, s.At)
}

// hearGPUs keeps the stretches of idleness of the GPUs that answered just now. Old rows tell nothing. A GPU that a run keeps for itself is
// busy, whatever it does: it could not be given to others.
func (n *node) hearGPUs(rows []wire.GPU, at time.Time) {
	old := at.IsZero() || api.Old(*n.probe, n.row.IntervalSeconds, n.skew, at)
	stretches := make(map[string]*stretch, len(rows))
	n.row.GPUs = make([]api.GPU, len(rows))
	for i := range rows {
		g := &n.row.GPUs[i]
		*g = gpuOf(&rows[i])
		s := n.idle[g.UUID]
		if s == nil {
			s = &stretch{}
		}
		stretches[g.UUID] = s
		held := n.row.RunOn(g.UUID) != ""
		if held {
			g.Use = api.UseBusy
		}
		if old || held {
			s.since = time.Time{}
			continue
		}
		s.read(g, at)
	}
	n.idle = stretches
	n.row.IdleSince = n.idleSince()
}

// idleSince is since when all GPUs of the node are idle. One that does not answer may be at work.
func (n *node) idleSince() *time.Time {
	gpus := n.row.GPUs
	if len(gpus) == 0 || n.row.MissingGPUs() > 0 {
		return nil
	}
	var latest *time.Time
	for i := range gpus {
		since := gpus[i].IdleSince
		if since == nil {
			return nil
		}
		if latest == nil || since.After(*latest) {
			latest = since
		}
	}
	return latest
}

func gpuOf(row *wire.GPU) api.GPU {
	g := api.GPU{
		Index: row.Index, UUID: row.UUID, Name: row.Name, MemoryUsedMiB: row.MemoryUsedMiB, MemoryMiB: row.MemoryTotalMiB,
		MemoryFreeMiB: row.MemoryFreeMiB, MemorySource: row.MemorySource, UtilizationPercent: row.UtilizationPercent,
		TemperatureCelsius: row.TemperatureCelsius, PowerWatts: row.PowerWatts, PowerLimitWatts: row.PowerLimitWatts, MIG: row.MIG,
		Health: row.Health, Row: row,
	}
	if g.Health == nil {
		g.Health = []string{}
	}
	if g.MemoryFreeMiB == nil && g.MemoryMiB != nil && g.MemoryUsedMiB != nil {
		g.MemoryFreeMiB = new(max(*g.MemoryMiB-*g.MemoryUsedMiB, 0))
	}
	return g
}

// look computes what changes with time alone. The row is one that nobody else has yet.
func (n *node) look(ref store.StatusRef) {
	g := n.row
	if n.probe != nil && len(g.GPUs) == 0 {
		g.GPUs = nil
		if api.Counted(n.probe.State, 0, g.GPUsExpected) {
			g.GPUs = []api.GPU{}
		}
	}
	g.Status, g.Unheard = n.status(ref)
	g.Fresh = !g.Unheard && n.fresh(ref, g.Status) // what it does since a start is not known until it is heard
	if g.State != wire.StateRetired && g.Status != store.StatusOnline {
		n.forgetIdle()
	}
}

// status is the node's status, and whether it rests on what was heard before the gateway's start.
func (n *node) status(ref store.StatusRef) (status string, unheard bool) {
	status = ref.Status(n.row.State, n.row.LastSeen, n.interval)
	return status, status == store.StatusOnline && !ref.Heard(*n.row.LastSeen)
}

// due is true if look would change something.
func (n *node) due(ref store.StatusRef) bool {
	status, unheard := n.status(ref)
	return n.row.Status != status || n.row.Unheard != unheard || n.row.Fresh != (!unheard && n.fresh(ref, status))
}

// fresh is true if the rows of GPUs are of now, also if there are none because the node has no GPU.
func (n *node) fresh(ref store.StatusRef, status string) bool {
	g := n.row
	if n.probe == nil || g.State == wire.StateRetired || status != store.StatusOnline {
		return false
	}
	if len(g.GPUs) == 0 {
		return g.GPUs != nil
	}
	return !api.Old(*n.probe, g.IntervalSeconds, n.skew, ref.Now)
}

// forgetIdle: nobody knows what the GPUs of a silent node do.
func (n *node) forgetIdle() {
	for _, s := range n.idle {
		s.since = time.Time{}
	}
	n.row.IdleSince = nil
	gpus := n.row.GPUs
	if gpus == nil {
		return
	}
	n.row.GPUs = make([]api.GPU, len(gpus))
	copy(n.row.GPUs, gpus)
	for i := range gpus {
		n.row.GPUs[i].IdleSince = nil
		n.row.GPUs[i].Use = ""
	}
}
