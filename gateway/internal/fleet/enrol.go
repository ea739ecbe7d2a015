package fleet

import (
	"context"
	"errors"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/fleet/report"
	"muster/gateway/internal/label"
	"muster/store"
)

// enrolTries bounds how often an enrolment is decided again because what it rests on changed meanwhile.
const enrolTries = 4

// Applicant is a register request whose proof was checked: who asks, with which credential, for which key.
type Applicant struct {
	Credential store.Token // a PSK has no Uses
	IsPSK      bool
	Request    *wire.RegisterRequest
	Hardware   *wire.Hardware // nil: the request has no reading
	Notices    []string       // these name what was left out of the request
	KeyHash    string         // hex SHA-256 of the CSR key's SPKI
	Identity   *Identity      // an identity that signed the request too; nil: none
	Address    string
	Issue      func(ctx context.Context, nodeID string) (store.Certificate, error) // may be called once for each try
}

// Admission is the answer to an applicant.
type Admission struct {
	Node        store.Node
	Certificate store.Certificate
	New         bool // the node was not known before
}

// Enrol gives an applicant an identity. The same credential with the same key gets the recorded identity again, while that identity is
// current. Otherwise the use of the credential, the node and its certificate are written in one transaction. Refusals carry the codes of
// section 3.1 of the design: token_used, token_expired, token_revoked, name_in_use, key_in_use, banned. Each refusal is an event with the
// address that asked, unless Config.CountAgain counts it.
func (f *Fleet) Enrol(ctx context.Context, a Applicant) (Admission, error) {
	f.watch(ctx)
	a.named()
	for try := range enrolTries {
		once := f.enrolOnce
		if try == 0 && f.likelyNew(a) {
			once = f.enrolNew
		}
		done, err := once(ctx, a)
		if errors.Is(err, store.ErrConflict) { // something changed meanwhile: decide again, so that a refusal has the right code
			ctx = store.Fresh(ctx)
			if a.Identity, err = f.stillGood(ctx, a.Identity); err != nil {
				return Admission{}, err
			}
			continue
		}
		if refused, is := errors.AsType[*wire.ErrorDetail](err); is {
			f.refused(ctx, a, refused.Code)
		}
		return done, err
	}
	// Each try read everything that another enrolment may have changed. One thing cannot be read beforehand: whether the key
	// was certified under another credential. So that is the conflict.
	f.refused(ctx, a, wire.CodeKeyInUse)
	return Admission{}, wire.Refuse(wire.CodeKeyInUse, "this key was certified before, under another credential",
		"make a new key; the agent does so by itself")
}

// named gives the applicant the name that stands in its token, whatever name the machine asks for.
func (a *Applicant) named() {
	if a.Credential.Name != "" && a.Credential.NodeID == "" {
		a.Request = new(*a.Request)
		a.Request.Name = a.Credential.Name
	}
}

// likelyNew is true if the applicant seems to be a new node, judged by the credential as it was read for the proof. Most
// applicants are new nodes.
func (f *Fleet) likelyNew(a Applicant) bool {
	t := a.Credential
	live := a.IsPSK || t.RevokedAt == nil && f.now().Before(t.ExpiresAt) && t.Used < t.Uses
	return live && !t.BindInstance && t.NodeID == "" && a.Identity == nil && !likeID(a.Request.Name)
}

// enrolNew writes without reading first. The transaction checks every condition of a new node: a live credential with a use
// left, a free name, a key that was never certified. If it refuses, enrolOnce decides again and finds the right code. This
// saves a third of the time of an enrolment, the database included (BenchmarkRegister of package nodeapi).
func (f *Fleet) enrolNew(ctx context.Context, a Applicant) (Admission, error) {
	return f.write(ctx, a, f.newNode(a))
}

// enrolOnce returns the recorded answer, or decides if there is none. It looks for the record again before it refuses: an
// equal request may have taken the use and the name meanwhile, and both must get the same answer.
func (f *Fleet) enrolOnce(ctx context.Context, a Applicant) (Admission, error) {
	done, known, err := f.recorded(ctx, a)
	if err != nil || known {
		return done, err
	}
	done, err = f.admit(ctx, a)
	if !errors.As(err, new(*wire.ErrorDetail)) {
		return done, err
	}
	if done, known, lookup := f.recorded(ctx, a); lookup != nil || known {
		return done, lookup
	}
	return Admission{}, err
}

// recorded returns the answer that this credential and key got before, if there is one.
func (f *Fleet) recorded(ctx context.Context, a Applicant) (done Admission, known bool, err error) {
	recorded, err := f.store.Recorded(ctx, a.Credential.ID, a.KeyHash)
	if errors.Is(err, store.ErrNotFound) {
		return Admission{}, false, nil
	}
	if err != nil {
		return Admission{}, false, err
	}
	done, err = again(recorded)
	return done, true, err
}

// admit checks the credential, then the key, then the name. The first one that fails gives the refusal its code.
func (f *Fleet) admit(ctx context.Context, a Applicant) (Admission, error) {
	bound, err := f.usable(ctx, a)
	if err != nil {
		return Admission{}, err
	}
	banned, err := f.store.BannedKey(ctx, a.KeyHash)
	if err == nil && banned {
		err = wire.Refuse(wire.CodeBanned, "this machine's key is banned", "ask the operator; nothing can be done from here")
	}
	if err != nil {
		return Admission{}, err
	}
	place, err := f.place(ctx, a, bound)
	if err != nil {
		return Admission{}, err
	}
	return f.write(ctx, a, place)
}

// again returns the recorded answer, if the node still uses the certificate in it.
func again(recorded store.Recorded) (Admission, error) {
	node := recorded.Node
	if node.Banned {
		return Admission{}, wire.Refuse(wire.CodeBanned, "this node is banned", "ask the operator; nothing can be done from here")
	}
	if State(node.State) != Retired && recorded.Certificate.Status == store.CertificateCurrent && node.EnrolmentID == recorded.ID {
		return Admission{Node: node, Certificate: recorded.Certificate}, nil
	}
	return Admission{}, wire.Refuse(wire.CodeKeyInUse, "this key enrolled before, and that identity is no longer the node's first one",
		"make a new key; the agent does so by itself")
}

// usable checks the credential's own conditions, so that a refusal can name the one that fails. The transaction checks them
// again. If this instance has taken a use of an instance-bound token before, usable returns that enrolment.
func (f *Fleet) usable(ctx context.Context, a Applicant) (*store.Recorded, error) {
	t := a.Credential
	if a.IsPSK {
		_, err := f.store.PSK(ctx, t.ID)
		if errors.Is(err, store.ErrNotFound) {
			err = wire.Refuse(wire.CodeUnknownCredential, "this PSK was cleared", "ask the operator for the new one")
		}
		return nil, err
	}
	var bound *store.Recorded
	if t.BindInstance {
		if a.Request.Provider == "" || a.Request.InstanceID == "" {
			return nil, wire.Refuse(wire.CodeBadRequest, "this token's uses belong to instances, and the request names none",
				"give --provider and --instance-id")
		}
		use, err := f.store.InstanceUse(ctx, t.ID, a.Request.Provider, a.Request.InstanceID)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return nil, err
		}
		if err == nil {
			bound = &use
		}
	}
	fresh, err := f.store.Token(ctx, t.ID)
	switch {
	case err != nil:
		return nil, err
	case fresh.RevokedAt != nil:
		return nil, wire.Refuse(wire.CodeTokenRevoked, "this token was revoked", anew(t))
	case !f.now().Before(fresh.ExpiresAt):
		return nil, wire.Refuse(wire.CodeTokenExpired, "this token expired at "+fresh.ExpiresAt.UTC().Format(time.RFC3339),
			anew(t))
	case fresh.Used >= fresh.Uses && bound == nil:
		return nil, wire.Refuse(wire.CodeTokenUsed, "every use of this token is taken",
			anew(t)+"; the events show who used it")
	}
	return bound, nil
}

// anew is the hint that says how an operator makes another token of the same kind.
func anew(t store.Token) string {
	if t.NodeID != "" {
		return "ask the operator for a new one: muster bootstrap NODE"
	}
	return "ask the operator for a new one: muster token create"
}

// write issues the certificate and writes the enrolment. Issuing can take seconds, so the conditions of the decision are
// checked once more in the transaction.
func (f *Fleet) write(ctx context.Context, a Applicant, p place) (Admission, error) {
	issued, err := a.Issue(ctx, p.node.ID)
	if err != nil {
		return Admission{}, err
	}
	proposed, _ := label.Understood(a.Request.Labels)
	e := store.Enrolment{
		ID: p.node.EnrolmentID, Credential: a.Credential.ID, ConsumeToken: !a.IsPSK, KeyHash: a.KeyHash,
		Provider: a.Request.Provider, InstanceID: a.Request.InstanceID, BindInstance: a.Credential.BindInstance,
		Address: a.Address, At: f.now(), Node: p.node, NewNode: p.takeOver == nil, TakeOver: p.takeOver,
		CredentialLabels: a.Credential.Labels, AgentLabels: proposed,
		SameLabels:  len(a.Credential.Labels) == 0 && a.Credential.Name == p.node.Name,
		Certificate: Certificate(p.node, issued, 1), Agent: report.Text(&a.Request.Agent), Hardware: report.Text(a.Hardware),
		Notices: a.Notices,
	}
	e.Certificate.IssuedAt = e.At
	if p.takeOver != nil && p.takeOver.LastSeenAtMost != nil && f.heardSince(p.node.ID, *p.takeOver.LastSeenAtMost) {
		return Admission{}, errHeard
	}
	e.Events = []store.Event{f.audited("node.enrolled", aboutNode(p.node), actor(a), p.detail(a))}
	err = f.store.Enrol(ctx, e)
	if err == nil || p.takeOver != nil { // nobody knows the id of a new node
		f.Forget(p.node.ID)
	}
	if err != nil {
		return Admission{}, err
	}
	if p.takeOver != nil {
		f.forgetBeat(p.node.ID)
	}
	return Admission{Node: p.node, Certificate: e.Certificate, New: p.takeOver == nil}, nil
}

// Certificate completes the row of a certificate that was issued to a node in its present enrolment. The caller sets IssuedAt
// when it records the row.
func Certificate(node store.Node, issued store.Certificate, generation int) store.Certificate {
	issued.NodeID = node.ID
	issued.EnrolmentID = node.EnrolmentID
	issued.Generation = generation
	return issued
}

// refused records a refused enrolment.
func (f *Fleet) refused(ctx context.Context, a Applicant, code string) {
	ctx = context.WithoutCancel(ctx) // an applicant that hangs up early is recorded too
	e := f.audited("enrol.refused", about{id: a.Credential.NodeID, tenant: a.Credential.Tenant}, actor(a),
		map[string]string{"credential": a.Credential.ID, "name": a.Request.Name})
	if e.NodeID != "" { // the event is about the node of the token, whichever machine uses it
		if node, err := f.store.Node(ctx, "", e.NodeID); err == nil {
			e.NodeName = node.Name
		}
	}
	e.Outcome = code
	if f.again != nil && f.again(ctx, e) {
		return
	}
	if err := f.store.AddEvents(ctx, e); err != nil {
		f.log.Error("an event was not recorded", "kind", e.Kind, "error", err)
	}
}

func actor(a Applicant) store.Actor {
	kind := "token:"
	if a.IsPSK {
		kind = "psk:"
	}
	return store.Actor{Name: kind + a.Credential.ID, Address: a.Address}
}
