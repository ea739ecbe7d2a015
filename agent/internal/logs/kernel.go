package logs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"

	"muster/agent/internal/host"
	"muster/agent/wire"
)

// openKernel reads /dev/kmsg, and asks the journal where that may not be read.
func (h Host) openKernel(ctx context.Context, ask Ask) (feed, error) {
	d := h.device()
	file, err := d.Open()
	if err == nil {
		k := ring{device: d, file: file, ask: ask, now: h.now, pace: h.pace(), boot: host.BootID()}
		k.begin()
		return k.read, nil
	}
	choice := []string{"_TRANSPORT=kernel"}
	found, journalErr := h.probe(ctx, choice)
	if journalErr == nil && !found {
		journalErr = errors.New("it has no line of the kernel")
	}
	if journalErr != nil {
		return nil, wire.Refuse(wire.CodeNotFound, "the kernel's log cannot be read: "+host.Explain(err),
			fmt.Sprintf("the journal does not help: %v", journalErr))
	}
	return h.journal(ask, choice), nil
}

// ring reads the kernel's ring of records.
type ring struct {
	device host.Device
	file   int
	ask    Ask
	now    func() time.Time
	pace   time.Duration
	boot   string

	next    uint64 // number of the record that comes next; 0: any
	started bool
	busy    bool // there was a record since the last pause
}

const ofRing = "kmsg:"

// begin goes behind the place that was asked for, where it is one of this boot. A record of a later boot is newer in any case.
func (k *ring) begin() {
	rest, ours := strings.CutPrefix(k.ask.After, ofRing)
	boot, number, _ := strings.Cut(rest, ":")
	last, err := strconv.ParseUint(number, 10, 64)
	if !ours || err != nil {
		return
	}
	k.started = true
	if boot == k.boot {
		k.next = last + 1
	}
}

// read is the feed. The kernel tells nobody of new records whom it does not wake, so it looks every now and then.
func (k *ring) read(ctx context.Context, give func(entry) error) error {
	defer func() { _ = k.device.Close(k.file) }()
	raw := make([]byte, host.MaxRecord)
	for {
		n, err := k.device.Read(k.file, raw)
		switch {
		case errors.Is(err, syscall.EAGAIN) || err == nil && n == 0:
			if !k.ask.Follow {
				return nil
			}
			k.started = true
			pause := cmp.Or(k.ask.Pace, k.pace)
			if k.busy { // more may come, and the ring is small
				pause = k.pace
			}
			k.busy = false
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
		case host.Passes(err): // records that were overwritten are missed by their numbers
		case err != nil:
			return errors.New(host.Explain(err))
		default:
			k.busy = true
			err = k.record(raw[:n], give)
			if err != nil {
				return err
			}
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
	}
}

func (k *ring) record(raw []byte, give func(entry) error) error {
	record, ok := host.ParseRecord(raw)
	if !ok || record.Sequence < k.next {
		return nil
	}
	at := k.device.Moment(record.At, k.now())
	if missed := record.Sequence - k.next; k.next > 0 && missed > 0 {
		err := give(entry{at: at, dropped: int64(missed), text: "the kernel has overwritten these lines before they were read"})
		if err != nil {
			return err
		}
	}
	k.next = record.Sequence + 1
	if !k.started && at.Before(k.ask.Since) {
		return nil
	}
	k.started = true
	place := ""
	if k.boot != "" {
		place = fmt.Sprint(ofRing, k.boot, ":", record.Sequence)
	}
	return give(entry{at: at, level: syslogLevel(record.Level), text: record.Text, place: place})
}
