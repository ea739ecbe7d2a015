package heartbeat

import (
	"crypto/x509"
	"time"

	"muster/agent/internal/identity"
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

func (r *report) identity(state identity.State, leaf *x509.Certificate) {
	r.status.NodeID, r.status.Name, r.status.Tenant = state.NodeID, state.Name, state.Tenant
	r.status.Generation, r.status.NotAfter = state.Current.Generation, &leaf.NotAfter
}

// contact notes a proven answer, be it a refusal.
func (r *report) contact() {
	now := time.Now().UTC().Truncate(time.Second)
	r.status.LastContact = &now
}

// online notes an accepted heartbeat; state is the node's.
func (r *report) online(state string) {
	r.contact()
	r.status.Phase, r.status.State, r.status.LastError = identity.PhaseOnline, state, ""
}

// saveStatus writes what changed, and otherwise only now and then.
func (l *loop) saveStatus(force bool) {
	r := &l.report
	if l.GPUs != nil {
		if seen := l.GPUs(); seen != r.status.GPUs {
			r.status.GPUs, force = seen, true
		}
	}
	if !force && r.phase == r.status.Phase && r.said == r.status.LastError && time.Since(r.written) < statusPause {
		return
	}
	r.status.Gateway, r.status.Transport = l.Client.Gateway(), l.Client.Mode()
	r.status.SkewMillis, r.status.Notices = l.Client.Offset().Milliseconds(), l.notices()
	r.written, r.phase, r.said = time.Now(), r.status.Phase, r.status.LastError
	err := l.Directory.SaveStatus(r.status)
	if err != nil && r.trouble == "" {
		l.Logger.Warn("the status file cannot be written", "error", err)
	}
	if r.trouble = ""; err != nil {
		r.trouble = "the status file cannot be written: " + err.Error()
	}
}
