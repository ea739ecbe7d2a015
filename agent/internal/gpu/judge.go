package gpu

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"strconv"

	"muster/agent/wire"
)

// program is looked for where no other one was named.
const program = "nvidia-smi"

// named reports whether the operator named a program.
func (p *Prober) named() bool { return p.Path != "" && p.Path != program }

// find looks the program up. Every look does that again, because somebody may install a driver while the agent runs.
func (p *Prober) find() (string, error) {
	if p.named() {
		return exec.LookPath(p.Path)
	}
	path, err := exec.LookPath(program)
	if err == nil {
		return path, nil
	}
	// On WSL 2 and GKE it is in a folder that is not in PATH.
	for _, known := range []string{"/usr/lib/wsl/lib/nvidia-smi", "/usr/local/nvidia/bin/nvidia-smi"} {
		if path, other := exec.LookPath(known); other == nil {
			return path, nil
		}
	}
	return "", err
}

// notFound is the outcome where the program could not be looked up.
func (p *Prober) notFound(err error) outcome {
	if !errors.Is(err, exec.ErrNotFound) && !errors.Is(err, fs.ErrNotExist) {
		return outcome{state: wire.ProbeFailed, unread: true, err: "nvidia-smi cannot be used: " + err.Error() + "; --nvidia-smi names another"}
	}
	if len(p.others.GPUs) > 0 {
		return p.othersAlone()
	}
	o := outcome{state: wire.ProbeAbsent} // no error: the machine may have no GPU
	switch n := p.expectedNow(0); {
	case n > 0 && p.known(wire.VendorAMD) && !p.known(wire.VendorNVIDIA):
		o.told = true
		o.missing = fmt.Sprintf("none of %d GPUs answers: %s", n, p.nameMissing(n, nil, nil, nil))
		o.err = fmt.Sprintf("%d GPUs of AMD are expected and none answers: look for them in lspci, and for amdgpu in dmesg; "+
			"a container needs /dev/kfd and /dev/dri", n)
	case n > 0:
		o.told = true
		o.missing = fmt.Sprintf("nvidia-smi is gone, so none of %d GPUs answers: %s", n, p.nameMissing(n, nil, nil, nil))
		o.err = fmt.Sprintf("no nvidia-smi on this machine, but %d GPUs are expected: install the NVIDIA driver, "+
			"or start the container with its GPUs", n)
	case p.named():
		o.err = "there is no " + p.Path + ": --nvidia-smi names the program"
	}
	return o
}

// expectedNow is expects for a caller that does not hold mu.
func (p *Prober) expectedNow(exist int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remember()
	return p.expects(exist)
}

// Exit codes of an nvidia-smi that answers and warns: of a damaged infoROM, or of a GPU that fell off the bus or has no power.
const (
	noPower = 8
	infoROM = 14
	lostGPU = 15
)

// judge turns the answer to a query into an outcome. An exit code of 0 proves nothing: newer drivers leave a lost GPU out, say so
// on stderr, and exit with 0.
func (p *Prober) judge(out Output) outcome {
	o := outcome{state: wire.ProbeOK}
	if out.Err == nil {
		o.took = new(out.Took.Milliseconds())
	}
	table := ParseCSV(out.Stdout, len(p.plan.columns))
	table.Rejected = append(table.Rejected, p.rows(table, &o)...)
	lost := lostDevices(out)
	unread := distinct(table.Rejected, o.gpus) // GPUs that exist, though this look says nothing about them
	o.told = len(o.gpus)+unread+len(lost) > 0 || noDevices(out)
	if !o.told && len(p.others.GPUs) > 0 && p.known(wire.VendorNVIDIA) {
		return p.silent(o, out, table)
	}
	p.addOthers(&o)
	answering := len(o.gpus)
	o.exist = min(answering+unread+len(lost), wire.MaxGPUs)
	o.whole = len(table.Rejected) == 0 && len(lost) == 0
	expected := p.expectedNow(o.exist)
	if missing := expected - answering - unread; o.told && missing > 0 {
		o.missing = fmt.Sprintf("%d of %d GPUs answer; gone: %s", answering, expected, p.nameMissing(missing, o.gpus, table.Rejected, lost))
	}
	o.cause = causeOf(out)
	p.describe(&o, out, table, expected)
	o.unread = o.state == wire.ProbeFailed && (o.missing == "" || len(table.Rejected) > 0)
	return o
}

// describe sets the state and the error of an outcome whose GPUs have been counted.
func (p *Prober) describe(o *outcome, out Output, table Table, expected int) {
	quiet := len(lines(out.Stderr)) == 0 && len(table.Notes) == 0
	answering := len(o.gpus)
	warned := (out.Code == infoROM || out.Code == lostGPU) && len(table.Rejected) == 0 && answering >= max(expected, 1)
	switch {
	case out.Err != nil || out.Code != 0 && !warned && !p.alone(out):
		o.fail(counted(answering, expected) + explain(out, table.Notes))
	case len(table.Rejected) > 0:
		o.fail(counted(answering, expected) + "nvidia-smi: " + table.Rejected[0].Wrong)
	case answering == expected && p.alone(out): // AMD's GPUs are all that this machine has
	case answering < expected && answering > 0 && quiet:
		o.fail(counted(answering, expected) + "nvidia-smi does not say why: look for Xid in dmesg, and for the device in lspci")
	case answering < max(expected, 1):
		o.fail(counted(answering, expected) + explain(out, table.Notes))
	case out.Took >= p.slow():
		o.state = wire.ProbeSlow
		o.err = fmt.Sprintf("nvidia-smi took %.1f s; persistence mode (nvidia-smi -pm 1, nvidia-persistenced) usually cures that",
			out.Took.Seconds())
	case warned || !quiet:
		o.err = explain(out, table.Notes) // a warning with all rows there: it is shown, and the probe has not failed
	}
}

func (o *outcome) fail(why string) {
	o.state = wire.ProbeFailed
	o.err = why
}

// rows turns the rows of the table into the GPUs of o, and returns the rows that it rejects.
func (p *Prober) rows(table Table, o *outcome) (rejected []Reject) {
	seen := map[string]bool{}
	nameless := []int{} // places of rows whose device cannot say its UUID any more
	for i, cells := range table.Rows {
		r := readRow(p.plan.columns, i, cells, p.systemMemory)
		switch {
		case r.wrong:
			rejected = append(rejected, reject(i, cells, "does not begin with a GPU's index"))
			continue
		case r.UUID != "" && seen[r.UUID]:
			continue // the same device again
		case r.nameless:
			nameless = append(nameless, len(o.gpus))
		}
		seen[r.UUID] = true
		o.gpus = append(o.gpus, r.GPU)
		o.driver = cmp.Or(o.driver, r.driver)
	}
	p.identify(o.gpus, nameless)
	if o.driver != nil {
		p.plan.note(*o.driver)
	}
	return rejected
}

// distinct counts the GPUs behind rows that could not be read. Rows with the same index count once. A row with the index of a GPU
// that answers does not count.
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

// counted is the start of an error where some GPUs answer and some do not: how many do.
func counted(answering, expected int) string {
	if answering == 0 || answering >= expected {
		return ""
	}
	return fmt.Sprintf("%d of %d GPUs answer: ", answering, expected)
}
