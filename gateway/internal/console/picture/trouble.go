package picture

// This file says what is wrong with a node, for its page: why it is in its state, what was found, and what is known of one that went
// silent. The words are those of the table of conditions.

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/health/condition"
)

// Reason is why a node is in its state, in plain words.
type Reason struct{ Word, Meaning, Detail string }

// Finding is a finding with the name of its GPU.
type Finding struct {
	api.Finding
	Place string // such as GPU 3; empty: it is about the node
}

// Silence is about a node that is not heard from any more.
type Silence struct {
	Since    *time.Time
	Price    *float64 // an hour
	Cost     string   // since then; empty: it has no price
	Sample   []string // what it said last of itself
	Words    []string // of the agent, about what was wrong
	Events   []api.Event
	Meaning  string
	WhatToDo string
	Topic    string
}

// ReasonsOf returns the reasons of the node's state, without those that the findings explain in more words.
func ReasonsOf(n *api.NodeDetail, findings []Finding) []Reason {
	var all []Reason
	for _, word := range n.StateReasons {
		if slices.ContainsFunc(findings, func(f Finding) bool { return f.Rule == word }) {
			continue
		}
		all = append(all, Reason{word, meaningOf(word), n.StateDetails[word]})
	}
	return all
}

// meaningOf says in a sentence why a node is unavailable; empty: the word is of another version.
func meaningOf(word string) string {
	if c := condition.Named(word); c != nil {
		return c.Meaning
	}
	return ""
}

// FindingsOf returns the findings of a node. Each GPU gets those that are about it. If told is set, the page says at greater length that
// the node is silent, so that finding is left out.
func FindingsOf(n *api.NodeDetail, gpus []GPU, told *Silence) []Finding {
	places := map[string]string{}
	for i := range gpus {
		g := &gpus[i]
		places[g.UUID] = "GPU " + strconv.Itoa(g.Index)
		for _, f := range n.Findings {
			if f.GPU == g.UUID {
				g.Found = append(g.Found, f)
			}
		}
	}
	var all []Finding
	for _, f := range n.Findings {
		if f.Rule == condition.NodeStale && told != nil {
			continue
		}
		place := places[f.GPU]
		f.Text = strings.TrimPrefix(f.Text, place+": ") // the page shows the place itself
		all = append(all, Finding{f, place})
	}
	return all
}

// Last is what is known of the time before a node went silent.
type Last struct {
	Starts *wire.Starts // nil: not known
	Events []api.Event
	Sample []string
}

// SilenceOf says what is known of a node that fell silent; nil: the node did not.
func SilenceOf(n *api.NodeDetail, last Last, now time.Time) *Silence {
	if n.Status != wire.StatusStale || n.State == wire.StateRetired || n.LastSeen == nil {
		return nil
	}
	s := &Silence{Since: n.LastSeen, Sample: last.Sample, Words: slices.Clone(n.Notices)}
	if n.DownCost != nil {
		s.Words = append(s.Words, fmt.Sprintf("its company says that it does not run: it costs %.4g an hour now", *n.DownCost))
	} else if n.PricePerHour != nil {
		s.Price = n.PricePerHour
		s.Cost = strconv.FormatFloat(max(now.Sub(*n.LastSeen).Hours(), 0)**n.PricePerHour, 'f', 2, 64)
	}
	if last.Starts != nil && last.Starts.Why != "" {
		s.Words = append(s.Words, "its agent had ended before: "+last.Starts.Why)
	}
	for _, e := range last.Events {
		if !e.At.After(n.LastSeen.Add(time.Minute)) && len(s.Events) < 3 {
			s.Events = append(s.Events, e)
		}
	}
	c := condition.Named(condition.NodeStale)
	s.Meaning = c.Meaning
	s.WhatToDo = condition.About(n.Name, c.Next)
	s.Topic = c.Topic
	return s
}

// SampleOf returns what a node said last of its hardware, in a few words each; nil: it said nothing.
func SampleOf(h *wire.Hardware, gpus []GPU, host []Meter) []string {
	if h == nil {
		return nil
	}
	all := []string{"GPUs: " + Dash(h.Probe.State)}
	for i := range gpus {
		g := &gpus[i]
		all = append(all, fmt.Sprintf("GPU %d: %s, memory %s, %s", g.Index, g.Use.Text, g.Memory.Text, g.Heat))
	}
	for _, m := range host {
		all = append(all, m.Name+" "+m.Text)
	}
	const most = 12 // a node with many GPUs has them in its table
	return all[:min(len(all), most)]
}
