package store

import (
	"context"
	"errors"
	"time"

	"muster/store/engine"
)

// Enrolment is all that one successful register request changes.
type Enrolment struct {
	ID               string
	Credential       string // public token id, or psk-<8 hex>
	ConsumeToken     bool   // the credential is a token, and the enrolment takes a use of it
	KeyHash          string // of the CSR's key
	Provider         string
	InstanceID       string
	BindInstance     bool // the token's uses belong to instances: a known instance takes its own use again
	Address          string
	At               time.Time
	Node             Node // ID, Name, Tenant, State, GPUsExpected; the rest comes from the other fields
	NewNode          bool
	TakeOver         *TakeOver // not nil if NewNode is false: what must still be true
	CredentialLabels map[string]string
	SameLabels       bool // the credential has none, and a node that is taken over keeps those of the one before
	AgentLabels      map[string]string
	Certificate      Certificate // Fingerprint, PublicKey, Chain and times; stored as current, generation 1, of this enrolment and key
	Agent            string      // JSON
	Hardware         string      // JSON; "": none
	Notices          []string
	Events           []Event
}

// TakeOver has the facts on which the decision to update an existing node rests. Enrol checks that they are still true.
type TakeOver struct {
	EnrolmentID    string     // the node's enrolment, as it was read
	LastSeenAtMost *time.Time // the node was not heard after this time; nil: not checked
	State          string     // the node's state, as it was read
	UseRecovery    bool       // an operator allowed a recovery, which this enrolment uses
	SignedBy       string     // fingerprint of a certificate of the node that is current or pending; "": not checked
	Without        string     // a reason that the node does not have; "": not checked
}

// Enrol takes the use, creates or updates the node, and records its certificate, in one atomic batch. ErrConflict if a condition is
// not true: the token is revoked, expired, used up, or of another tenant or node; the PSK is gone; the name or the key is taken; or
// what TakeOver says has changed.
func (s *Store) Enrol(ctx context.Context, e Enrolment) error {
	if e.NewNode == (e.TakeOver != nil) {
		return errors.New("an enrolment makes a new node or takes one over, exactly one of them")
	}
	statements := e.use()
	if e.NewNode {
		statements = append(statements, e.newNode()...)
	} else {
		statements = append(statements, e.takeOver()...)
	}
	c := e.Certificate
	c.NodeID = e.Node.ID
	c.EnrolmentID = e.ID
	c.KeyHash = e.KeyHash
	c.Status = CertificateCurrent
	c.Generation = 1
	return s.change(ctx, append(statements, certificates.Insert(c, "")), e.Events)
}

// use records the enrolment and what it takes from its credential.
func (e Enrolment) use() []statement {
	switch {
	case !e.ConsumeToken:
		return []statement{
			guard("EXISTS(SELECT 1 FROM psks WHERE id = ?)", e.Credential),
			e.insert("NULL"),
		}
	case e.BindInstance && e.Provider != "" && e.InstanceID != "":
		return append(e.inheritUse(), e.tokenHolds())
	default:
		return []statement{e.insert(nextUse, e.Credential), e.tokenHolds()}
	}
}

// nextUse is the number after the highest one. A unique index makes sure that no other enrolment gets it, and tokenHolds that the
// token allows so many.
const nextUse = "(SELECT COALESCE(max(number), 0) + 1 FROM enrolments WHERE credential = ? AND number IS NOT NULL)"

func (e Enrolment) insert(number string, args ...any) statement {
	return do(`INSERT INTO enrolments(id, credential, key_hash, node_id, at, provider, instance_id, address, number)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, `+number+`)`,
		append([]any{e.ID, e.Credential, e.KeyHash, e.Node.ID, millis(e.At), e.Provider, e.InstanceID, e.Address}, args...)...)
}

// inheritUse takes over the number of the enrolment that this instance made before. Three statements do that, because a statement
// cannot give a value to the next one. The first makes the number negative, where the unique index does not see it. The second
// copies it. The third removes it from the old row. The + keeps SQLite from searching by the number: it would read all uses of the
// token, and not those of the instance.
func (e Enrolment) inheritUse() []statement {
	return []statement{
		do(`UPDATE enrolments SET number = -number WHERE credential = ? AND provider = ? AND instance_id = ? AND instance_id <> ''
			AND +number > 0
			AND EXISTS(SELECT 1 FROM tokens WHERE id = ? AND bind_instance = 1)`, e.Credential, e.Provider, e.InstanceID, e.Credential),
		e.insert("COALESCE((SELECT -number FROM enrolments WHERE credential = ? AND number < 0), "+nextUse+")", e.Credential, e.Credential),
		do("UPDATE enrolments SET number = NULL WHERE credential = ? AND number < 0", e.Credential),
	}
}

// tokenHolds checks the token. It comes after the statement that takes the use, because it needs the number of the use.
func (e Enrolment) tokenHolds() statement {
	return guard(`EXISTS(SELECT 1 FROM tokens t JOIN enrolments e ON e.id = ? AND e.number BETWEEN 1 AND t.uses
		WHERE t.id = ? AND t.revoked_at IS NULL AND t.expires_at > ? AND t.tenant = ? AND t.node_id IN ('', ?))`,
		e.ID, e.Credential, millis(e.At), e.Node.Tenant, e.Node.ID)
}

// newNode inserts the node. A unique index refuses a name that is taken.
func (e Enrolment) newNode() []statement {
	n := e.Node
	n.CreatedAt = e.At
	n.StateSince = e.At
	n.EnrolledAt = &e.At
	n.EnrolmentID = e.ID
	n.Provider = e.Provider
	n.InstanceID = e.InstanceID
	n.Address = e.Address
	n.Agent = e.Agent
	n.Hardware = e.Hardware
	n.Notices = e.Notices
	return append(insertNode(n), enrolmentLabels(n.ID, e.CredentialLabels, e.AgentLabels)...)
}

// takeOver updates a node, if everything in TakeOver is still true. Another process reports next, so run id and counter are cleared
// and the earlier runs are forgotten. last_seen stays, because it is when the node was last heard.
func (e Enrolment) takeOver() []statement {
	statements := []statement{
		e.takeOverHolds(),
		revokeCertificates(e.Node.ID, e.At),
		// What MAAS installed stays its machine, whatever the agent says.
		do(`UPDATE nodes SET provider = CASE provider WHEN 'maas' THEN provider ELSE ? END,
			instance_id = CASE provider WHEN 'maas' THEN instance_id ELSE ? END, state_since = CASE WHEN state = ? THEN state_since ELSE ? END,
				state = ?,
			enrolled_at = ?, enrolment_id = ?, gpus_expected = ?, gpus_said = 0, recovery_until = NULL WHERE id = ?`,
			e.Provider, e.InstanceID, e.Node.State, millis(e.At), e.Node.State, millis(e.At), e.ID, int64(e.Node.GPUsExpected), e.Node.ID),
		do(`UPDATE liveness SET run_id = '', counter = 0, skew_ms = NULL, reported_at = NULL, address = ?, agent = ?, cost = '', notices = ?,
			hardware = CASE WHEN ? = '' THEN hardware ELSE ? END WHERE node_id = ?`,
			e.Address, e.Agent, engine.JSON(e.Notices), e.Hardware, e.Hardware, e.Node.ID),
		do("DELETE FROM reasons WHERE node_id = ? AND person = 0", e.Node.ID),
		forgetRuns(e.Node.ID),
		do("UPDATE evidence SET current = 0 WHERE node_id = ? AND current = 1", e.Node.ID), // it may be another machine
		endBootstraps(e.Node.ID, e.Credential, e.At),
	}
	statements = append(statements, endTasks(e.Node.ID, e.At, "its node enrolled again")...)
	return append(statements, e.replaceLabels()...)
}

// takeOverHolds aborts the batch if the node is no longer as TakeOver says.
func (e Enrolment) takeOverHolds() statement {
	var where engine.Where
	where.And("n.id = ? AND n.tenant = ? AND n.retired_at IS NULL", e.Node.ID, e.Node.Tenant)
	where.And("n.enrolment_id = ? AND n.state = ?", e.TakeOver.EnrolmentID, e.TakeOver.State)
	if e.TakeOver.LastSeenAtMost != nil {
		where.And("COALESCE(v.last_seen, 0) <= ?", millis(*e.TakeOver.LastSeenAtMost))
	}
	if e.TakeOver.UseRecovery {
		where.And("n.recovery_until > ?", millis(e.At))
	}
	where.Given("EXISTS(SELECT 1 FROM certificates WHERE fingerprint = ? AND node_id = n.id AND (status = 'current' OR status = 'pending'))",
		e.TakeOver.SignedBy)
	where.Given("NOT EXISTS(SELECT 1 FROM reasons WHERE node_id = n.id AND reason = ?)", e.TakeOver.Without)
	return guard("EXISTS(SELECT 1 FROM nodes n JOIN liveness v ON v.node_id = n.id"+where.SQL()+")", where.Args...)
}
