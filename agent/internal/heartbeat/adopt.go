package heartbeat

import (
	"context"
	"errors"
	"time"

	"muster/agent/internal/transport"
	"muster/agent/wire"
)

// adopted shows this node's certificate to a gateway that provably does not know it. A gateway that was restored from a backup
// takes over, once, a certificate that it issued after that backup. It reports whether the gateway did.
func (l *Loop) adopted(ctx context.Context, err error) bool {
	var refusal *transport.Refusal
	if !errors.As(err, &refusal) || refusal.Code != wire.CodeUnknownCertificate || l.phase.adopted {
		return false
	}
	var answer wire.AdoptAnswer
	current := l.State.Current
	request := wire.AdoptRequest{Certificate: current.Certificate, Generation: current.Generation}
	if err := l.Client.Call(ctx, wire.AdoptPath(l.State.NodeID), request, &answer); err != nil {
		l.Logger.Debug("the gateway does not adopt this node's certificate", "error", err)
		return false
	}
	// The restored gateway may have counted this node's certificates higher. The node counts on from its number.
	if answer.Generation > current.Generation {
		counted := *current
		next := l.State
		counted.Generation = answer.Generation
		next.Current = &counted
		if err := l.Directory.Save(next); err != nil {
			l.Logger.Warn("the certificate's new number could not be saved", "error", err) // the certificate is good all the same
		} else {
			l.State = next
		}
	}
	l.phase.adopted = true
	l.phase.refused = false
	l.nextBeat = time.Now()
	l.renewal.retry = time.Time{}
	l.Logger.Warn("the gateway was restored from a backup and has taken this node's certificate over", "generation", answer.Generation)
	return true
}
