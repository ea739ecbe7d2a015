package health

import (
	"fmt"
	"slices"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/view"
)

// ofPowerCable goes by nvidia-smi's exit code, and by the kernel's word since the boot: a cable is attached while the machine is off.
func ofPowerCable(h *wire.Hardware) look {
	const text = "the power cable of a GPU is not attached"
	if h.Probe.Cause == wire.CausePowerCable {
		return look{Verdict: bad, Text: text}
	}
	if h.Xids != nil {
		for _, x := range h.Xids.Events {
			if x.Kind == wire.XidPowerCable && x.UUID != "" {
				return look{Verdict: bad, Text: text + ": " + x.Text}
			}
		}
	}
	if h.Probe.State != wire.ProbeOK {
		return look{}
	}
	return look{Verdict: good}
}

func (r *rule) ofStarts(c *wire.Cost) look {
	if c == nil || c.Starts == nil || c.Starts.Crashes == nil {
		return look{}
	}
	l := r.high(new(float64(*c.Starts.Crashes)), "its agent ended by itself %.0f times")
	if l.Verdict != bad {
		return l
	}
	l.Text += fmt.Sprintf(" within %.0f minutes", wire.StartsWindow.Minutes())
	if c.Starts.Why != "" {
		l.Text += ": " + c.Starts.Why
	}
	return l
}

// ofNVLinks takes a board whose links are all down for one without a bridge: nothing is known of its links then.
func (r *rule) ofNVLinks(g *wire.GPU) look {
	l := g.NVLinks
	if l == nil || l.Total == nil || l.Down == nil || *l.Total > 0 && *l.Down >= *l.Total {
		return look{}
	}
	return r.high(new(float64(*l.Down)), "%.0f of its links to other GPUs are down")
}

// mostSkew is the largest difference of two clocks that is allowed for, in milliseconds: ten years.
const mostSkew = 10 * 365 * 24 * 3600 * 1000

// judgeXids looks at what the kernel said. It counts for as many hours as the limit says, by the gateway's clock. An event whose GPU is not
// this machine's is another container's. If the kernel's log cannot be read any more, age alone ends what was found.
func (d *Service) judgeXids(w *watch, n *api.NodeRow, r *rule, s *view.Sample, gap time.Duration) {
	if s.Hardware == nil {
		return
	}
	isRead := s.Hardware.Xids != nil && s.Hardware.Xids.State == wire.KernelRead
	var events []wire.Xid
	if isRead {
		events = s.Hardware.Xids.Events
	}
	skew := min(max(s.SkewMillis, -mostSkew), mostSkew)
	aged := s.At.Add(-time.Duration(r.Limit * float64(time.Hour)))
	counts := aged.Add(-time.Duration(skew) * time.Millisecond)
	latest := map[string]wire.Xid{}
	for _, x := range events {
		if x.IsCritical() && x.UUID != "" && x.At.After(counts) {
			latest[x.UUID] = x
		}
	}
	for gpu, x := range latest {
		d.see(w, n, r, gpu, look{Verdict: bad, Text: xidText(x)}, s.At, gap)
	}
	isHidden := !isRead || len(events) >= wire.MaxXids // an event may have been pushed out: only its age tells
	for k, t := range w.tracks {
		_, there := latest[k.gpu]
		if k.rule == r.Name && !there && (!isHidden || isRemoved(s.Hardware, k.gpu) || t.Since.Before(aged)) {
			d.see(w, n, r, k.gpu, look{Verdict: good}, s.At, gap)
		}
	}
}

// hasNoGPU is true if a look found that the machine has none.
func hasNoGPU(h *wire.Hardware) bool { return h != nil && h.Probe.State == wire.ProbeAbsent }

// isRemoved is true for a GPU that a look which missed none has not seen: it was taken out, or this is another machine.
func isRemoved(h *wire.Hardware, uuid string) bool {
	return hasNoGPU(h) || h.Probe.State == wire.ProbeOK && !slices.ContainsFunc(h.GPUs, func(g wire.GPU) bool { return g.UUID == uuid })
}

func xidText(x wire.Xid) string {
	if x.Code == nil {
		return "the kernel says: " + x.Text
	}
	return fmt.Sprintf("Xid %d: %s", *x.Code, x.Text)
}
