package identity

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"muster/agent/internal/transport"
	"muster/agent/sign"
	"muster/agent/wire"
)

// Enrolment is what the node tells the gateway and what the enrolment works with.
type Enrolment struct {
	Client     *transport.Client
	Directory  *Directory
	Credential Credential
	Pins       transport.Pins // the gateway must have one of these roots; nil: any root will do
	Known      *Gateway       // what this machine knows of the gateway: the new trust set must continue it; nil: nothing is known
	Node       *sign.Signer   // the key of the node that this machine is: it comes back as that node. nil: this machine is none here
	Name       string
	Own        string // what this machine would be called by itself, for State.NameFor
	Labels     map[string]string
	Provider   string
	InstanceID string
	Agent      wire.AgentInfo
	Report     func(error) // gets each failure after which the node waits and tries again; nil: nobody does
	Logger     *slog.Logger
}

// enrolling is one run of the handshake, which may take many attempts. One goroutine uses it.
type enrolling struct {
	Enrolment
	state  State
	key    *ecdsa.PrivateKey
	newKey bool // the key is a second one, because the gateway knew the first
	atOnce int  // refusals since the last wait
}

// Enrol asks until the gateway accepts the node or provably refuses it. state is what the directory holds. Run uses a pending key in it
// again. Run returns the identity after it is saved. The error is a *transport.Refusal, or the context's, or it says what is wrong
// with the welcome or with this machine.
func Enrol(ctx context.Context, state State, cfg Enrolment) (State, error) {
	e := &enrolling{Enrolment: cfg, state: state}
	e.Logger = cmp.Or(e.Logger, slog.New(slog.DiscardHandler))
	if err := e.prepareKey(); err != nil {
		return State{}, err
	}
	var backoff transport.Backoff
	for {
		e.Logger.Info("enrolling", "gateway", e.Client.Gateway(), "name", e.Name, "proof", e.Credential.ID)
		err := e.once(ctx)
		if err == nil {
			return e.state, nil
		}
		if ctx.Err() != nil {
			return State{}, ctx.Err()
		}
		if again, fatal := e.judge(err); fatal != nil {
			return State{}, fatal
		} else if again {
			continue
		}
		wait := pause(err, &backoff)
		e.Logger.Warn("not enrolled yet, trying again", "in", wait.Round(100*time.Millisecond).String(), "error", err)
		if e.Report != nil {
			e.Report(err)
		}
		e.atOnce = 0
		if !transport.Sleep(ctx, wait) {
			return State{}, ctx.Err()
		}
	}
}

// prepareKey takes the key of an earlier attempt, or makes one. A new key is on the disk before anything is asked with it.
func (e *enrolling) prepareKey() error {
	if e.state.Pending != "" {
		key, err := ParseKey(e.state.Pending)
		e.key = key
		return err
	}
	key, text, err := NewKey()
	if err != nil {
		return err
	}
	e.key = key
	e.state.Pending = text
	return e.Directory.Save(e.state)
}

// ErrOtherRoot is wrapped by errors about a proven welcome of a gateway that has none of the pinned roots.
var ErrOtherRoot = errors.New("this is another gateway, or the pin is an old one")

// ErrNotContinued is wrapped by errors about a proven welcome whose signed sets are not those of the gateway that was known.
var ErrNotContinued = errors.New("its signed sets do not continue those that this machine knows: this is another gateway")

// errUnusable is wrapped by errors about a proven welcome that does not hold together.
var errUnusable = errors.New("the gateway's welcome is not usable")

// judge decides what follows a failed attempt. again: the next attempt at once. fatal: no further attempt. Neither: the next
// attempt after a wait.
func (e *enrolling) judge(err error) (again bool, fatal error) {
	var refusal *transport.Refusal
	switch {
	case errors.Is(err, errUnusable), errors.Is(err, ErrBadCertificate), errors.Is(err, transport.ErrUntrusted):
		return false, err
	case !errors.As(err, &refusal):
		return false, nil
	}
	e.atOnce++
	switch refusal.Code {
	case wire.CodeClockSkew, wire.CodeReplayed, wire.CodeStaleNonce: // the next request has the gateway's time and epoch, and a new nonce
		return e.atOnce <= 3, nil
	case wire.CodeKeyInUse: // an identity has this key already, so it cannot be asked for again
		if e.newKey {
			return false, err
		}
		e.newKey = true
		e.state.Pending = ""
		return true, e.prepareKey()
	case wire.CodeTooManyRequests, wire.CodeSlowBody:
		return false, nil
	case wire.CodeNameInUse:
		if refusal.RetrySeconds > 0 { // the former node of this machine must be silent first
			return false, nil
		}
		return false, err
	case wire.CodeBadMAC, wire.CodeBodyTooLarge, wire.CodeBadSignature:
		return false, nil // whoever can change the request on its way can cause these: they prove nothing about this node
	}
	if refusal.Status >= 500 {
		return false, nil
	}
	return false, err
}

// pollPause is the longest wait where the gateway has said when it may grant the request. A person may allow the request earlier, and
// then the node need not wait for the rest of that time.
const pollPause = 15 * time.Second

// pause is the wait before the next attempt. If the gateway has said when it may grant the request, it is that time, and at most
// pollPause. Otherwise it is the back-off, and at least the gateway's Retry-After.
func pause(err error, backoff *transport.Backoff) time.Duration {
	var refusal *transport.Refusal
	if errors.As(err, &refusal) && refusal.RetrySeconds > 0 {
		return min(time.Duration(refusal.RetrySeconds)*time.Second, pollPause)
	}
	return backoff.After(err)
}

// once is one attempt. It checks the answer's proof before it reads anything of the answer.
func (e *enrolling) once(ctx context.Context) error {
	nonce := newNonce()
	body, err := e.body(nonce)
	if err != nil {
		return err
	}
	key := e.Credential.key
	answer, err := e.Client.Register(ctx, sign.Authorization(e.Credential.ID, key, body), e.Node, body)
	if err != nil {
		return err
	}
	if sign.VerifyWelcome(answer.Header.Get(wire.HeaderProof), key, nonce, answer.Status, answer.Body) != nil {
		return answer.Unproven() // it may come from anybody, so it never ends the enrolment
	}
	if answer.Status != 200 && answer.Status != 201 {
		return e.refused(answer)
	}
	var welcome wire.Welcome
	if err := json.Unmarshal(answer.Body, &welcome); err != nil {
		return fmt.Errorf("%w: not the JSON of a welcome", errUnusable)
	}
	return e.accept(ctx, welcome)
}

// refused reads a proven refusal, and takes over the gateway's epoch and time from it.
func (e *enrolling) refused(answer transport.Answer) error {
	refusal, said := answer.Refusal()
	e.Client.LearnEpoch(said.Epoch)
	if said.Time != nil {
		e.Client.LearnTime(*said.Time)
		if refusal.Code == wire.CodeClockSkew {
			e.Logger.Warn("this machine's clock is off; using the gateway's time", "offset", e.Client.Offset().Round(time.Second).String())
		}
	}
	return refusal
}

// body is the register request. Its bytes are what the MAC covers, so they are sent exactly so.
func (e *enrolling) body(nonce string) ([]byte, error) {
	csr, err := CSR(e.key)
	if err != nil {
		return nil, err
	}
	return json.Marshal(wire.RegisterRequest{
		Protocol: wire.ProtocolVersion, Name: e.Name, Nonce: nonce, Time: e.Client.Now().UTC(), CSR: csr, Labels: e.Labels,
		Provider: e.Provider, InstanceID: e.InstanceID, Agent: e.Agent,
	})
}

// newNonce is new for each attempt, so that no recorded answer of another attempt passes for this one's.
func newNonce() string {
	var random [16]byte
	rand.Read(random[:])
	return base64.StdEncoding.EncodeToString(random[:])
}
