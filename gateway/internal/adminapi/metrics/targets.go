package metrics

import (
	"bufio"
	"encoding/json"
	"io"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"muster/gateway/api"
)

// metaPrefix begins the labels of a target. Prometheus drops them after relabeling, so they cost nothing there.
const metaPrefix = "__meta_muster_"

// target is one entry of what Prometheus's http_sd_configs reads.
type target struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

// targets answers with the nodes' addresses, as HTTP service discovery of Prometheus reads them. A node that was never heard from has no
// address, and is left out.
func (s *server) targets(c *call) error {
	var f struct {
		picked
		Port int `json:"port" most:"65535"`
	}
	if err := s.ask(c, &f); err != nil {
		return err
	}
	rows, leave, err := s.rows(c, f.picked)
	if err != nil {
		return err
	}
	defer leave()
	c.send("application/json", func(w io.Writer) error { return writeTargets(w, rows, f.Port) })
	return nil
}

func writeTargets(w io.Writer, rows []*api.NodeRow, port int) error {
	out := bufio.NewWriterSize(w, piece)
	next := "[\n"
	encoder := json.NewEncoder(out)
	for _, n := range rows {
		if n.Address == "" {
			continue
		}
		_, _ = out.WriteString(next) // the writer keeps its first error
		if err := encoder.Encode(targetOf(n, port)); err != nil {
			return err
		}
		next = ","
	}
	if next != "," {
		_, _ = out.WriteString("[")
	}
	_, _ = out.WriteString("]\n")
	return out.Flush()
}

func targetOf(n *api.NodeRow, port int) target {
	labels := map[string]string{
		metaPrefix + "node": n.Name, metaPrefix + "node_id": n.ID, metaPrefix + "tenant": n.Tenant, metaPrefix + "provider": n.Provider,
		metaPrefix + "instance_id": n.InstanceID, metaPrefix + "state": n.State, metaPrefix + "status": n.Status,
		metaPrefix + "agent_version": n.AgentVersion,
	}
	if n.GPUs != nil {
		labels[metaPrefix+"gpus"] = strconv.Itoa(len(n.GPUs))
	}
	for _, key := range slices.Sorted(maps.Keys(n.Labels)) {
		name := metaPrefix + "label_" + labelName(key)
		if _, taken := labels[name]; !taken { // of a.b and a-b, the first stays
			labels[name] = n.Labels[key]
		}
	}
	return target{Targets: []string{hostPort(n.Address, port)}, Labels: labels}
}

// hostPort puts an address as Prometheus wants it: IPv6 in brackets.
func hostPort(address string, port int) string {
	switch {
	case port != 0:
		return net.JoinHostPort(address, strconv.Itoa(port))
	case strings.Contains(address, ":"):
		return "[" + address + "]"
	}
	return address
}

// labelName makes a label's key one that Prometheus takes.
func labelName(key string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, key)
}
