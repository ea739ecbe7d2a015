package heartbeat

import (
	"cmp"
	"errors"
	mathrand "math/rand/v2"
	"slices"
	"time"

	"muster/agent/internal/identity"
	"muster/agent/internal/transport"
	"muster/agent/wire"
)

// refusedPause is the shortest pause between beats of a node that is refused for good. At random it is up to twice as long.
const refusedPause = 5 * time.Minute

// accepted notes that the gateway took a heartbeat. It ends every state of the phase: refused, swapped, adopted.
func (l *Loop) accepted(answer wire.HeartbeatAnswer) {
	if l.report.status.Phase != identity.PhaseOnline {
		l.Logger.Info("online", "gateway", cmp.Or(l.Client.Through(), l.Client.Gateway()), "node", l.State.NodeID, "transport", l.Client.Mode())
	}
	if answer.GPUsExpected != nil && l.Expect != nil {
		l.Expect(*answer.GPUsExpected)
	}
	l.backoff.Reset()
	l.phase = phase{answered: true}
	l.tellState(answer)
	changed := !slices.Equal(l.report.status.Reasons, answer.StateReasons)
	l.report.online(answer)
	changed = l.kept(answer) || changed
	l.saveStatus(changed)
}

// kept saves what an accepted heartbeat says of this node's name and of the gateways, and reports whether any of it is new. What cannot
// be saved comes with the next save of the state, or after the next start.
func (l *Loop) kept(answer wire.HeartbeatAnswer) bool {
	renamed := l.named(answer.Name)
	moved := l.led(wire.Gateways(answer.Gateways))
	if !renamed && !moved {
		return false
	}
	if err := l.Directory.Save(l.State); err != nil {
		l.Logger.Warn("the node's new name, or the list of gateways, could not be saved", "error", err)
	}
	return true
}

// named takes over the name that the gateway gives this node now, and reports whether it is another one.
func (l *Loop) named(name string) bool {
	before := l.State.Name
	if name == before || wire.CheckName(name) != nil {
		return false
	}
	l.State.Name = name
	l.report.status.Name = name
	l.Logger.Info("an operator has renamed this node", "from", before, "to", name)
	return true
}

// led takes over the URLs of all gateways, and which of them has answered. It reports whether any of that is new. The one that has answered
// stays in the list: the URL that the node has joined with may lead nowhere any more.
func (l *Loop) led(gateways []string) bool {
	known := &l.State.Gateway
	last := l.Client.Through()
	if last != "" && !slices.Contains(gateways, last) {
		gateways = append(gateways, last)
	}
	if slices.Equal(known.Gateways, gateways) && known.Last == last {
		return false
	}
	known.Gateways = gateways
	known.Last = last
	l.Client.Follow(gateways)
	return true
}

// failed sorts an unsuccessful beat, or renewal of an expired certificate, and sets the time of the next one.
func (l *Loop) failed(err error) {
	l.report.status.LastError = err.Error()
	var refusal *transport.Refusal
	if !errors.As(err, &refusal) {
		l.retry(err, 0)
		return
	}
	l.report.contact()
	l.phase.answered = true
	switch refusal.Code {
	case wire.CodeUnknownCertificate, wire.CodeSupersededRetry, wire.CodeRevoked:
		if l.swap(refusal.Code) {
			return
		}
	case wire.CodeExpired:
		if l.hurry() {
			return
		}
	}
	if forGood(refusal.Code) {
		l.refused(refusal)
		return
	}
	l.retry(err, time.Duration(refusal.RetryAfter)*time.Second)
}

// hurry asks for the renewal at once where the gateway says that the certificate has expired. If the gateway says the same of
// the renewal, or of the next certificate, asking at once does not help.
func (l *Loop) hurry() bool {
	if l.phase.expired || l.phase.hurried {
		l.phase.expired = true
		return false
	}
	l.phase.expired = true
	l.phase.hurried = true
	l.nextBeat = time.Now()
	l.Logger.Warn("the certificate has expired: asking for its renewal")
	return true
}

// forGood lists the refusals that do not go away by themselves: a person has to act. certificate_expired is one of them as the
// answer to a renewal.
func forGood(code string) bool {
	switch code {
	case wire.CodeRetired, wire.CodeRevoked, wire.CodeBanned, wire.CodeSuperseded, wire.CodeUnknownCertificate, wire.CodeExpired,
		wire.CodeIdentityConflict:
		return true
	}
	return false
}

// retry plans the next beat by the back-off, and no earlier than the gateway asks.
func (l *Loop) retry(err error, least time.Duration) {
	wait := l.again(least)
	l.nextBeat = time.Now().Add(wait)
	l.Logger.Warn("heartbeat not accepted, trying again", "in", wait.Round(100*time.Millisecond).String(), "error", err)
	l.report.status.Phase = identity.PhaseRetrying
	l.saveStatus(false)
}

// refused goes on slowly, for an operator may change their mind. It is logged once.
func (l *Loop) refused(refusal *transport.Refusal) {
	l.nextBeat = time.Now().Add(refusedPause + mathrand.N(refusedPause))
	if !l.phase.refused {
		l.Logger.Error("the gateway refuses this node until a person acts; asking again every few minutes, nothing is deleted",
			"code", refusal.Code, "message", refusal.ErrorDetail.Error())
	}
	l.phase = phase{refused: true, answered: true, expired: l.phase.expired}
	l.report.status.Phase = identity.PhaseRefused
	l.saveStatus(false)
}

// swap changes to the other pair of key and certificate. It goes back where the gateway provably does not know the current pair,
// because it was restored from a backup. It goes forward where the gateway asks for the newer pair, and where it has revoked the
// older one: it took the newer one over, and its answer to that was lost. It goes back only once until the gateway has answered
// something else, and it goes forward each time.
func (l *Loop) swap(code string) bool {
	other := l.State.Previous
	if other == nil {
		return false
	}
	newer := other.Generation > l.State.Current.Generation
	forward := code == wire.CodeSupersededRetry || code == wire.CodeRevoked
	if forward && !newer || !forward && l.phase.swapped {
		return false
	}
	next := l.State
	next.Current = other
	next.Previous = l.State.Current
	_, err := next.Transport() // a damaged pair must not become the current one: the next start would refuse the file
	if err == nil {
		err = l.Directory.Save(next)
	}
	if err != nil {
		l.Logger.Error("cannot change to the other certificate", "error", err)
		return false
	}
	if err := l.use(next); err != nil { // not to be expected: the pair was read just now
		return false
	}
	l.phase.swapped = true
	l.nextBeat = time.Now()
	l.Logger.Warn("using the other certificate of this node", "code", code, "generation", next.Current.Generation)
	return true
}
