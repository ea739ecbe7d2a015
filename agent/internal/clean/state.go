package clean

import (
	"fmt"
	"strconv"
	"strings"

	"muster/agent/wire"
)

// Bounds of what is read of one GPU.
const (
	maxProcesses = 4096
	maxParts     = 64
)

// stateReader reads the lines of one GPU. What a line is about is told by the headings above it that are less indented.
type stateReader struct {
	uuid     string
	section  string // the heading with one step of indentation
	below    string // the heading with two
	instance string // of the processes that follow
	state    State
}

func (s *stateReader) flush(into map[string]State) {
	if s.uuid != "" && len(into) < wire.MaxGPUs {
		into[s.uuid] = s.state
	}
}

func (s *stateReader) line(line string) {
	indent := len(line) - len(strings.TrimLeft(line, " "))
	name, value, _ := strings.Cut(line, ":")
	name = strings.TrimSpace(name)
	value = wire.Plain(value, wire.MaxLabelValue)
	switch {
	case name == "":
	case indent <= 4:
		s.section = name
		s.below = ""
		switch name {
		case "GPU UUID":
			s.uuid = value
		case "MIG Device":
			if len(s.state.Parts) < maxParts {
				s.state.Parts = append(s.state.Parts, Part{})
			}
		}
	case s.section == "Processes":
		s.process(name, value)
	case s.section == "MIG Device":
		if indent <= 8 {
			s.below = name
		}
		s.part(name, value)
	}
}

func (s *stateReader) part(name, value string) {
	if len(s.state.Parts) == 0 {
		return
	}
	last := &s.state.Parts[len(s.state.Parts)-1]
	switch {
	case name == "GPU Instance ID":
		last.Instance = value
	case name == "Used" && strings.HasSuffix(s.below, "FB Memory Usage"): // newer drivers write Shared in front of it
		number, isMiB := strings.CutSuffix(value, " MiB")
		if n, err := strconv.ParseUint(number, 10, 32); err == nil && isMiB {
			last.UsedMiB = new(int64(n))
		}
	}
}

func (s *stateReader) process(name, value string) {
	switch name {
	case "GPU instance ID":
		s.instance = value
		return
	case "Process ID":
		if pid, err := strconv.ParseUint(value, 10, 31); err == nil && len(s.state.Processes) < maxProcesses {
			s.state.Processes = append(s.state.Processes, Process{PID: int(pid), Instance: s.instance, Computes: true})
		}
		return
	}
	if len(s.state.Processes) == 0 {
		return
	}
	last := &s.state.Processes[len(s.state.Processes)-1]
	switch name {
	case "Type":
		last.Computes = value != "G"
	case "Name":
		last.Name = value
	}
}

// ParseApps reads the list of processes that compute, by the UUIDs of the GPUs: lines of UUID, PID, name. A line of another form is an
// error: who cannot be read may be there.
func ParseApps(text []byte) (map[string]State, error) {
	states := map[string]State{}
	for line := range strings.Lines(string(text)) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		uuid, rest, _ := strings.Cut(line, ",")
		number, name, named := strings.Cut(rest, ",")
		pid, err := strconv.Atoi(strings.TrimSpace(number))
		state := states[strings.TrimSpace(uuid)]
		if !named || err != nil || pid <= 0 || len(states) >= wire.MaxGPUs || len(state.Processes) >= maxProcesses {
			return nil, fmt.Errorf("nvidia-smi lists %q", wire.Plain(line, wire.MaxLabelValue))
		}
		state.Processes = append(state.Processes, Process{PID: pid, Name: wire.Plain(name, wire.MaxLabelValue), Computes: true})
		states[strings.TrimSpace(uuid)] = state
	}
	return states, nil
}
