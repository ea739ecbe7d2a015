//go:build real

package lab

import "strings"

// Workload is a process on a box that nothing may disturb: it counts into a file that it holds open.
type Workload struct {
	box   *Box
	pid   string
	start string // clock ticks: with the pid it names one process
}

const workloadScript = `exec 3>>/run/workload; i=0; while :; do i=$((i+1)); echo $i >&3; sleep 0.1; done`

// Workload starts one: as a service where there is systemd, else detached.
func (b *Box) Workload() *Workload {
	b.lab.T.Helper()
	w := &Workload{box: b}
	if b.root.systemd {
		b.Sh("systemd-run --quiet --unit workload sh -c '" + workloadScript + "'")
		w.pid = b.Sh("systemctl show --property MainPID --value workload")
	} else {
		w.pid = b.Sh("setsid sh -c '" + workloadScript + "' </dev/null >/dev/null 2>&1 & echo $!")
	}
	b.lab.Until("the workload counts", func() bool { return w.count() != "" })
	w.start = w.started()
	return w
}

// Unharmed ends the test unless it is still the same process, and counts on.
func (w *Workload) Unharmed() {
	w.box.lab.T.Helper()
	if now := w.started(); now != w.start {
		w.box.lab.T.Fatalf("the workload, pid %s, is not the process that it was: started at %q, now %q", w.pid, w.start, now)
	}
	before := w.count()
	w.box.lab.Until("the workload counts on", func() bool { return w.count() != before })
}

func (w *Workload) count() string { return w.box.Sh("tail -n 1 /run/workload 2>/dev/null || true") }

// started is the 22nd field of the process's stat, counted after its name.
func (w *Workload) started() string {
	stat, err := w.box.Try("root", "cat /proc/"+w.pid+"/stat")
	_, rest, ok := strings.Cut(stat, ") ")
	if fields := strings.Fields(rest); err == nil && ok && len(fields) > 19 {
		return fields[19]
	}
	return "gone"
}
