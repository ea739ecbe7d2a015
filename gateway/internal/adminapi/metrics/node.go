package metrics

import (
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
)

const mib = 1 << 20

// ofNode makes a family of a number.
func ofNode[N int | float64](name, help string, get func(*api.NodeRow) *N) figure[*api.NodeRow] {
	return figure[*api.NodeRow]{family{name, gauge, help}, func(t *text, n *api.NodeRow) {
		if v := get(n); v != nil {
			t.ofNode(n, float64(*v))
		}
	}}
}

// whenNode makes a family of a moment.
func whenNode(name, help string, get func(*api.NodeRow) *time.Time) figure[*api.NodeRow] {
	return ofNode(name, help, func(n *api.NodeRow) *float64 { return stamp(get(n)) })
}

// ofHost makes a family of a size that the host says in MiB. What a silent node said is not what is so now.
func ofHost(name, help string, get func(*api.NodeRow) *int64) figure[*api.NodeRow] {
	return figure[*api.NodeRow]{family{name, gauge, help}, func(t *text, n *api.NodeRow) {
		if v := ifOnline(n, get(n)); v != nil {
			t.ofNode(n, float64(*v)*mib)
		}
	}}
}

// nodeFamilies is the table of the metrics of nodes.
func nodeFamilies() []figure[*api.NodeRow] {
	of := func(name, help string, say func(*text, *api.NodeRow)) figure[*api.NodeRow] {
		return figure[*api.NodeRow]{family{name, gauge, help}, say}
	}
	return []figure[*api.NodeRow]{
		of("muster_node_info", "A node that is not retired. Always 1.", nodeInfo),
		of("muster_node_up", "Whether the gateway hears from the node: 1 or 0.", func(t *text, n *api.NodeRow) { t.ofNode(n, flag(online(n))) }),
		whenNode("muster_node_last_seen_timestamp_seconds", "When the gateway last heard from the node.",
			func(n *api.NodeRow) *time.Time { return n.LastSeen }),
		whenNode("muster_node_state_since_timestamp_seconds", "Since when the node is in its state.",
			func(n *api.NodeRow) *time.Time { return &n.StateSince }),
		of("muster_node_state_reason", "Why the node is in its state, one series for each reason. Always 1.", nodeReasons),
		ofNode("muster_node_heartbeat_interval_seconds", "The time between two heartbeats, as the node says it.",
			func(n *api.NodeRow) *float64 { return n.IntervalSeconds }),
		of("muster_node_findings", "What is wrong with the node, by rule: the number of findings. See muster help health.", nodeFindings),
		of("muster_node_probe", "How the last look at the GPUs ended. Always 1.", func(t *text, n *api.NodeRow) {
			if n.Probe != "" {
				t.node(n)
				t.say(1, "state", n.Probe)
			}
		}),
		whenNode("muster_node_probe_timestamp_seconds", "When the GPUs were last read.", func(n *api.NodeRow) *time.Time { return n.ReadAt }),
		ofNode("muster_node_gpus_expected", "How many GPUs the node should have.", func(n *api.NodeRow) *int { return n.GPUsExpected }),
		of("muster_node_gpus_seen", "How many GPUs answer now. Absent while that is not known.", func(t *text, n *api.NodeRow) {
			if n.Fresh {
				t.ofNode(n, float64(len(n.GPUs)))
			}
		}),
		whenNode("muster_node_idle_since_timestamp_seconds", "Since when all GPUs of the node are idle. Absent if they are not.",
			func(n *api.NodeRow) *time.Time { return n.IdleSince }),
		ofNode("muster_node_price_per_hour", "What an hour of the node costs, by its label price_per_hour.",
			func(n *api.NodeRow) *float64 { return n.PricePerHour }),
		whenNode("muster_node_certificate_expiry_timestamp_seconds", "When the node's certificate ends.",
			func(n *api.NodeRow) *time.Time { return n.NotAfter }),
		of("muster_node_renewal_overdue", "Whether the node's certificate should have been renewed by now: 1 or 0.",
			func(t *text, n *api.NodeRow) {
				if n.NotAfter != nil {
					t.ofNode(n, flag(n.RenewalOverdue))
				}
			}),
		ofNode("muster_node_cpus", "Processors of the host.", func(n *api.NodeRow) *int { return ifOnline(n, n.CPUs) }),
		ofNode("muster_node_load1", "Load of the host over one minute.", func(n *api.NodeRow) *float64 { return ifOnline(n, n.Load1) }),
		ofHost("muster_node_memory_used_bytes", "Memory of the host in use.", func(n *api.NodeRow) *int64 { return n.MemoryUsedMiB }),
		ofHost("muster_node_memory_total_bytes", "Memory of the host.", func(n *api.NodeRow) *int64 { return n.MemoryMiB }),
		ofHost("muster_node_disk_used_bytes", "Use of the disk that the agent looks at.", func(n *api.NodeRow) *int64 { return n.DiskUsedMiB }),
		ofHost("muster_node_disk_total_bytes", "Size of the disk that the agent looks at.", func(n *api.NodeRow) *int64 { return n.DiskMiB }),
	}
}

// ifOnline is what a node said of its host, while it is heard from.
func ifOnline[T any](n *api.NodeRow, v *T) *T {
	if online(n) {
		return v
	}
	return nil
}

func online(n *api.NodeRow) bool { return n.Status == wire.StatusOnline }

func flag(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

func seconds(at time.Time) float64 { return float64(at.UnixMilli()) / 1000 }

// node adds the labels that every metric of a node has.
func (t *text) node(n *api.NodeRow) {
	t.label("node", n.Name)
	t.label("tenant", n.Tenant)
}

func (t *text) ofNode(n *api.NodeRow, v float64) {
	t.node(n)
	t.value(v)
}

func nodeInfo(t *text, n *api.NodeRow) {
	t.node(n)
	t.say(1, "provider", n.Provider, "instance_id", n.InstanceID, "state", n.State, "agent_version", n.AgentVersion)
}

func nodeReasons(t *text, n *api.NodeRow) { t.reasons(n.StateReasons, func() { t.node(n) }) }

// nodeFindings adds up the findings of a rule: one that is about GPUs may have found several.
func nodeFindings(t *text, n *api.NodeRow) {
	for i := range n.Findings {
		f := &n.Findings[i]
		same := 0
		before := false
		for j := range n.Findings {
			if n.Findings[j].Rule == f.Rule && n.Findings[j].Severity == f.Severity {
				same++
				before = before || j < i
			}
		}
		if before {
			continue
		}
		t.node(n)
		t.say(float64(same), "rule", f.Rule, "severity", f.Severity)
	}
}
