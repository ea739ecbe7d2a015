// Package smi reads the long answer of nvidia-smi.
package smi

import (
	"strconv"
	"strings"

	"muster/agent/wire"
)

// Bounds of one GPU.
const (
	maxProcesses = 4096
	maxParts     = 64
)

// GPU is what the answer says of one GPU.
type GPU struct {
	Serial    string
	Module    *int
	Processes []Process
	Parts     []Part // of a divided GPU, in their order
}

// Process is a process that uses a GPU.
type Process struct {
	PID      int
	Name     string
	Instance string // of the GPU; N/A: it is not divided
	Computes bool   // and does not only draw
}

// Part is one MIG device.
type Part struct {
	Instance string
	UsedMiB  *int64 // nil: not known
}

// Parse reads the answer to -q, by the UUIDs of the GPUs.
//
//	GPU 00000000:1A:00.0
//	    Serial Number                         : 1653923000001
//	    GPU UUID                              : GPU-...
//	    Platform Info
//	        Module Id                         : 2
//	    MIG Device
//	        GPU Instance ID                   : 7
//	        FB Memory Usage
//	            Used                          : 25 MiB
//	    Processes
//	        GPU instance ID                   : 7
//	        Process ID                        : 4711
//	            Type                          : C
//	            Name                          : python
func Parse(text []byte) map[string]GPU {
	all := map[string]GPU{}
	var r reader
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "GPU ") {
			r.flush(all)
			r = reader{}
			continue
		}
		r.line(line)
	}
	r.flush(all)
	return all
}

// reader reads the lines of one GPU. What a line is about is told by the headings above it that are less indented.
type reader struct {
	uuid     string
	section  string // the heading with one step of indentation
	below    string // the heading with two
	instance string // of the processes that follow
	gpu      GPU
}

func (r *reader) flush(into map[string]GPU) {
	if r.uuid != "" && len(into) < wire.MaxGPUs {
		into[r.uuid] = r.gpu
	}
}

func (r *reader) line(line string) {
	indent := len(line) - len(strings.TrimLeft(line, " "))
	name, value, _ := strings.Cut(line, ":")
	name = strings.TrimSpace(name)
	value = wire.Plain(value, wire.MaxLabelValue)
	switch {
	case name == "":
	case indent <= 4:
		r.section = name
		r.below = ""
		switch strings.ToLower(name) {
		case "gpu uuid":
			r.uuid = value
		case "serial number":
			if value != "N/A" {
				r.gpu.Serial = value
			}
		case "module id": // of older drivers
			r.module(value)
		case "mig device":
			if len(r.gpu.Parts) < maxParts {
				r.gpu.Parts = append(r.gpu.Parts, Part{})
			}
		}
	case r.section == "Platform Info" && strings.EqualFold(name, "Module Id"):
		r.module(value)
	case r.section == "Processes":
		r.process(name, value)
	case r.section == "MIG Device":
		if indent <= 8 {
			r.below = name
		}
		r.part(name, value)
	}
}

func (r *reader) module(value string) {
	if n, err := strconv.ParseUint(value, 10, 8); err == nil {
		r.gpu.Module = new(int(n))
	}
}

func (r *reader) part(name, value string) {
	if len(r.gpu.Parts) == 0 {
		return
	}
	last := &r.gpu.Parts[len(r.gpu.Parts)-1]
	switch {
	case name == "GPU Instance ID":
		last.Instance = value
	case name == "Used" && strings.HasSuffix(r.below, "FB Memory Usage"): // newer drivers write Shared in front of it
		number, isMiB := strings.CutSuffix(value, " MiB")
		if n, err := strconv.ParseUint(number, 10, 32); err == nil && isMiB {
			last.UsedMiB = new(int64(n))
		}
	}
}

func (r *reader) process(name, value string) {
	switch name {
	case "GPU instance ID":
		r.instance = value
		return
	case "Process ID":
		if pid, err := strconv.ParseUint(value, 10, 31); err == nil && len(r.gpu.Processes) < maxProcesses {
			r.gpu.Processes = append(r.gpu.Processes, Process{PID: int(pid), Instance: r.instance, Computes: true})
		}
		return
	}
	if len(r.gpu.Processes) == 0 {
		return
	}
	last := &r.gpu.Processes[len(r.gpu.Processes)-1]
	switch name {
	case "Type":
		last.Computes = value != "G"
	case "Name":
		last.Name = value
	}
}
