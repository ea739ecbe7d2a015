package gpu

import (
	"context"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"muster/agent/internal/host"
	"muster/agent/wire"
)

const (
	rarePace     = 5 * time.Minute // the list of processes holds the driver's lock for milliseconds
	rareStale    = 3 * rarePace    // after this the list says nothing about now
	maxInstances = 64              // of one GPU
)

// rare is what is looked at every few minutes only. The keys are UUIDs of GPUs.
type rare struct {
	at        time.Time                     // when it was looked at; zero: never
	instances map[string][]wire.MIGInstance // nil: not known
	processes map[string]*wire.Processes
	links     map[string]*wire.NVLinks
	linksAt   time.Time // when these were looked at
	divided   []string  // GPUs whose MIG mode was on
	driver    string    // which has said its CUDA
	cuda      *string   // that it offers
}

// divisions are the GPUs whose MIG mode is on. If somebody has switched one, the instances are looked at without delay.
func divisions(gpus []wire.GPU) []string {
	var on []string
	for i := range gpus {
		if gpus[i].IsDivided() {
			on = append(on, gpus[i].UUID)
		}
	}
	return on
}

// isEmpty is true if a GPU that is divided had no instances yet: they are made after the mode is switched on.
func (s rare) isEmpty() bool {
	return slices.ContainsFunc(s.divided, func(uuid string) bool { return len(s.instances[uuid]) == 0 })
}

// withoutAMD are the GPUs that nvidia-smi knows.
func withoutAMD(gpus []wire.GPU) []wire.GPU {
	var known []wire.GPU
	for i := range gpus {
		if gpus[i].Vendor != wire.VendorAMD {
			known = append(known, gpus[i])
		}
	}
	return known
}

// lookRarely makes the calls that cost too much to be made at every look. It comes after a good reading.
func (p *Prober) lookRarely(ctx context.Context, path string, gpus []wire.GPU) {
	next := rare{at: p.now(), links: p.rare.links, linksAt: p.rare.linksAt, driver: p.rare.driver, cuda: p.rare.cuda}
	gpus = withoutAMD(gpus)
	isSoon := !p.rare.at.IsZero() && next.at.Sub(p.rare.at) < rarePace
	if len(gpus) == 0 || !p.plan.slow.IsZero() || isSoon && slices.Equal(divisions(gpus), p.rare.divided) && !p.rare.isEmpty() {
		return
	}
	next.divided = divisions(gpus)
	defer func() {
		if ctx.Err() == nil { // else the next look makes all of these calls
			p.setRare(&next)
		}
	}()
	if len(next.divided) > 0 && !p.rarely(ctx, path, func(text []byte) { next.instances = ParseList(text) }, "-L") {
		return
	}
	if !p.rarely(ctx, path, func(text []byte) { next.processes = p.processes(ctx, text, gpus, next.at) }, ComputeApps()...) {
		return
	}
	if !p.lookCUDA(ctx, path, gpus[0].UUID, &next) || !next.wantsLinks() {
		return
	}
	var links map[string]*wire.NVLinks
	if p.rarely(ctx, path, func(text []byte) { links = ParseNVLinks(text) }, "nvlink", "--status") {
		next.links = links
		next.linksAt = next.at
	}
}

// rarely makes one of these calls, and hands what it printed to read where it did not fail. It reports false if the call did not end: then
// all such calls rest for long, unless it is only that ctx was done.
func (p *Prober) rarely(ctx context.Context, path string, read func(text []byte), args ...string) (ended bool) {
	began := p.now()
	out, ended := p.call(ctx, path, args...)
	switch {
	case !ended && ctx.Err() == nil:
		p.plan.askLess(began, wideLatest)
	case ended && out.Err == nil && out.Code == 0:
		read(out.Stdout)
	}
	return ended
}

// lookCUDA asks each driver until it has answered once which CUDA it offers: the answer has all of a GPU. The other answers leave CUDA
// out, or name it in words that change. It reports false if nvidia-smi hangs.
func (p *Prober) lookCUDA(ctx context.Context, path, uuid string, next *rare) bool {
	driver := p.Reading().DriverVersion
	if driver == nil || *driver == next.driver || uuid == "" {
		return true
	}
	next.driver = ""
	next.cuda = nil
	return p.rarely(ctx, path, func(text []byte) {
		next.driver = *driver
		next.cuda = ParseCUDA(text)
	}, "-q", "-x", "-i", uuid)
}

// ParseCUDA finds the version of CUDA in the answer to -q -x. It is nil if there is none.
func ParseCUDA(text []byte) *string {
	for _, name := range [...]string{"<cuda_version>", "<cuda_umd_version>"} {
		_, rest, _ := strings.Cut(string(text), name)
		version, _, isWhole := strings.Cut(rest, "<")
		version = strings.TrimSpace(version)
		if isWhole && len(version) <= 16 && version != "" && strings.Trim(version, "0123456789.") == "" {
			return &version
		}
	}
	return nil
}

// setRare publishes what was seen, also if a call failed: it is tried again after the usual pause.
func (p *Prober) setRare(s *rare) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rare = *s
	p.reading.CUDAVersion = s.cuda
	p.reading.GPUs = s.addTo(p.reading.GPUs, s.at)
}

// addTo returns the rows with what was seen. It copies them, because readers share the rows.
func (s rare) addTo(gpus []wire.GPU, now time.Time) []wire.GPU {
	if s.at.IsZero() || now.Sub(s.at) > rareStale {
		return gpus
	}
	gpus = slices.Clone(gpus)
	for i := range gpus {
		g := &gpus[i]
		if g.IsDivided() {
			g.MIGInstances = s.instances[g.UUID]
		}
		g.Processes = s.processes[g.UUID]
		g.NVLinks = s.links[g.UUID]
	}
	return gpus
}

// ParseList reads the answer to -L: the MIG instances of each GPU, by the UUID of the GPU. A GPU without instances has an empty
// list.
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
			parent = wire.Plain(uuid, maxLine)
			all[parent] = []wire.MIGInstance{}
		case words[0] == "MIG" && len(words) > 2 && parent != "" && len(all[parent]) < maxInstances:
			all[parent] = append(all[parent], wire.MIGInstance{Profile: wire.Plain(words[1], 40), UUID: wire.Plain(uuid, maxLine)})
		}
	}
	return all
}

// ComputeApps asks for the processes that compute, in the form that ParseProcesses reads.
func ComputeApps() []string {
	return []string{"--query-compute-apps=gpu_uuid,pid,used_memory", "--format=csv,noheader,nounits"}
}

// ParseProcesses reads rows of a GPU's UUID, a process id, and the memory that the process uses. Each process is listed once, in the order
// of the answer. The memory of a GPU is not known if one of its processes does not say its own. It reports false if the answer holds
// anything else: then nothing is known.
func ParseProcesses(text []byte) (map[string]wire.Processes, bool) {
	const maxProcesses = 100_000
	type one struct {
		uuid string
		pid  uint64
	}
	seen := map[one]int{} // its place
	all := map[string]wire.Processes{}
	for n, line := range lines(text) {
		cells := strings.Split(line, ",")
		if len(cells) != 3 || n >= maxProcesses {
			return nil, false
		}
		pid, err := strconv.ParseUint(strings.TrimSpace(cells[1]), 10, 31)
		uuid, kind := classify(cells[0])
		if err != nil || kind != present {
			return nil, false
		}
		usage, listed := all[uuid]
		if !listed {
			usage = noProcesses()
		}
		at, again := seen[one{uuid, pid}]
		if !again { // else it works on several instances of the GPU
			at = len(usage.List)
			seen[one{uuid, pid}] = at
			usage.List = append(usage.List, wire.GPUProcess{PID: int(pid), MemoryMiB: new(int64)})
			*usage.Count++
		}
		usage.List[at].MemoryMiB = plus(usage.List[at].MemoryMiB, cells[2])
		usage.MemoryUsedMiB = plus(usage.MemoryUsedMiB, cells[2])
		all[uuid] = usage
	}
	return all, true
}

func noProcesses() wire.Processes { return wire.Processes{Count: new(int), MemoryUsedMiB: new(int64)} }

// plus adds the mebibytes of a cell to sum. It is nil if one of the two is not known.
func plus(sum *int64, cell string) *int64 {
	text, kind := classify(cell)
	more, ok := mebibytes.number(text)
	if sum == nil || kind != present || !ok {
		return nil
	}
	return new(*sum + int64(more))
}

// largest are the processes with the most memory, as many as a heartbeat names.
func largest(all []wire.GPUProcess) []wire.GPUProcess {
	sort.SliceStable(all, func(i, j int) bool { return orNone(all[i].MemoryMiB) > orNone(all[j].MemoryMiB) })
	return all[:min(len(all), wire.MostProcesses)]
}

// orNone puts what is not known behind everything else.
func orNone(mebibytes *int64) int64 {
	if mebibytes == nil {
		return -1
	}
	return *mebibytes
}

// processes decides for each GPU whether the list can be believed. In a PID namespace of its own, the agent may see a part of the
// processes or none. A list that does not explain the memory in use, or the work, is not believed: then the processes are not known.
func (p *Prober) processes(ctx context.Context, text []byte, gpus []wire.GPU, at time.Time) map[string]*wire.Processes {
	listed, ok := ParseProcesses(text)
	if !ok {
		return nil
	}
	all := map[string]*wire.Processes{}
	for _, g := range gpus {
		usage, found := listed[g.UUID]
		if !found {
			usage = noProcesses()
		}
		if g.UUID == "" || !p.explains(usage, g) {
			continue
		}
		all[g.UUID] = &usage
		if *usage.Count == 0 {
			continue
		}
		usage.At = at.Truncate(time.Second)
		usage.List = largest(usage.List)
		if p.Who != nil {
			p.Who(ctx, usage.List)
		}
	}
	return all
}

// How much of the memory in use a list may leave unexplained, in MiB. What the driver takes on an idle GPU is less than what one
// process needs at least. On a host, where no process is hidden, older drivers count their own reserve as used.
const (
	unexplainedIdle = 64
	unexplainedMost = 1024
)

// explains reports whether the listed processes can be all that use the GPU.
func (p *Prober) explains(usage wire.Processes, g wire.GPU) bool {
	allowed := int64(unexplainedMost)
	hidden := p.hidesProcesses()
	if *usage.Count == 0 && hidden {
		if g.UtilizationPercent == nil || *g.UtilizationPercent > 0 || g.MemorySource != wire.MemoryDevice {
			return false
		}
		allowed = unexplainedIdle
	}
	switch {
	case g.MemorySource != wire.MemoryDevice || usage.MemoryUsedMiB == nil:
		return true
	case g.MemoryUsedMiB == nil:
		return !hidden
	case *usage.Count > 0 && !hidden:
		return true
	}
	return *g.MemoryUsedMiB-*usage.MemoryUsedMiB <= allowed
}

func (p *Prober) hidesProcesses() bool {
	if p.HidesProcesses != nil {
		return p.HidesProcesses()
	}
	return !host.SeesAllProcesses()
}
