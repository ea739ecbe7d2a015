package host

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"muster/agent/wire"
)

var start = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// played gives a log the records, one with each read. A nil record is EPIPE. When they are used up there is nothing to read.
type played struct {
	records []string
	up      time.Duration
	failed  error // of open
	broken  error // of read, once the records are used up
	closed  int
}

func (p *played) log(state string) *Log {
	return &Log{State: state, Now: func() time.Time { return start.Add(p.up) }, device: Device{
		Open: func() (int, error) { return 7, p.failed },
		Read: func(_ int, into []byte) (int, error) {
			if len(p.records) == 0 && p.broken != nil {
				return 0, p.broken
			}
			if len(p.records) == 0 {
				return 0, syscall.EAGAIN
			}
			record := p.records[0]
			p.records = p.records[1:]
			switch record {
			case "overwritten":
				return 0, syscall.EPIPE
			case "too long":
				return 0, syscall.EINVAL
			}
			return copy(into, record), nil
		},
		Close:  func(int) error { p.closed++; return nil },
		Uptime: func() (time.Duration, bool) { return p.up, true },
	}}
}

func nobody(string) (string, string) { return "", "" }

// line is a record of the kernel, written so many seconds after the boot.
func line(sequence, seconds int, text string) string {
	return fmt.Sprintf("4,%d,%d,-;%s\n SUBSYSTEM=pci\n DEVICE=+pci:0000:61:00.0\n", sequence, seconds*1_000_000, text)
}

func xid(bus string, code int) string {
	return fmt.Sprintf("NVRM: Xid (PCI:%s): %d, pid='<unknown>', name=<unknown>, Ch 00000008", bus, code)
}

// shown is a report in one line.
func shown(report *wire.Xids) string {
	if report == nil {
		return "nothing"
	}
	all := []string{report.State + report.Error}
	for _, e := range report.Events {
		code := "-"
		if e.Code != nil {
			code = fmt.Sprint(*e.Code)
		}
		all = append(all, fmt.Sprintf("%s %s %s%s %s", e.At.Sub(start), e.Kind, e.UUID, e.BusID, code))
	}
	return strings.Join(all, "; ")
}

func TestEvents(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"an Xid", xid("0000:61:00", 45), "xid 0000:61:00.0 45"},
		{"an Xid of an older driver", "NVRM: Xid (0000:03:00): 31, Ch 00000010, engmask 00000101", "xid 0000:03:00.0 31"},
		{"an Xid of a divided GPU", "NVRM: Xid (PCI:0000:b7:00 GPU-I:05): 13, pid=1, name=x, Graphics Exception", "xid 0000:b7:00.0 13"},
		{"a large domain", "NVRM: Xid (PCI:000F:01:00): 119, pid=3, name=nvidia-smi, Timeout", "xid 000f:01:00.0 119"},
		{"fallen off the bus", "NVRM: Xid (PCI:0000:44:00): 79, pid=9, GPU has fallen off the bus.", "bus_lost 0000:44:00.0 79"},
		{"without an Xid", "NVRM: GPU 0000:01:00.0: GPU has fallen off the bus.", "bus_lost 0000:01:00.0 79"},
		{"of an older driver", "NVRM: GPU at 0000:01:00.0 has fallen off the bus.", "bus_lost 0000:01:00.0 79"},
		{"of an older one still", "NVRM: GPU at PCI:0000:0b:00: has fallen off the bus.", "bus_lost 0000:0b:00.0 79"},
		{"in one record of three lines", `NVRM: The NVIDIA GPU 0000:b3:00.0\x0aNVRM: (PCI ID: 10de:26b5) installed in this system has\x0a` +
			`NVRM: fallen off the bus and is not responding to commands.`, "bus_lost 0000:b3:00.0 79"},
		{"of nobody knows which GPU", "NVRM: fallen off the bus and is not responding to commands.", "bus_lost  79"},
		{"a power cable", "NVRM: GPU 0000:13:00.0: GPU does not have the necessary power cables connected.", "power_cable 0000:13:00.0 -"},
		{"a reset of AMD's", "amdgpu 0000:03:00.0: amdgpu: GPU reset begin!. Source:  3", "gpu_reset 0000:03:00.0 -"},
		{"errors of AMD's memory", "amdgpu 0000:de:00.0: amdgpu: socket: 0 2 uncorrectable hardware errors detected in umc block",
			"ras_uncorrected 0000:de:00.0 -"},
		{"new ones", "amdgpu 0000:de:00.0: amdgpu: {4} socket: 0, die: 1, 5 new uncorrectable hardware errors detected in gfx block",
			"ras_uncorrected 0000:de:00.0 -"},
		{"an old total", "amdgpu 0000:de:00.0: {4} socket: 0, die: 1, 5 uncorrectable hardware errors detected in total in gfx block", ""},
		{"another total", "amdgpu 0000:de:00.0: amdgpu: Total 5 uncorrectable hardware errors detected in gfx block", ""},
		{"corrected errors", "amdgpu 0000:de:00.0: amdgpu: 5 correctable hardware errors detected in gfx block", ""},
		{"no errors", "amdgpu 0000:de:00.0: amdgpu: no uncorrectable hardware errors detected in gfx block", ""},
		{"none of them", "amdgpu 0000:de:00.0: amdgpu: 0 uncorrectable hardware errors detected in gfx block", ""},
		{"a successful reset", "amdgpu 0000:03:00.0: amdgpu: GPU reset(2) succeeded!", ""},
		{"an Xid that is no number", "NVRM: Xid (PCI:0000:61:00): none", ""},
		{"an Xid 0", "NVRM: Xid (PCI:0000:61:00): 0, x", ""},
		{"an Xid without an end", "NVRM: Xid (PCI:0000:61:00", ""},
		{"a message about Xids", "systemd: NVRM: Xid (PCI:0000:61:00): 45", ""},
		{"a bus that is none", "NVRM: Xid (PCI:zz:61:00): 8, x", "xid  8"},
		{"a slot that is none", "NVRM: Xid (PCI:0000:61:99): 8, x", "xid  8"},
	} {
		p := played{records: []string{line(1, 60, c.text)}, up: time.Hour}
		l := p.log("")
		l.Look()
		want := "ok"
		if c.want != "" {
			want += "; 1m0s " + c.want
		}
		if got := shown(l.Report(nobody)); got != want {
			t.Errorf("%s: got %s, want %s", c.name, got, want)
		}
	}
}

// A message of several records is about the GPU that the first of them names, and other messages are not.
func TestLostOverThreeRecords(t *testing.T) {
	p := played{up: time.Hour, records: []string{
		line(1, 60, "NVRM: The NVIDIA GPU 0000:b3:00.0"),
		line(2, 60, "NVRM: (PCI ID: 10de:26b5) installed in this system has"),
		line(3, 60, "NVRM: fallen off the bus and is not responding to commands."),
		line(4, 70, "NVRM: a"), line(5, 70, "NVRM: b"),
		line(6, 200, "NVRM: fallen off the bus and is not responding to commands."),
	}}
	l := p.log("")
	l.Look()
	const want = "ok; 1m0s bus_lost 0000:b3:00.0 79; 3m20s bus_lost  79"
	if got := shown(l.Report(nobody)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// What a program writes into the kernel's log is no evidence, and what is no record is left out.
func TestForeignRecords(t *testing.T) {
	p := played{up: time.Hour, records: []string{
		"12,1,60000000,-;" + xid("0000:61:00", 79), "overwritten", "too long",
		"", ";", "4,1;x", "a,1,2,-;" + xid("0000:61:00", 79), "4,b,2,-;" + xid("0000:61:00", 79), "4,1,c,-;" + xid("0000:61:00", 79),
		"4,2,60000000,-,caller=T1;" + xid("0000:61:00", 48),
	}}
	p.records = append(p.records[:3], p.records[4:]...) // an empty record would be the end
	l := p.log("")
	l.Look()
	if got := shown(l.Report(nobody)); got != "ok; 1m0s xid 0000:61:00.0 48" {
		t.Errorf("got %s", got)
	}
}

// An event is told once, also after a restart of the agent, and keeps its time.
func TestRestart(t *testing.T) {
	state := t.TempDir()
	records := []string{line(1, 60, xid("0000:61:00", 45)), line(2, 61, "usb 1-1: new device"), line(3, 120, xid("0000:62:00", 48))}
	p := played{records: records, up: time.Hour}
	l := p.log(state)
	l.Look()
	first := shown(l.Report(nobody))
	l.Close()
	if p.closed != 1 || first != "ok; 1m0s xid 0000:61:00.0 45; 2m0s xid 0000:62:00.0 48" {
		t.Fatalf("got %s, closed %d times", first, p.closed)
	}
	// The clock was set since, the kernel has overwritten the first record, and has written one more.
	again := played{records: append(records[2:], line(4, 130, xid("0000:63:00", 13))), up: 2 * time.Hour}
	l = again.log(state)
	l.Now = func() time.Time { return start.Add(26 * time.Hour) }
	l.Look()
	if got := shown(l.Report(nobody)); got != first+"; 24h2m10s xid 0000:63:00.0 13" {
		t.Errorf("got %s", got)
	}
	for name, raw := range map[string]string{
		"another boot": `{"boot_id":"another","next_sequence":100,"events":[]}`, "nonsense": `{`,
	} {
		if err := os.WriteFile(filepath.Join(state, RecordFile), []byte(raw), 0o600); err != nil {
			t.Fatal(err)
		}
		fresh := played{records: records, up: time.Hour}
		l = fresh.log(state)
		l.ReadOnly = true
		l.Look()
		left, err := os.ReadFile(filepath.Join(state, RecordFile))
		if got := shown(l.Report(nobody)); got != first || err != nil || string(left) != raw {
			t.Errorf("%s: got %s, and %s in the record, %v", name, got, left, err)
		}
	}
}

// A driver that repeats itself says nothing new, and a flood of one event does not hide the others.
func TestFlood(t *testing.T) {
	ras := "amdgpu 0000:de:00.0: amdgpu: 2 uncorrectable hardware errors detected in umc block"
	p := played{up: 48 * time.Hour, records: []string{line(1, 1, xid("0000:61:00", 48)), line(2, 2, ras)}}
	for i := range 3000 {
		p.records = append(p.records, line(i+3, 10+i, xid("0000:62:00", 31)))
	}
	p.records = append(p.records, line(4000, 4000, ras))
	l := p.log("")
	l.Look()
	report := l.Report(nobody)
	if got := shown(report); len(report.Events) != wire.MaxXids || !strings.HasPrefix(got, "ok; 1s xid 0000:61:00.0 48; 2s ras_uncorrected") {
		t.Errorf("%d events: %s", len(report.Events), got)
	}
	if last := report.Events[len(report.Events)-1]; last.At.Sub(start) != 2950*time.Second {
		t.Errorf("the last is of %s", last.At.Sub(start))
	}
	different := played{up: time.Hour}
	for code := 1; code < 40; code++ {
		different.records = append(different.records, line(code, code, xid("0000:61:00", code)))
	}
	l = different.log("")
	l.Look()
	if report = l.Report(nobody); len(report.Events) != wire.MaxXids || *report.Events[0].Code != 24 {
		t.Errorf("%d events: %s", len(report.Events), shown(report))
	}
}

// What is critical of one GPU is not pushed out by what another one says, critical or not.
func TestKeepsCritical(t *testing.T) {
	var events []wire.Xid
	event := func(bus string, code, second int) wire.Xid {
		return wire.Xid{At: start.Add(time.Duration(second) * time.Hour), Kind: wire.XidReport, BusID: bus, Code: &code}
	}
	events = add(events, event("0000:61:00.0", 79, 0))
	for code := 1; code < 140; code++ { // some of them are critical
		events = add(events, event("0000:62:00.0", code, code))
	}
	for i := range 40 {
		events = add(events, event("0000:63:00.0", 48, 200+i))
	}
	last := map[string]wire.Xid{}
	count := map[string]int{}
	critical := 0
	for _, x := range events {
		last[x.BusID] = x
		count[x.BusID]++
		if x.IsCritical() {
			critical++
		}
	}
	if len(events) != wire.MaxXids || critical != wire.MaxXids || *last["0000:61:00.0"].Code != 79 || len(last) != 3 ||
		last["0000:63:00.0"].At != start.Add(239*time.Hour) || count["0000:62:00.0"] != 8 { // each kind of it, before what repeats
		t.Errorf("%d events, %d critical: %+v", len(events), critical, events)
	}
	for code := 1; code < 140; code++ { // with the second GPU, more kinds of what is critical than there is room for
		events = add(events, event("0000:64:00.0", code, 300+code))
	}
	if first := events[0]; len(events) != wire.MaxXids || first.BusID != "0000:61:00.0" || *first.Code != 79 {
		t.Errorf("the oldest of %d: %+v", len(events), first)
	}
}

// A log that cannot be read is said to be so, and is never an empty list of a log that was read. It is tried again.
func TestNotAvailable(t *testing.T) {
	p := played{up: time.Hour, records: []string{line(1, 60, xid("0000:61:00", 45))}}
	l := p.log("")
	if got := l.Report(nobody); got != nil {
		t.Errorf("before a look: %s", shown(got))
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{fs.ErrNotExist, "a container does not get its host's log"}, {syscall.ENOENT, "a container"},
		{syscall.EPERM, "CAP_SYSLOG"}, {syscall.EACCES, "CAP_SYSLOG"}, {errOther, "another device"}, {syscall.EIO, "input/output error"},
	} {
		p.failed = c.err
		l.Look()
		report := l.Report(nobody)
		if report.State != wire.KernelNotAvailable || !strings.Contains(report.Error, c.want) || report.Events == nil || len(report.Events) > 0 {
			t.Errorf("%v: %s", c.err, shown(report))
		}
	}
	p.failed = nil
	l.Look()
	if got := shown(l.Report(nobody)); got != "ok; 1m0s xid 0000:61:00.0 45" {
		t.Errorf("later: %s", got)
	}
	p.broken = syscall.EIO
	l.Look()
	if report := l.Report(nobody); report.State != wire.KernelNotAvailable || p.closed != 1 {
		t.Errorf("broken: %s, closed %d times", shown(report), p.closed)
	}
}

// The GPU at an address is named, and readers get the address as that GPU's row has it.
func TestLocate(t *testing.T) {
	p := played{up: time.Hour, records: []string{line(1, 60, xid("0000:61:00", 45)), line(2, 60, xid("0000:62:00", 45))}}
	l := p.log("")
	l.Look()
	report := l.Report(func(bus string) (string, string) {
		if bus == "0000:61:00.0" {
			return "GPU-1@", "00000000:61:00.0"
		}
		return "", ""
	})
	if got := shown(report); got != "ok; 1m0s xid GPU-1@00000000:61:00.0 45; 1m0s xid 0000:62:00.0 45" {
		t.Errorf("got %s", got)
	}
	if text := report.Events[0].Text; text != "NVRM: Xid (PCI:0000:61:00): 45, pid='(unknown)', name=(unknown), Ch 00000008" {
		t.Errorf("the text is %q", text)
	}
}

// TestThisMachine reads the log of the machine that the test runs on, where it may.
func TestThisMachine(t *testing.T) {
	l := &Log{State: t.TempDir()}
	defer l.Close()
	began := time.Now()
	l.Look()
	l.Look()
	report := l.Report(nobody)
	t.Logf("%s in %s, up to record %d", shown(report), time.Since(began), l.next)
	if report.State == wire.KernelRead && l.next == 0 || report.State == wire.KernelNotAvailable && report.Error == "" {
		t.Errorf("%s, %d", shown(report), l.next)
	}
}

// FuzzRecord: whatever stands in the log, an event fits into a report and harms no screen.
func FuzzRecord(f *testing.F) {
	for _, seed := range []string{
		line(1, 60, xid("0000:61:00", 45)), line(2, 1, `NVRM: The NVIDIA GPU 0000:b3:00.0\x0aNVRM: fallen off the bus`), "4,1,2,-;\\x",
		line(3, 1, "amdgpu 0000:de:00.0: amdgpu: 2 uncorrectable hardware errors detected in umc block"), "4,1,2,-,caller=T1;NVRM: \\x1b[2J",
		"6,339,5140900,-;NET: Registered protocol family 10", line(4, 1, "NVRM: Xid (PCI:0000:61:00): 31, \x1b]0;x\a"+strings.Repeat("ü", 300)),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		record, ok := ParseRecord(raw)
		if !ok {
			return
		}
		var p parser
		event, ok := p.event(record)
		if !ok {
			return
		}
		if event.Kind == "" || len(event.Text) > maxText || wire.OneLine(event.Text, maxText) != event.Text ||
			event.Code != nil && *event.Code <= 0 {
			t.Errorf("%q gives %+v", raw, event)
		}
		if event.BusID != "" && Address(event.BusID) != event.BusID {
			t.Errorf("%q gives the address %q", raw, event.BusID)
		}
	})
}
