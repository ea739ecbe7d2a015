package gpu

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"

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
		return outcome{state: wire.ProbeFailed, err: "nvidia-smi cannot be used: " + err.Error() + "; --nvidia-smi names another"}
	}
	o := outcome{state: wire.ProbeAbsent} // a machine without GPUs is nothing to complain about
	switch n := max(p.Expected, p.highestSeen()); {
	case n > 0:
		o.err = fmt.Sprintf("no nvidia-smi on this machine, but %d GPUs are expected: install the NVIDIA driver, "+
			"or start the container with its GPUs", n)
	case p.named():
		o.err = "there is no " + p.Path + ": --nvidia-smi names the program"
	}
	return o
}

func (p *Prober) highestSeen() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.highest
}

// judge turns the answer to a query into an outcome. An exit code of 0 proves nothing: newer drivers leave out a lost GPU,
// say so on stderr and exit 0.
func (p *Prober) judge(out Output) outcome {
	o := outcome{state: wire.ProbeOK}
	if out.Err == nil {
		took := out.Took.Milliseconds()
		o.took = &took
	}
	table := ParseCSV(out.Stdout, len(p.plan.columns))
	table.Rejected = append(table.Rejected, p.devices(table, &o)...)
	o.fresh = len(o.gpus) > 0
	lost := lostDevices(out)
	o.highest = len(o.gpus) + lost
	expected := max(p.Expected, p.highestSeen(), o.highest)
	quiet := len(lines(out.Stderr)) == 0 && len(table.Notes) == 0
	switch answering := len(o.gpus); {
	case out.Err != nil || out.Code != 0:
		o.state, o.err = wire.ProbeFailed, counted(answering, expected)+explain(out, table.Notes)
	case len(table.Rejected) > 0:
		o.state, o.err = wire.ProbeFailed, counted(answering, expected)+"nvidia-smi: "+table.Rejected[0]
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
	case !quiet:
		o.err = explain(out, table.Notes) // a warning beside full rows: worth showing, no failure
	}
	return o
}

// devices turns the table's rows into o's GPUs and returns what it had to reject.
func (p *Prober) devices(table Table, o *outcome) (rejected []string) {
	for i, cells := range table.Rows {
		r := record{columns: p.plan.columns, cells: cells}
		gpu, err := r.device(p.systemMemory)
		if err != nil {
			rejected = append(rejected, fmt.Sprintf("row %d of the answer %v", i+1, err))
			continue
		}
		o.gpus = append(o.gpus, gpu)
		if text, kind := classify(r.cell(fieldDriver)); kind == present && o.driver == nil {
			text = clean(text, maxLine)
			o.driver = &text
		}
	}
	if o.driver != nil {
		p.plan.note(*o.driver)
	}
	return rejected
}

// counted begins an error with how many GPUs answer, when some do and some do not.
func counted(answering, expected int) string {
	if answering == 0 || answering >= expected {
		return ""
	}
	return fmt.Sprintf("%d of %d GPUs answer: ", answering, expected)
}
