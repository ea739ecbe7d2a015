package heartbeat

import (
	"crypto/x509"
	"slices"
	"time"

	"muster/agent/internal/identity"
	"muster/agent/wire"
)

// statusPause bounds how often status.json is written while nothing changes.
const statusPause = 10 * time.Second

// report is what the loop tells people on this machine.
type report struct {
	status  identity.Status
	written time.Time
	phase   string // as last written
	said    string // the last error as last written
	trouble string // a notice: why it could not be written
}

// identity notes which node this is, and until when its certificate is good.
func (r *report) identity(state identity.State, leaf *x509.Certificate) {
	r.status.NodeID = state.NodeID
	r.status.Name = state.Name
	r.status.Tenant = state.Tenant
	r.status.Generation = state.Current.Generation
	r.status.NotAfter = &leaf.NotAfter
}

// contact notes a proven answer. A refusal is one too.
func (r *report) contact() {
	now := time.Now().UTC().Truncate(time.Second)
	r.status.LastContact = &now
}

// online notes an accepted heartbeat.
func (r *report) online(answer wire.HeartbeatAnswer) {
	r.contact()
	r.status.LastOnline = r.status.LastContact
	r.status.Phase = identity.PhaseOnline
	r.status.LastError = ""
	r.status.State = answer.State
	r.status.Reasons = answer.StateReasons
}

// tellState logs what newly holds the node back, and that nothing does any more.
func (l *Loop) tellState(answer wire.HeartbeatAnswer) {
	before := l.report.status.Reasons
	now := answer.StateReasons
	switch {
	case slices.Equal(before, now):
	case slices.Contains(now, wire.ReasonConflict):
		l.Logger.Error("two machines use the identity of this node: the gateway gives neither of them work or a new certificate until "+
			"an operator chooses one; on the gateway, muster node show "+l.State.Name+" lists both",
			"node", l.State.Name, "state", answer.State, "reasons", now)
	case len(now) > 0:
		l.Logger.Warn("the gateway holds this node back", "state", answer.State, "reasons", now)
	default:
		l.Logger.Info("nothing holds this node back any more", "state", answer.State, "before", before)
	}
}

// saveStatus writes the status at once where something changed or force says so, and otherwise every statusPause at most.
func (l *Loop) saveStatus(force bool) {
	r := &l.report
	if l.GPUs != nil {
		if seen := l.GPUs(); seen != r.status.GPUs {
			r.status.GPUs = seen
			force = true
		}
	}
	if !force && r.phase == r.status.Phase && r.said == r.status.LastError && time.Since(r.written) < statusPause {
		return
	}
	r.status.Gateway = l.Client.Gateway()
	r.status.Through = l.Client.Through()
	r.status.Transport = l.Client.Mode()
	r.status.SkewMillis = l.Client.Offset().Milliseconds()
	r.status.Notices = l.notices()
	r.written = time.Now()
	r.phase = r.status.Phase
	r.said = r.status.LastError
	err := l.Directory.SaveStatus(r.status)
	if err != nil && r.trouble == "" { // once per trouble: the next beat reports it as a notice too
		l.Logger.Warn("the status file cannot be written", "error", err)
	}
	r.trouble = ""
	if err != nil {
		r.trouble = "the status file cannot be written: " + err.Error()
	}
}
