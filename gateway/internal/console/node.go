package console

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/console/maas"
	"muster/gateway/internal/console/picture"
	"muster/gateway/internal/console/placement"
)

// How much of a node's story its page has. There are pages for the rest.
const (
	tasksOfNode    = 8
	sessionsOfNode = 4
	usesOfNode     = 12 // of its GPUs
	eventsOfNode   = 12
)

// nodePage is all that is known of a node, for one page.
type nodePage struct {
	Node     api.NodeDetail
	Hardware *wire.Hardware // nil: it never said any
	Cost     *wire.Cost     // nil: as well
	Counted  bool           // it is known how many GPUs answer
	Old      bool           // the rows of GPUs are not of now
	ReadAt   *time.Time     // when they were read, by the gateway's clock
	Reasons  []picture.Reason
	Findings []picture.Finding
	Silence  *picture.Silence // nil: it is heard from, or nobody waits for it
	GPUs     []picture.GPU
	Sheet    []picture.SheetRow // what else the GPUs say
	Host     []picture.Meter
	Tasks    []api.Task
	Sessions []picture.SessionRow // the newest; those that go on come first
	Events   []api.Event
	Plots    plots
	Logs     nodeLogs
	Acts     []act
	Inside   bool   // sessions are shown
	Stream   string // URL of what changes; empty: nothing will
	Conflict bool   // two machines use its identity
	Runs     []nodeRun
	Place    *placement.Node // nil: it is not shown
	Use      api.GPUUseList  // who has worked on its GPUs
	Machine  *maas.Machine   // what MAAS says of it; nil: it is none of its machines
}

// Told draws events beside the findings. It leaves out sentences that the findings say already.
func (n nodePage) Told(events []api.Event) []picture.Event {
	return picture.EventsOf(events, n.findings()...)
}

// Says reports whether a finding says this text; it is true for an empty text too.
func (n nodePage) Says(text string) bool {
	return strings.Contains(strings.Join(n.findings(), "\n"), picture.Drawn(text))
}

func (n nodePage) findings() []string {
	var texts []string
	for _, f := range n.Findings {
		texts = append(texts, picture.Drawn(f.Text))
	}
	return texts
}

// nodeRun is the start of an agent.
type nodeRun struct {
	api.NodeRun
	Copy bool // one above shows the same certificate
}

// runsOf marks the starts that show the certificate of another: one choice is enough for them all.
func runsOf(runs []api.NodeRun) []nodeRun {
	seen := map[string]bool{}
	all := make([]nodeRun, len(runs))
	for i, run := range runs {
		all[i] = nodeRun{run, seen[run.Fingerprint]}
		seen[run.Fingerprint] = true
	}
	return all
}

func (v *visit) showNode() (page, error) {
	data, err := v.node(v.r.PathValue("node"))
	if err != nil {
		return page{}, err
	}
	if v.Chosen("plots", "", "off") == "" { // a script that keeps the page live asks for them less often
		if data.Plots, err = v.plots(&data); err != nil {
			return page{}, err
		}
		data.Logs = v.logs(&data)
	}
	return page{name: "node", title: data.Node.Name, section: "fleet", data: data}, nil
}

// node gathers what the page of a node says, but for its plots.
func (v *visit) node(name string) (nodePage, error) {
	detail, err := v.detail(name)
	if err != nil {
		return nodePage{}, err
	}
	data := nodePage{Node: detail}
	n := &data.Node
	data.Hardware = decoded[wire.Hardware](n.Hardware)
	data.Cost = decoded[wire.Cost](n.Cost)
	if data.Hardware != nil {
		data.ReadAt = api.ReadAt(data.Hardware.Probe.SampledAt, n.SkewMillis)
		data.Counted = api.Counted(data.Hardware.Probe.State, len(data.Hardware.GPUs), n.GPUsExpected)
		data.Old = n.Status != wire.StatusOnline || api.Old(data.Hardware.Probe, n.IntervalSeconds, n.SkewMillis, v.now)
	}
	data.Conflict = slices.Contains(n.StateReasons, wire.ReasonConflict)
	data.Runs = runsOf(n.Runs)
	data.Acts = actsOf(n)
	if h := data.Hardware; h != nil {
		data.GPUs = picture.GPUsOf(h, n.Placement)
		data.Sheet = picture.SheetOf(h.GPUs)
		data.Host = picture.HostOf(h)
	}
	data.Use, err = get[api.GPUUseList](v, api.At(api.PathGPUUses, n.ID), api.GPUUseFilter{Limit: usesOfNode})
	if err != nil {
		return nodePage{}, err
	}
	if data.Machine, err = v.machine(n); err != nil {
		return nodePage{}, err
	}
	if v.may.May(api.ScopePlacementRead) {
		if data.Place, err = placement.NodeOf(v.r.Context(), v.api, n, data.GPUs); err != nil {
			return nodePage{}, err
		}
	}
	if err := v.story(&data); err != nil {
		return nodePage{}, err
	}
	last := picture.Last{Events: data.Events, Sample: picture.SampleOf(data.Hardware, data.GPUs, data.Host)}
	if data.Cost != nil {
		last.Starts = data.Cost.Starts
	}
	data.Silence = picture.SilenceOf(n, last, v.now)
	data.Findings = picture.FindingsOf(n, data.GPUs, data.Silence)
	data.Reasons = picture.ReasonsOf(n, data.Findings)
	data.Stream = v.streamOf(n)
	return data, nil
}

// detail asks for a node by its name or id.
func (v *visit) detail(name string) (api.NodeDetail, error) {
	return get[api.NodeDetail](v, api.At(api.PathNode, name), nil)
}

// decoded reads a part of a node that the API passes on; nil: there is none.
func decoded[T any](raw json.RawMessage) *T {
	var part *T
	if json.Unmarshal(raw, &part) != nil {
		return nil
	}
	return part
}

// story adds tasks and events, as far as the account may see them.
func (v *visit) story(data *nodePage) error {
	if v.may.May(api.ScopeTasksRead) {
		list, err := get[api.TaskPage](v, api.PathTasks, api.TaskFilter{Node: data.Node.ID, Limit: tasksOfNode})
		if err != nil {
			return err
		}
		data.Tasks = list.Tasks
	}
	if data.Inside = v.may.MayPart(api.ScopeSessions); data.Inside {
		if err := v.nodeSessions(data); err != nil {
			return err
		}
	}
	if v.may.May(api.ScopeEventsRead) {
		list, err := get[api.EventList](v, api.PathEvents, api.EventFilter{Node: data.Node.ID, Limit: eventsOfNode})
		if err != nil {
			return err
		}
		data.Events = list.Events
	}
	return nil
}

// streamOf is where a script hears that something about the node has changed. Of a node that was given back nothing will.
func (v *visit) streamOf(n *api.NodeDetail) string {
	if n.State == wire.StateRetired {
		return ""
	}
	kinds := []string{api.StreamNode}
	if v.may.May(api.ScopeTasksRead) {
		kinds = append(kinds, api.StreamTask)
	}
	if v.may.May(api.ScopeEventsRead) {
		kinds = append(kinds, api.StreamEvent)
	}
	return dataPath + "stream?" + url.Values{"selector": {"name=" + n.Name}, "kinds": {strings.Join(kinds, ",")}}.Encode()
}
