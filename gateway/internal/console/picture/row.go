package picture

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/health/condition"
)

// Row is a node as a row of the fleet. web/assets/fleetrow.js draws the same row in the browser, and a test compares the two.
type Row struct {
	*api.NodeRow
	GPUText     string
	Missing     bool // fewer GPUs answer than should
	Old         bool // the GPUs' values are not of now
	ReadAt      *time.Time
	Utilization Gauge
	Memory      Gauge
	Temperature string
	Power       string
	Worst       Worst
	Heat        Heat
}

// Worst is what is most wrong with a node.
type Worst struct {
	Mark Mark // its word is the sentence
	More int  // how many other findings there are
}

// RowOf draws a node. by is what the colours of the heat map say.
func RowOf(n *api.NodeRow, by string) Row {
	r := Row{
		NodeRow: n, GPUText: gpuText(n), Missing: n.MissingGPUs() > 0, Old: !n.Fresh && len(n.GPUs) > 0, Worst: worstOf(n), Heat: heatOf(n, by),
	}
	if r.Old {
		r.ReadAt = n.ReadAt
	}
	r.Utilization = utilizationOf(n)
	r.Memory = memoryOf(n)
	r.Temperature = highestText(n.GPUs)
	r.Power = powerText(n.GPUs)
	return r
}

// unread is how many GPUs should be there of which nobody knows anything.
func unread(n *api.NodeRow) int {
	if n.GPUs != nil || n.GPUsExpected == nil {
		return 0
	}
	return *n.GPUsExpected
}

// rowsOf are the GPUs of a node, with a GPU that says nothing for each that is not read.
func rowsOf(n *api.NodeRow) []api.GPU {
	if n.GPUs != nil {
		return n.GPUs
	}
	return make([]api.GPU, min(unread(n), wire.MaxGPUs))
}

// gpuText is such as "8 × H200", "7 of 8 × H200" or "2 × H200 + 1 × L40S".
func gpuText(n *api.NodeRow) string {
	gone := n.MissingGPUs()
	switch {
	case n.GPUs == nil && unread(n) > 0:
		return fmt.Sprintf("%s of %d", Unknown, unread(n))
	case n.GPUs == nil:
		return Unknown
	case len(n.GPUs) == 0 && gone == 0:
		return "no GPU"
	case len(n.GPUs) == 0:
		return fmt.Sprintf("0 of %d", gone)
	}
	names, count := models(n.GPUs)
	if len(names) == 1 && gone > 0 {
		return fmt.Sprintf("%d of %d × %s", len(n.GPUs), len(n.GPUs)+gone, names[0])
	}
	var parts []string
	for _, name := range names {
		parts = append(parts, fmt.Sprintf("%d × %s", count[name], name))
	}
	text := strings.Join(parts, " + ")
	if gone > 0 {
		text = fmt.Sprintf("%d of %d: %s", len(n.GPUs), len(n.GPUs)+gone, text)
	}
	return text
}

// models are the names of the models in the order of the GPUs, without the maker, and how many GPUs each has.
func models(gpus []api.GPU) (names []string, count map[string]int) {
	count = map[string]int{}
	for i := range gpus {
		name := gpus[i].Name
		for _, maker := range []string{"NVIDIA ", "AMD ", "GeForce "} {
			name = strings.TrimPrefix(name, maker)
		}
		name = Dash(name)
		if gpus[i].MIG != nil && *gpus[i].MIG {
			name += " MIG"
		}
		if count[name] == 0 {
			names = append(names, name)
		}
		count[name]++
	}
	return names, count
}

// worstOf is the first finding. If there is none, a node that is unavailable has a reason.
func worstOf(n *api.NodeRow) Worst {
	if len(n.Findings) > 0 {
		first := n.Findings[0]
		class := meaning(first.Severity)
		return Worst{Mark{class, shapeOf(class), first.Text}, len(n.Findings) - 1}
	}
	if n.State == wire.StateUnavailable && len(n.StateReasons) > 0 {
		reasons := slices.Clone(n.StateReasons)
		slices.Sort(reasons)
		return Worst{Mark: Mark{bad, shapeOf(bad), strings.ReplaceAll(strings.Join(reasons, ", "), "_", " ")}}
	}
	return Worst{}
}

// Title returns the text for hovering: the sentence, and what to do.
func (w Worst) Title(n *api.NodeRow) string {
	if len(n.Findings) == 0 {
		return w.Mark.Word
	}
	return strings.TrimSpace(n.Findings[0].Text + " " + condition.About(n.Name, n.Findings[0].Next))
}

func highestText(gpus []api.GPU) string {
	var most *float64
	for i := range gpus {
		if v := gpus[i].TemperatureCelsius; v != nil && (most == nil || *v > *most) {
			most = v
		}
	}
	if most == nil {
		return Unknown
	}
	return whole(*most) + " °C"
}

func powerText(gpus []api.GPU) string {
	watts := 0.0
	known := false
	for i := range gpus {
		if v := gpus[i].PowerWatts; v != nil {
			watts += *v
			known = true
		}
	}
	if !known {
		return Unknown
	}
	return wattText(watts)
}

// RowMarks returns the classes and shapes of the words that rows show, as JSON: the browser has them from here.
func RowMarks() (string, error) {
	marks := map[string][2]string{}
	severities := []string{api.SeveritySevere, api.SeverityWarn, api.SeverityNote}
	for _, word := range slices.Concat(wire.States(), wire.Statuses(), []string{api.StatusUnheard}, severities) {
		m := MarkOf(word)
		marks[word] = [2]string{m.Class, m.Shape}
	}
	text, err := json.Marshal(marks)
	return string(text), err
}
