package host

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/agent/wire"
)

const (
	busLost  = 79          // the Xid of a GPU that has fallen off the bus
	samePace = time.Minute // an event that is repeated sooner says nothing new
	fewLines = 3           // of one message that the driver writes in several records
)

// parser finds events in records. It remembers which GPU a message of several records is about.
type parser struct {
	about string // address of a GPU that the driver has begun to talk about; empty: none
	lines int    // records since then
}

// event reads one record. Programs can write into the kernel's log too: their records are none.
func (p *parser) event(r Record) (wire.Xid, bool) {
	if !r.Kernel {
		return wire.Xid{}, false
	}
	var event wire.Xid
	switch text := strings.TrimSpace(r.Text); {
	case strings.HasPrefix(text, "NVRM:"):
		p.nvidia(&event, strings.Join(strings.Fields(r.Text), " "))
	case strings.HasPrefix(text, "amdgpu "):
		text = wire.OneLine(text, maxText)
		event.Kind = amdKind(text)
		event.BusID = BusIn(text)
	}
	if event.Kind != "" {
		event.Text = wire.OneLine(r.Text, maxText)
	}
	return event, event.Kind != ""
}

// nvidia reads a line of NVIDIA's driver, whole and uncut.
func (p *parser) nvidia(event *wire.Xid, line string) {
	bus, code, isXid := xidIn(line)
	switch {
	case isXid:
		event.Kind = wire.XidReport
		event.BusID = bus
		event.Code = &code
		if code == busLost {
			event.Kind = wire.XidBusLost
		}
	case strings.Contains(line, "fallen off the bus"):
		lost := busLost
		event.Kind = wire.XidBusLost
		event.Code = &lost
		event.BusID = cmp.Or(BusIn(line), p.told())
	case strings.Contains(line, "does not have the necessary power cables connected"):
		event.Kind = wire.XidPowerCable
		event.BusID = BusIn(line)
	}
	p.lines++
	if strings.HasPrefix(line, "NVRM: The NVIDIA GPU ") {
		p.about = BusIn(line)
		p.lines = 0
	}
}

// told is the GPU that a message which goes on is about. Such a message is "NVRM: The NVIDIA GPU 0000:b3:00.0", then "NVRM: (PCI ID:
// 10de:26b5) installed in this system has", then "NVRM: fallen off the bus and is not responding to commands."
func (p *parser) told() string {
	if p.lines >= fewLines {
		return ""
	}
	return p.about
}

// xidIn reads "NVRM: Xid (PCI:0000:61:00): 45, pid=...". Older drivers leave out PCI:, and for a part of a divided GPU more words follow
// the address.
func xidIn(line string) (bus string, code int, ok bool) {
	rest, ok := strings.CutPrefix(line, "NVRM: Xid (")
	if !ok {
		return "", 0, false
	}
	where, rest, ok := strings.Cut(rest, "): ")
	if !ok {
		return "", 0, false
	}
	digits := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
	number, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || number == 0 {
		return "", 0, false
	}
	return BusIn(where), int(number), true
}

// amdKind reads a line of AMD's driver. It is empty for a line that is no event.
func amdKind(line string) string {
	switch {
	case strings.Contains(line, "GPU reset begin"):
		return wire.XidGPUReset
	case uncorrected(line):
		return wire.XidRAS
	}
	return ""
}

// uncorrected reports whether the driver has counted new uncorrected errors, as in "2 uncorrectable hardware errors detected in umc block".
// A total is no news, and "no uncorrectable hardware errors" is good news.
func uncorrected(line string) bool {
	before, after, ok := strings.Cut(line, " uncorrectable hardware errors detected")
	words := strings.Fields(strings.TrimSuffix(before, " new"))
	if !ok || len(words) == 0 || strings.Contains(after, "in total") || slices.Contains(words, "Total") {
		return false
	}
	count, err := strconv.ParseUint(words[len(words)-1], 10, 64)
	return err == nil && count > 0
}

// BusIn finds an address such as PCI:0000:61:00 or 0000:b3:00.0 in a line, in the form 0000:61:00.0. It is empty if there is none.
func BusIn(line string) string {
	words := strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '(' || r == ')' || r == ',' })
	for _, word := range words {
		word = strings.TrimPrefix(strings.TrimRight(word, ":;."), "PCI:")
		if bus := Address(word); bus != "" {
			return bus
		}
	}
	return ""
}

// Address returns a PCI address as Linux writes it. An address without a function means function 0. It is empty for a text that is no
// address.
func Address(text string) string {
	parts := strings.Split(text, ":")
	if len(parts) != 3 {
		return ""
	}
	slot, function, hasFunction := strings.Cut(parts[2], ".")
	if !hasFunction {
		function = "0"
	}
	var numbers [4]uint64
	for i, part := range [...]string{parts[0], parts[1], slot, function} {
		n, err := strconv.ParseUint(part, 16, 32)
		if err != nil {
			return ""
		}
		numbers[i] = n
	}
	if len(parts[0]) < 4 || numbers[1] > 0xff || numbers[2] > 0x1f || numbers[3] > 7 {
		return ""
	}
	return fmt.Sprintf("%04x:%02x:%02x.%x", numbers[0], numbers[1], numbers[2], numbers[3])
}

// same reports whether two events are of one kind about one GPU.
func same(a, b wire.Xid) bool {
	code := func(x wire.Xid) int {
		if x.Code == nil {
			return 0
		}
		return *x.Code
	}
	return a.Kind == b.Kind && a.BusID == b.BusID && code(a) == code(b)
}

// add puts a new event behind the others, unless it only repeats one. If there are too many, the one goes that tells least.
func add(events []wire.Xid, event wire.Xid) []wire.Xid {
	for _, before := range events {
		soon := event.At.Sub(before.At).Abs() < samePace
		again := event.Kind == wire.XidRAS && event.Text == before.Text // the driver writes its count each time that somebody asks for it
		if same(before, event) && (soon || again) {
			return events
		}
	}
	events = append(slices.Clip(events), event)
	if len(events) <= wire.MaxXids {
		return events
	}
	least, low := 0, worth(events, 0)
	for i := range events {
		if w := worth(events, i); slices.Compare(w[:], low[:]) < 0 {
			least, low = i, w
		}
	}
	return slices.Delete(events, least, least+1)
}

// worth is what an event tells, the weightiest first: one that is critical, one that was not followed by the same one, and one of a GPU of
// which there are few. So no flood hides the others, and no GPU hides what is critical of another.
func worth(events []wire.Xid, at int) [3]int {
	one := events[at]
	var w [3]int
	if one.IsCritical() {
		w[0] = 1
	}
	if !slices.ContainsFunc(events[at+1:], func(later wire.Xid) bool { return same(one, later) }) {
		w[1] = 1
	}
	for _, other := range events {
		if other.BusID == one.BusID {
			w[2]--
		}
	}
	return w
}
