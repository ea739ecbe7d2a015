package logs

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/internal/host"
	"muster/agent/wire"
)

// played is a ring of the kernel.
type played struct {
	mu      sync.Mutex
	records []string
	errs    []error // that reads give first
	closed  int
}

func (p *played) device() host.Device {
	return host.Device{
		Open: func() (int, error) { return 7, nil },
		Read: func(_ int, into []byte) (int, error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			if len(p.errs) > 0 {
				err := p.errs[0]
				p.errs = p.errs[1:]
				return 0, err
			}
			if len(p.records) == 0 {
				return 0, syscall.EAGAIN
			}
			n := copy(into, p.records[0])
			p.records = p.records[1:]
			return n, nil
		},
		Close:  func(int) error { p.mu.Lock(); p.closed++; p.mu.Unlock(); return nil },
		Uptime: func() (time.Duration, bool) { return 100 * time.Second, true },
	}
}

func (p *played) add(records ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.records = append(p.records, records...)
}

func record(level, sequence, second int, text string) string {
	return fmt.Sprintf("%d,%d,%d,-;%s\n SUBSYSTEM=pci\n", level, sequence, second*1e6, text)
}

func kernelHost(t *testing.T) (Host, *played) {
	h := newHost(t)
	p := &played{}
	h.seams.device = p.device()
	now := time.Date(2026, 11, 22, 15, 0, 0, 0, time.UTC)
	h.seams.now = func() time.Time { return now }
	return h, p
}

func TestKernel(t *testing.T) {
	h, p := kernelHost(t)
	p.errs = []error{syscall.EINTR, syscall.EINVAL, syscall.EPIPE}
	p.add(record(4, 10, 1, `NVRM: Xid\x0asecond line`), "nonsense", record(3, 11, 2, "token="+token), record(14, 15, 3, "of a program"))
	lines, err := all(t, h, Ask{Source: wire.LogKernel})
	if got := messages(lines); err != nil || len(lines) != 4 || got != "NVRM: Xid\nsecond line|token=***|"+lines[2].Message+"|of a program" {
		t.Fatalf("%q, %v", got, err)
	}
	if lines[0].Level != "warn" || lines[1].Level != "error" || lines[3].Level != "info" || lines[2].Dropped != 3 {
		t.Errorf("%+v", lines)
	}
	if want := h.seams.now().Add(-99 * time.Second); !lines[0].Time.Equal(want) || p.closed != 1 {
		t.Errorf("the first is of %s, want %s; closed %d times", lines[0].Time, want, p.closed)
	}
}

func TestKernelSinceAndAfter(t *testing.T) {
	h, p := kernelHost(t)
	p.add(record(6, 1, 1, "one"), record(6, 2, 50, "two"))
	r := open(t, h, Ask{Source: wire.LogKernel, Since: h.seams.now().Add(-time.Minute), Follow: true})
	if got := next(t, r).Message; got != "two" {
		t.Error(got)
	}
	p.add(record(6, 3, 2, "later, whatever its time"))
	if got := next(t, r).Message; got != "later, whatever its time" {
		t.Error(got)
	}
	place := r.place
	r.Close()
	p.add(record(6, 2, 50, "two"), record(6, 3, 51, "three"), record(6, 4, 52, "four"))
	lines, err := all(t, h, Ask{Source: wire.LogKernel, After: place})
	if got := messages(lines); err != nil || got != "four" {
		t.Errorf("%q, %v", got, err)
	}
	p.add(record(6, 1, 1, "of a later boot"))
	lines, _ = all(t, h, Ask{Source: wire.LogKernel, After: "kmsg:0f0f0f0f-0000-0000-0000-000000000000:900", Since: h.seams.now()})
	if got := messages(lines); got != "of a later boot" {
		t.Errorf("%q", got)
	}
	p.add(record(6, 900, 1, "overwritten before"))
	lines, _ = all(t, h, Ask{Source: wire.LogKernel, After: place})
	if len(lines) != 2 || lines[0].Dropped != 896 {
		t.Errorf("%+v", lines)
	}
}

func TestKernelFails(t *testing.T) {
	h, p := kernelHost(t)
	p.errs = []error{syscall.EIO}
	if _, err := all(t, h, Ask{Source: wire.LogKernel}); err == nil || !strings.Contains(err.Error(), "/dev/kmsg cannot be read") {
		t.Error(err)
	}
	h.seams.device.Open = func() (int, error) { return 0, fs.ErrPermission }
	programs(t, map[string]string{"journalctl": `case "$*" in
*_TRANSPORT=kernel*) echo '{"__REALTIME_TIMESTAMP":"1","MESSAGE":"by the journal"}';;
esac`})
	lines, err := all(t, h, Ask{Source: wire.LogKernel})
	if got := messages(lines); err != nil || got != "by the journal" {
		t.Errorf("%q, %v", got, err)
	}
	programs(t, map[string]string{"journalctl": "true"})
	if _, err := h.Open(t.Context(), Ask{Source: wire.LogKernel}); err == nil || !strings.Contains(err.Error(), "no line of the kernel") {
		t.Error(err)
	}
	programs(t, nil)
	_, err = h.Open(t.Context(), Ask{Source: wire.LogKernel})
	var said *wire.ErrorDetail
	if !errors.As(err, &said) || said.Code != wire.CodeNotFound || !strings.Contains(err.Error(), "CAP_SYSLOG") ||
		!strings.Contains(err.Error(), "journalctl is not on this node") {
		t.Error(err)
	}
}

// TestKernelPace: who asks for another pace gets a record at that, and what follows it soon: the ring is small.
func TestKernelPace(t *testing.T) {
	for _, asked := range []time.Duration{0, 2 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			p := &played{}
			h := Host{State: t.TempDir(), seams: seams{device: p.device()}}
			r := open(t, h, Ask{Source: wire.LogKernel, Follow: true, Pace: asked})
			for i, want := range []time.Duration{cmp.Or(asked, pace), pace} {
				synctest.Wait()
				began := time.Now()
				p.add(record(6, i+1, 1, "new"))
				next(t, r)
				if got := time.Since(began); got != want {
					t.Errorf("pace %s, record %d: after %s", asked, i, got)
				}
			}
			r.Close()
		})
	}
}
