package gpu

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"strconv"

	"muster/agent/wire"
)

// program is what is looked for when nothing else was named.
const program = "nvidia-smi"

// named reports whether a program of one's own is to be used.
func (p *Prober) named() bool { return p.Path != "" && p.Path != program }

// find looks the program up. It is done anew at every look: a driver may be installed while the agent runs.
func (p *Prober) find() (string, error) {
	if p.named() {
		return exec.LookPath(p.Path)
	}
	path, err := exec.LookPath(program)
	if err == nil {
		return path, nil
	}
	// WSL 2 and GKE keep it where PATH does not lead.
	for _, known := range []string{"/usr/lib/wsl/lib/nvidia-smi", "/usr/local/nvidia/bin/nvidia-smi"} {
		if path, other := exec.LookPath(known); other == nil {
			return path, nil
		}
	}
	return "", err
}

// notFound judges why the program could not be looked up.
func (p *Prober) notFound(err error) outcome {
	if !errors.Is(err, exec.ErrNotFound) && !errors.Is(err, fs.ErrNotExist) {
		return outcome{state: wire.ProbeFailed, unread: true, err: "nvidia-smi cannot be used: " + err.Error() + "; --nvidia-smi names another"}
	}
	o := outcome{state: wire.ProbeAbsent} // a machine without GPUs is nothing to complain about
	switch n := p.expectedNow(0); {
	case n > 0:
		o.told = true
		o.missing = fmt.Sprintf("nvidia-smi is gone, so none of %d GPUs answers: %s", n, p.gone(n, nil, nil, nil))
		o.err = fmt.Sprintf("no nvidia-smi on this machine, but %d GPUs are expected: install the NVIDIA driver, "+
			"or start the container with its GPUs", n)
	case p.named():
		o.err = "there is no " + p.Path + ": --nvidia-smi names the program"
	}
	return o
}

func (p *Prober) expectedNow(exist int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remember()
	return p.expects(exist)
}

// Exit codes of an nvidia-smi that has answered all the same: it found a damaged infoROM, or a GPU that fell off the bus.
const (
	infoROM = 14
	lostGPU = 15
)

// judge turns the answer to a query into an outcome. An exit code of 0 proves nothing: newer drivers leave out a lost GPU,
// say so on stderr and exit 0.
func (p *Prober) judge(out Output) outcome {
	o := outcome{state: wire.ProbeOK}
	if out.Err == nil {
		took := out.Took.Milliseconds()
		o.took = &took
	}
	table := ParseCSV(out.Stdout, len(p.plan.columns))
	table.Rejected = append(table.Rejected, p.rows(table, &o)...)
	lost := lostDevices(out)
	answering, unread := len(o.gpus), distinct(table.Rejected, o.gpus)
	o.exist = min(answering+unread+len(lost), wire.MaxGPUs)
	o.told = o.exist > 0 || noDevices(out)
	o.whole = len(table.Rejected) == 0 && len(lost) == 0
	expected := p.expectedNow(o.exist)
	if missing := expected - answering - unread; o.told && missing > 0 {
		o.missing = fmt.Sprintf("%d of %d GPUs answer; gone: %s", answering, expected, p.gone(missing, o.gpus, table.Rejected, lost))
	}
	p.describe(&o, out, table, expected)
	o.unread = o.state == wire.ProbeFailed && (o.missing == "" || len(table.Rejected) > 0)
	return o
}

// describe finds the state and the words for an outcome whose rows are counted.
func (p *Prober) describe(o *outcome, out Output, table Table, expected int) {
	quiet := len(lines(out.Stderr)) == 0 && len(table.Notes) == 0
	answering := len(o.gpus)
	warned := (out.Code == infoROM || out.Code == lostGPU) && len(table.Rejected) == 0 && answering >= max(expected, 1)
	switch {
	case out.Err != nil || out.Code != 0 && !warned:
		o.state, o.err = wire.ProbeFailed, counted(answering, expected)+explain(out, table.Notes)
	case len(table.Rejected) > 0:
		o.state, o.err = wire.ProbeFailed, counted(answering, expected)+"nvidia-smi: "+table.Rejected[0].Wrong
	case answering == 0:
		o.state, o.err = wire.ProbeFailed, explain(out, table.Notes)
	case answering < expected && quiet:
		o.state, o.err = wire.ProbeFailed, counted(answering, expected)+
			"nvidia-smi does not say why: look for Xid in dmesg, and for the device in lspci"
	case answering < expected:
		o.state, o.err = wire.ProbeFailed, counted(answering, expected)+explain(out, table.Notes)
	case out.Took >= p.slow():
		o.state = wire.ProbeSlow
		o.err = fmt.Sprintf("nvidia-smi took %.1f s; persistence mode (nvidia-smi -pm 1, nvidia-persistenced) usually cures that",
			out.Took.Seconds())
	case warned || !quiet:
		o.err = explain(out, table.Notes) // a warning beside full rows: worth showing, no failure
	}
}

// rows turns the table's rows into o's GPUs and returns what it had to reject.
func (p *Prober) rows(table Table, o *outcome) (rejected []Reject) {
	seen, nameless := map[string]bool{}, []int{}
	for i, cells := range table.Rows {
		r := record{columns: p.plan.columns, cells: cells}
		index, ok := r.index(i)
		if !ok {
			rejected = append(rejected, reject(i, cells, "does not begin with a GPU's index"))
			continue
		}
		gpu := r.device(index, p.systemMemory)
		if gpu.UUID != "" && seen[gpu.UUID] {
			continue // the same device again
		}
		if _, kind := classify(r.cell(fieldUUID)); kind == failed {
			nameless = append(nameless, len(o.gpus))
		}
		seen[gpu.UUID] = true
		o.gpus = append(o.gpus, gpu)
		if text, kind := classify(r.cell(fieldDriver)); kind == present && o.driver == nil {
			text = clean(text, maxLine)
			o.driver = &text
		}
	}
	p.identify(o.gpus, nameless)
	if o.driver != nil {
		p.plan.note(*o.driver)
	}
	return rejected
}

// distinct counts the GPUs behind rows that could not be read: those that begin with the same index, or with one that answers,
// are no further ones.
func distinct(rejected []Reject, answering []wire.GPU) (n int) {
	seen := map[string]bool{}
	for _, g := range answering {
		seen[strconv.Itoa(g.Index)] = true
	}
	for _, r := range rejected {
		if _, err := strconv.ParseUint(r.Index, 10, 16); err != nil {
			n++
		} else if !seen[r.Index] {
			seen[r.Index] = true
			n++
		}
	}
	return n
}

// counted begins an error with how many GPUs answer, when some do and some do not.
func counted(answering, expected int) string {
	if answering == 0 || answering >= expected {
		return ""
	}
	return fmt.Sprintf("%d of %d GPUs answer: ", answering, expected)
}
