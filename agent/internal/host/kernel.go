package host

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"muster/agent/disk"
	"muster/agent/wire"
)

// RecordFile holds, in the state directory, the events of this boot. It names GPUs and nothing secret.
const RecordFile = "kernel.json"

// maxRecords bounds one look, so that no flood holds it up.
const maxRecords = 1 << 16

// Log is the kernel's log. Look and Close are called by one goroutine; Report may be called by another.
type Log struct {
	State    string           // directory for what the next run of the agent must know; empty: it is not kept
	ReadOnly bool             // State belongs to an agent at work: nothing is written
	Now      func() time.Time // nil: time.Now

	device Device // zero: Kmsg
	file   int    // descriptor, where opened is true
	opened bool
	loaded bool
	boot   string // this boot of the kernel
	raw    []byte // room for a record
	next   uint64 // number of the first record that was not read yet
	parser parser

	mu     sync.Mutex
	looked bool
	fault  string // why the log cannot be read
	events []wire.Xid
}

// kept is what the next run must know.
type kept struct {
	Boot   string     `json:"boot_id"`
	Next   uint64     `json:"next_sequence"`
	Events []wire.Xid `json:"events"`
}

// Look reads what is new. It returns at once if nothing is.
func (l *Log) Look() {
	l.load()
	fault := l.start()
	var found []wire.Xid
	if fault == nil {
		found, fault = l.drain()
	}
	l.mu.Lock()
	l.looked = true
	l.fault = Explain(fault)
	for _, event := range found {
		l.events = add(l.events, event)
	}
	l.mu.Unlock()
	if len(found) > 0 {
		l.keep()
	}
}

// Close closes the log.
func (l *Log) Close() {
	if l.opened {
		_ = l.device.Close(l.file)
		l.opened = false
	}
}

// Report returns what was read so far, nil before the first look. locate names the GPU at an address of the bus: its UUID, and the address
// as its row has it. Both are empty if no GPU is known at the address.
func (l *Log) Report(locate func(bus string) (uuid, own string)) *wire.Xids {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.looked {
		return nil
	}
	if l.fault != "" {
		return &wire.Xids{State: wire.KernelNotAvailable, Error: l.fault, Events: []wire.Xid{}}
	}
	report := &wire.Xids{State: wire.KernelRead, Events: make([]wire.Xid, len(l.events))}
	copy(report.Events, l.events)
	for i := range report.Events {
		event := &report.Events[i]
		if uuid, own := locate(event.BusID); uuid != "" {
			event.UUID = uuid
			event.BusID = own
		}
	}
	return report
}

// load reads the record of an earlier run in this boot, once.
func (l *Log) load() {
	if l.loaded {
		return
	}
	l.loaded = true
	if l.device.Open == nil {
		l.device = Kmsg()
	}
	l.boot = BootID()
	if l.State == "" {
		return
	}
	var r kept
	raw, err := os.ReadFile(filepath.Join(l.State, RecordFile))
	if err != nil || json.Unmarshal(raw, &r) != nil || r.Boot != l.boot || l.boot == "" || len(r.Events) > wire.MaxXids {
		return
	}
	l.next = r.Next
	l.events = r.Events
}

// keep writes the record. If that fails, the next run finds the events in the log again, as long as the kernel has them.
func (l *Log) keep() {
	if l.State == "" || l.ReadOnly || l.boot == "" {
		return
	}
	raw, err := json.Marshal(kept{Boot: l.boot, Next: l.next, Events: l.events})
	if err == nil {
		_ = disk.ReplaceSoon(filepath.Join(l.State, RecordFile), raw, 0o600)
	}
}

// start opens the log where it is not open. A log that could not be opened is tried again with each look.
func (l *Log) start() error {
	if l.opened {
		return nil
	}
	file, err := l.device.Open()
	if err != nil {
		return err
	}
	l.file = file
	l.opened = true
	return nil
}

// drain reads records until there is none, and gives the events among them.
func (l *Log) drain() (found []wire.Xid, err error) {
	if l.raw == nil {
		l.raw = make([]byte, MaxRecord)
	}
	for range maxRecords {
		n, err := l.device.Read(l.file, l.raw)
		switch {
		case errors.Is(err, syscall.EAGAIN):
			return found, nil
		case Passes(err):
			continue
		case err != nil:
			l.Close()
			return found, err
		case n == 0:
			return found, nil
		}
		record, ok := ParseRecord(l.raw[:n])
		if !ok || record.Sequence < l.next {
			continue
		}
		l.next = record.Sequence + 1
		if event, ok := l.parser.event(record); ok {
			event.At = l.device.Moment(record.At, l.now()).Truncate(time.Second)
			found = append(found, event)
		}
	}
	return found, nil
}

func (l *Log) now() time.Time {
	if l.Now != nil {
		return l.Now()
	}
	return time.Now()
}
