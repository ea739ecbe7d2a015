package web

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/client"
	"muster/gateway/internal/glance"
	"muster/gateway/internal/health"
	"muster/gateway/internal/picture"
)

// How much of a node's story its page has. There are pages for the rest.
const (
	tasksOfNode  = 8
	eventsOfNode = 12
)

// nodePage is all that is known of a node, for one page.
type nodePage struct {
	Node     client.NodeDetail
	Hardware *wire.Hardware // nil: it never said any
	Cost     *wire.Cost     // nil: as well
	Old      bool           // the rows of GPUs are not of now
	ReadAt   *time.Time     // when they were read, by the gateway's clock
	Reasons  []reason
	Findings []finding
	Silence  *silence // nil: it is heard from, or nobody waits for it
	GPUs     []picture.GPU
	Sheet    []picture.SheetRow // what else the GPUs say
	Host     []picture.Meter
	Tasks    []client.Task
	Events   []client.Event
	Plots    plots
	Logs     nodeLogs
	Acts     []act
	Stream   string // URL of what changes; empty: nothing will
	Conflict bool   // two machines use its identity
}

// reason is why a node is in its state, in plain words.
type reason struct{ Word, Meaning, Detail string }

// finding is a finding with the name of its GPU.
type finding struct {
	glance.Finding
	Place string // such as GPU 3; empty: it is about the node
}

// silence is about a node that is not heard from any more.
type silence struct {
	Since    *time.Time
	Price    *float64 // an hour
	Cost     string   // since then; empty: it has no price
	Sample   []string // what it said last of itself
	Words    []string // of the agent, about what was wrong
	Events   []client.Event
	Meaning  string
	WhatToDo string
	Topic    string
}

func (v *visit) showNode() (page, error) {
	data, err := v.node(v.r.PathValue("node"))
	if err != nil {
		return page{}, err
	}
	if v.asked("plots") != "off" { // a script that keeps the page live asks for them less often
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
		data.ReadAt = glance.ReadAt(data.Hardware.Probe.SampledAt, n.SkewMillis)
		data.Old = n.Status != wire.StatusOnline || glance.Old(data.Hardware.Probe, n.IntervalSeconds, n.SkewMillis, v.now)
	}
	data.Conflict = slices.Contains(n.StateReasons, wire.ReasonConflict)
	data.Acts = actsOf(n)
	data.describeHardware()
	if err := v.story(&data); err != nil {
		return nodePage{}, err
	}
	data.Silence = silenceOf(&data, v.now)
	data.Findings = findingsOf(&data)
	data.Reasons = reasonsOf(n, data.Findings)
	data.Stream = v.streamOf(n)
	return data, nil
}

// detail asks for a node by its name or id.
func (v *visit) detail(name string) (client.NodeDetail, error) {
	var n client.NodeDetail
	raw, err := v.api.Node(v.r.Context(), name)
	if err != nil {
		return n, err
	}
	if err := json.Unmarshal(raw, &n); err != nil {
		return n, fmt.Errorf("the API's answer about a node: %w", err)
	}
	return n, nil
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
	if v.may.May(client.ScopeTasksRead) {
		list, err := v.api.Tasks(v.r.Context(), client.TaskFilter{Node: data.Node.ID, Limit: tasksOfNode})
		if err != nil {
			return err
		}
		data.Tasks = list.Tasks
	}
	if v.may.May(client.ScopeEventsRead) {
		list, err := v.api.Events(v.r.Context(), client.EventFilter{Node: data.Node.ID, Limit: eventsOfNode})
		if err != nil {
			return err
		}
		data.Events = list.Events
	}
	return nil
}

// streamOf is where a script hears that something about the node has changed. Of a node that was given back nothing will.
func (v *visit) streamOf(n *client.NodeDetail) string {
	if n.State == wire.StateRetired {
		return ""
	}
	kinds := []string{client.StreamNode}
	if v.may.May(client.ScopeTasksRead) {
		kinds = append(kinds, client.StreamTask)
	}
	if v.may.May(client.ScopeEventsRead) {
		kinds = append(kinds, client.StreamEvent)
	}
	return dataPath + "stream?" + url.Values{"selector": {"name=" + n.Name}, "kinds": {strings.Join(kinds, ",")}}.Encode()
}

// reasonsOf leaves out what the findings say at greater length.
func reasonsOf(n *client.NodeDetail, findings []finding) []reason {
	var all []reason
	for _, word := range n.StateReasons {
		if covers(findings, word) {
			continue
		}
		all = append(all, reason{word, meaningOf(word), n.StateDetails[word]})
	}
	return all
}

// covers is true where a finding says the same as a reason of the state.
func covers(findings []finding, word string) bool {
	for _, f := range findings {
		if f.Rule == word {
			return true
		}
		for _, r := range health.Rules() {
			if r.Name == f.Rule && r.Reason == word {
				return true
			}
		}
	}
	return false
}

// meaningOf says in a sentence why a node is unavailable; empty: the word is of another version.
func meaningOf(word string) string {
	switch word {
	case wire.ReasonConflict:
		return "Two machines use this node's identity, so it gets no work."
	case wire.ReasonExpired:
		return "Its certificate has expired."
	case wire.ReasonSuspended:
		return "A person took it out of service."
	}
	for _, r := range health.Rules() {
		if r.Name == word || r.Reason == word {
			return r.Meaning
		}
	}
	return ""
}

// findingsOf are the findings but for the silence, which the page tells at greater length.
func findingsOf(data *nodePage) []finding {
	places := map[string]string{}
	for i := range data.GPUs {
		g := &data.GPUs[i]
		places[g.UUID] = "GPU " + strconv.Itoa(g.Index)
		for _, f := range data.Node.Findings {
			if f.GPU == g.UUID {
				g.Found = append(g.Found, f)
			}
		}
	}
	var all []finding
	for _, f := range data.Node.Findings {
		if f.Rule == health.Silent && data.Silence != nil {
			continue
		}
		all = append(all, finding{f, places[f.GPU]})
	}
	return all
}

// silenceOf says what is known of a node that died quietly; nil: it did not.
func silenceOf(data *nodePage, now time.Time) *silence {
	n := &data.Node
	if n.Status != wire.StatusStale || n.State == wire.StateRetired || n.LastSeen == nil {
		return nil
	}
	s := &silence{Since: n.LastSeen, Price: n.PricePerHour, Sample: data.lastSample(), Words: slices.Clone(n.Notices)}
	if n.PricePerHour != nil {
		s.Cost = strconv.FormatFloat(max(now.Sub(*n.LastSeen).Hours(), 0)**n.PricePerHour, 'f', 2, 64)
	}
	if data.Cost != nil && data.Cost.Starts != nil && data.Cost.Starts.Why != "" {
		s.Words = append(s.Words, "its agent had ended before: "+data.Cost.Starts.Why)
	}
	for _, e := range data.Events {
		if !e.At.After(n.LastSeen.Add(time.Minute)) && len(s.Events) < 3 {
			s.Events = append(s.Events, e)
		}
	}
	for _, r := range health.Rules() {
		if r.Name == health.Silent {
			s.Meaning = r.Meaning
			s.WhatToDo = strings.ReplaceAll(r.Next, "NAME", n.Name)
			s.Topic = r.Topic
		}
	}
	return s
}

// lastSample is what the node said last, in a few words each.
func (data *nodePage) lastSample() []string {
	h := data.Hardware
	if h == nil {
		return nil
	}
	all := []string{"GPUs: " + picture.Dash(h.Probe.State)}
	for _, g := range data.GPUs {
		all = append(all, fmt.Sprintf("GPU %d: %s, memory %s, %s", g.Index, g.Use.Text, g.Memory.Text, g.Heat))
	}
	for _, m := range data.Host {
		all = append(all, m.Name+" "+m.Text)
	}
	const most = 12 // a node with many GPUs has them in its table
	return all[:min(len(all), most)]
}
