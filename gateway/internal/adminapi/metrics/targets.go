package metrics

import (
	"bufio"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"muster/agent/wire"
	"muster/gateway/api"
)

// metaPrefix begins the labels of a target. Prometheus drops them after relabeling, so they cost nothing there.
const metaPrefix = "__meta_muster_"

const mostPort = 65535

// target is one entry of what Prometheus's http_sd_configs reads.
type target struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

// targets answers with the nodes' addresses, as HTTP service discovery of Prometheus reads them. A node that was never heard from has no
// address, and is left out.
func (s *server) targets(c *call) error {
	q, err := c.pick("port")
	if err != nil {
		return err
	}
	port, err := readPort(c.r)
	if err != nil {
		return err
	}
	rows, err := s.rows(q)
	if err != nil {
		return err
	}
	leave, err := s.Room.enter(holder(c.caller))
	if err != nil {
		return err
	}
	defer leave()
	c.send("application/json", func(w io.Writer) error { return writeTargets(w, rows, port) })
	return nil
}

func readPort(r *http.Request) (string, error) {
	text := r.URL.Query().Get("port")
	if text == "" {
		return "", nil
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 || n > mostPort {
		return "", wire.Refuse(wire.CodeBadRequest, "the port is not a number from 1 to 65535", "give the exporter's port, such as port=9100")
	}
	return strconv.FormatUint(n, 10), nil
}

func writeTargets(w io.Writer, rows []*api.NodeRow, port string) error {
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

func targetOf(n *api.NodeRow, port string) target {
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
func hostPort(address, port string) string {
	switch {
	case port != "":
		return net.JoinHostPort(address, port)
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
