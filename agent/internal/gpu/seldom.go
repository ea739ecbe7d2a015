package gpu

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/agent/internal/host"
	"muster/agent/wire"
)

const (
	seldomPace   = 5 * time.Minute // the list of processes takes the driver's lock for milliseconds
	seldomStale  = 3 * seldomPace  // after this what was seen then says nothing any more
	maxInstances = 64              // of one GPU
)

// seldom is what is looked at every few minutes, by the UUID of the GPU.
type seldom struct {
	at        time.Time                     // when it was looked at; zero: never
	instances map[string][]wire.MIGInstance // nil: not known
	processes map[string]*wire.Processes
}

// lookSeldom makes the calls that are worth it only now and then, after a good reading and never beside another call.
func (p *Prober) lookSeldom(ctx context.Context, path string, gpus []wire.GPU) {
	next := seldom{at: p.now()}
	if len(gpus) == 0 || !p.plan.slow.IsZero() || !p.seldom.at.IsZero() && next.at.Sub(p.seldom.at) < seldomPace {
		return
	}
	defer p.setSeldom(&next)
	divided := func(g wire.GPU) bool { return g.MIG != nil && *g.MIG }
	if slices.ContainsFunc(gpus, divided) {
		out, ok := p.call(ctx, path, "-L")
		if !ok {
			p.plan.spare(next.at)
			return
		}
		if out.Err == nil && out.Code == 0 {
			next.instances = ParseList(out.Stdout)
		}
	}
	out, ok := p.call(ctx, path, "--query-compute-apps=gpu_uuid,pid,used_memory", "--format=csv,noheader,nounits")
	if !ok {
		p.plan.spare(next.at)
		return
	}
	if out.Err == nil && out.Code == 0 {
		next.processes = p.processes(out.Stdout, gpus)
	}
}

// setSeldom publishes what was looked at, be it cut short: it is tried again a whole pace later.
func (p *Prober) setSeldom(s *seldom) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seldom = *s
	p.reading.GPUs = s.onto(p.reading.GPUs, s.at)
}

// onto returns the rows with what was seldom looked at. Rows are shared with readers, so they are copied.
func (s seldom) onto(gpus []wire.GPU, now time.Time) []wire.GPU {
	if s.at.IsZero() || now.Sub(s.at) > seldomStale {
		return gpus
	}
	gpus = slices.Clone(gpus)
	for i := range gpus {
		g := &gpus[i]
		if g.MIG != nil && *g.MIG {
			g.MIGInstances = s.instances[g.UUID]
		}
		g.Processes = s.processes[g.UUID]
	}
	return gpus
}

// ParseList reads the answer to -L: the MIG instances of each GPU, by its UUID. A GPU without any has an empty list.
func ParseList(text []byte) map[string][]wire.MIGInstance {
	all := map[string][]wire.MIGInstance{}
	parent := ""
	for n, line := range lines(text) {
		_, rest, _ := strings.Cut(line, "(UUID: ")
		uuid, _, ok := strings.Cut(rest, ")")
		words := strings.Fields(line)
		switch {
		case n > maxRows*maxInstances:
			return all
		case !ok || uuid == "" || len(uuid) > maxLine:
		case words[0] == "GPU" && len(all) < maxRows:
			parent = clean(uuid, maxLine)
			all[parent] = []wire.MIGInstance{}
		case words[0] == "MIG" && len(words) > 2 && parent != "" && len(all[parent]) < maxInstances:
			all[parent] = append(all[parent], wire.MIGInstance{Profile: clean(words[1], 40), UUID: clean(uuid, maxLine)})
		}
	}
	return all
}

// Usage is what processes on one GPU take together.
type Usage struct {
	Count     int    // processes, each once
	MemoryMiB *int64 // nil: one of them does not say
}

// ParseProcesses reads rows of a GPU's UUID, a process id and the memory that it uses. It reports false for an answer that
// holds something else: then nothing is known.
func ParseProcesses(text []byte) (map[string]Usage, bool) {
	const maxProcesses = 100_000
	type one struct {
		uuid string
		pid  uint64
	}
	seen, all := map[one]bool{}, map[string]Usage{}
	for n, line := range lines(text) {
		cells := strings.Split(line, ",")
		if len(cells) != 3 || n >= maxProcesses {
			return nil, false
		}
		pid, err := strconv.ParseUint(strings.TrimSpace(cells[1]), 10, 32)
		uuid, kind := classify(cells[0])
		if err != nil || kind != present {
			return nil, false
		}
		usage, listed := all[uuid]
		if !listed {
			usage.MemoryMiB = new(int64)
		}
		if !seen[one{uuid, pid}] {
			seen[one{uuid, pid}] = true
			usage.Count++
		}
		usage.MemoryMiB = plus(usage.MemoryMiB, cells[2])
		all[uuid] = usage
	}
	return all, true
}

// plus adds a cell's mebibytes; nil: one of the two is not known.
func plus(sum *int64, cell string) *int64 {
	text, kind := classify(cell)
	more, ok := mebibytes.number(text)
	if sum == nil || kind != present || !ok {
		return nil
	}
	total := *sum + int64(more)
	return &total
}

// processes judges for each GPU whether the list is believable. In a PID namespace of its own an agent may be shown none or a
// part: a list that does not explain the memory in use, or the work, is no list. So unknown stays unknown.
func (p *Prober) processes(text []byte, gpus []wire.GPU) map[string]*wire.Processes {
	listed, ok := ParseProcesses(text)
	if !ok {
		return nil
	}
	all := map[string]*wire.Processes{}
	for _, g := range gpus {
		usage := listed[g.UUID]
		if usage.Count == 0 {
			usage.MemoryMiB = new(int64)
		}
		if g.UUID != "" && p.explains(usage, g) {
			all[g.UUID] = &wire.Processes{Count: &usage.Count, MemoryUsedMiB: usage.MemoryMiB}
		}
	}
	return all
}

// What a list may leave unexplained, in MiB: what the driver itself takes on an idle GPU is less than a process's own context,
// and on a host, where nothing is hidden, older drivers count their reserve as used.
const (
	unexplainedIdle = 64
	unexplainedMost = 1024
)

func (p *Prober) explains(usage Usage, g wire.GPU) bool {
	allowed := int64(unexplainedMost)
	hidden := p.hidesProcesses()
	if usage.Count == 0 && hidden {
		if g.UtilizationPercent == nil || *g.UtilizationPercent > 0 || g.MemorySource != wire.MemoryDevice {
			return false
		}
		allowed = unexplainedIdle
	}
	switch {
	case g.MemorySource != wire.MemoryDevice || usage.MemoryMiB == nil:
		return true
	case g.MemoryUsedMiB == nil:
		return !hidden
	case usage.Count > 0 && !hidden:
		return true
	}
	return *g.MemoryUsedMiB-*usage.MemoryMiB <= allowed
}

func (p *Prober) hidesProcesses() bool {
	if p.HidesProcesses != nil {
		return p.HidesProcesses()
	}
	return !host.SeesAllProcesses()
}
