package task

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/store"
)

// usualLife is the time from making a task to when the node must have started it.
const usualLife = time.Hour

// Request asks for a task: either Node, Type and Params, and the gateway signs; or Signed, with the key of an operator.
type Request struct {
	ID      string // chosen by the caller, so that the same request again makes no second task; "": the Service chooses
	Node    string // name or id
	Type    string
	Params  json.RawMessage
	Expires time.Duration // until the node must have started it; 0: an hour
	Signed  *wire.SignedTask

	// May refuses a type that the caller may not ask for. It is called as soon as the type is known, and for each type that the task
	// includes once its params are. Nil: any type.
	May func(taskType string) error
}

// order is a Request that was read.
type order struct {
	Request
	payload wire.TaskPayload // without a signature: of a gateway's task, before it is bound to its node
	keyID   string           // of the operator's key that verified
	kind    wire.TaskType
	params  wire.TaskParams
	by      store.Actor
}

// Create queues a task for a node of a tenant ("": of any). The same request again returns the task on record; created is false then.
func (d *Service) Create(ctx context.Context, tenant string, q Request, by store.Actor) (t store.Task, created bool, err error) {
	o, err := d.read(q, by)
	if err != nil {
		return t, false, err
	}
	if earlier, err := d.Store.Task(ctx, "", o.payload.TaskID); err == nil {
		return o.same(tenant, earlier)
	}
	node, err := d.node(ctx, tenant, o)
	if err != nil {
		return t, false, err
	}
	if err := d.named(ctx, node.Tenant, o.params); err != nil {
		return t, false, err
	}
	if d.may != nil {
		if err := d.may(node.ID, o.params, by); err != nil {
			return t, false, err
		}
	}
	if err := d.pin(ctx, tenant, node, &o); err != nil {
		return t, false, err
	}
	if t, err = d.signed(o, node); err != nil {
		return t, false, err
	}
	err = d.Store.CreateTask(ctx, t, d.created(t, node, by))
	if errors.Is(err, store.ErrConflict) {
		return d.lostRace(store.Fresh(ctx), tenant, o, node)
	}
	if err != nil {
		return t, false, err
	}
	if err := d.recount(ctx, t.NodeID); err != nil {
		return t, true, err
	}
	t, err = d.Task(ctx, "", t.ID)
	return t, true, err
}

// read checks all of a request that can be checked without its node.
func (d *Service) read(q Request, by store.Actor) (order, error) {
	o := order{Request: q, by: by}
	var err error
	if q.Signed != nil {
		err = d.open(&o)
	} else {
		err = d.draft(&o)
	}
	if err != nil {
		return o, err
	}
	if o.kind, err = wire.FindTaskType(o.payload.Type); err != nil {
		return o, err
	}
	if q.May != nil {
		if err := q.May(o.kind.Name); err != nil {
			return o, err
		}
	}
	launch, _, err := unpinned(o)
	if err == nil && launch != nil {
		o.params = launch
		err = launch.CheckTagged()
	}
	if err != nil || launch != nil {
		return o, err
	}
	if o.params, err = readParams(o.kind, o.payload.Params); err != nil || q.May == nil {
		return o, err
	}
	for _, name := range wire.TaskIncludes(o.params) {
		if err := q.May(name); err != nil {
			return o, err
		}
	}
	return o, nil
}

// draft is the payload of a task that the gateway signs.
func (d *Service) draft(o *order) error {
	now := d.Now().UTC().Truncate(time.Millisecond)
	if o.Expires == 0 {
		o.Expires = usualLife
	}
	if o.Expires < time.Second || o.Expires > wire.MaxTaskLife {
		return wire.Refuse(wire.CodeBadRequest, "a task cannot wait for its node so long", "from 1 second to a week")
	}
	if o.ID == "" {
		o.ID = wire.NewTaskID()
	}
	var params bytes.Buffer
	if len(o.Params) == 0 {
		o.Params = json.RawMessage("{}")
	}
	if json.Compact(&params, o.Params) != nil {
		return wire.Refuse(wire.CodeTaskParamsInvalid, "the params are not JSON", "give an object")
	}
	o.payload = wire.TaskPayload{TaskID: o.ID, Type: o.Type, Params: params.Bytes(), IssuedAt: now, ExpiresAt: now.Add(o.Expires),
		Nonce: rand.Text()}
	return wire.CheckTaskID(o.ID)
}

// open verifies a task that an operator signed, and only then reads it.
func (d *Service) open(o *order) error {
	var key ed25519.PublicKey
	var err error
	o.payload, key, err = sign.OpenTask(*o.Signed, d.Keys())
	if errors.Is(err, sign.ErrBadProof) {
		return wire.Refuse(wire.CodeBadRequest, "no task key that the nodes believe has signed this task",
			"muster key add --task FILE.pub makes them believe a key of yours")
	}
	if err != nil {
		return wire.Refuse(wire.CodeBadRequest, "the signed task cannot be read: "+err.Error(), "sign it with muster task run --key FILE")
	}
	o.keyID = sign.KeyID(key)
	p := o.payload
	now := d.Now()
	switch {
	case o.ID != "" && o.ID != p.TaskID, o.Node != "" || o.Type != "" || len(o.Params) > 0 || o.Expires != 0:
		return wire.Refuse(wire.CodeBadRequest, "a signed task says everything itself", "leave node, type, params and expires_seconds out")
	case p.Nonce == "" || p.IssuedAt.After(now.Add(wire.MaxTaskAhead)) || p.ExpiresAt.Sub(p.IssuedAt) > wire.MaxTaskLife:
		return wire.Refuse(wire.CodeBadRequest, "the signed task has no nonce, or times that are not possible",
			"set the clock of the machine that signs; a task lives a week at most")
	case !p.ExpiresAt.After(now):
		return wire.Refuse(wire.CodeTaskExpired, "the signed task has expired", "sign a new one")
	}
	return wire.CheckTaskID(p.TaskID)
}

// readParams reads the params of a type strictly, and refuses values that no node should be asked for.
func readParams(kind wire.TaskType, raw json.RawMessage) (wire.TaskParams, error) {
	params := kind.New()
	if err := sign.DecodeStrict(raw, params); err != nil {
		return nil, wire.Refuse(wire.CodeTaskParamsInvalid, fmt.Sprintf("these are not the params of %s: %v", kind.Name, err),
			"muster task types shows the params of each type")
	}
	return params, params.Check()
}

// node finds the node of a task, which must be in an enrolment.
func (d *Service) node(ctx context.Context, tenant string, o order) (store.Node, error) {
	name := o.Node
	if o.Signed != nil {
		name = o.payload.NodeID
	}
	node, err := d.Store.Node(ctx, tenant, name)
	switch {
	case errors.Is(err, store.ErrNotFound), err == nil && o.Signed != nil && node.ID != name:
		return node, wire.Refuse(wire.CodeNotFound, fmt.Sprintf("there is no node %.80q", name), "muster node ls")
	case err != nil:
		return node, err
	case node.RetiredAt != nil:
		return node, wire.Refuse(wire.CodeIllegalMove, "node "+node.Name+" is retired: it takes no tasks",
			"to bring it back, enrol it with a new token")
	case node.EnrolmentID == "":
		return node, wire.Refuse(wire.CodeIllegalMove, "node "+node.Name+" has not enrolled yet", "wait for it: muster node wait "+node.Name)
	case o.Signed != nil && node.EnrolmentID != o.payload.Enrolment:
		return node, wire.Refuse(wire.CodeIllegalMove, "the task was signed for another enrolment of node "+node.Name,
			"look whose machine it is now, then sign again")
	}
	return node, nil
}

// named refuses params that name a secret which the tenant does not have.
func (d *Service) named(ctx context.Context, tenant string, params wire.TaskParams) error {
	for _, name := range wire.TaskSecretNames(params) {
		if _, err := d.Store.LentSecretValue(ctx, tenant, name); errors.Is(err, store.ErrNotFound) {
			return noSecret(tenant, name)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// UseBy lets may refuse a task that would use or clean GPUs which belong to somebody else. It must not wait. It is called before the first
// task is made.
func (d *Service) UseBy(may func(nodeID string, p wire.TaskParams, by store.Actor) error) {
	d.may = may
}

// signed makes the task: with the operator's signature, or bound to its node and signed by the gateway.
func (d *Service) signed(o order, node store.Node) (store.Task, error) {
	t := store.Task{ID: o.payload.TaskID, NodeID: node.ID, EnrolmentID: node.EnrolmentID, Type: o.kind.Name,
		Subject: store.TaskSubject(o.params.Subject()),
		Drained: o.kind.Drained, CreatedBy: o.by.Name, CreatedAt: d.Now(), ExpiresAt: o.payload.ExpiresAt}
	if o.Signed != nil {
		t.Payload = o.Signed.Payload
		t.Signature = o.Signed.Signature
		t.SigningKeyID = o.keyID
		return t, nil
	}
	if o.kind.Repeat {
		t.Repeats = repeats
	}
	o.payload.NodeID = node.ID
	o.payload.Enrolment = node.EnrolmentID
	return t, d.seal(&t, o.payload)
}

// seal signs a payload with the gateway's key.
func (d *Service) seal(t *store.Task, payload wire.TaskPayload) error {
	raw, err := json.Marshal(payload)
	if err != nil {
		return err
	}
	if len(raw) > wire.MaxTaskPayload {
		return wire.Refuse(wire.CodeTaskParamsInvalid, fmt.Sprintf("the task is larger than %d bytes", wire.MaxTaskPayload),
			"put large things into an image, or where the task can fetch them")
	}
	signed, err := d.Sign(raw)
	if err != nil {
		return err
	}
	t.Payload = signed.Payload
	t.Signature = signed.Signature
	t.SigningKeyID = signed.SigningKeyID
	return nil
}

func (d *Service) created(t store.Task, node store.Node, by store.Actor) store.Event {
	detail := map[string]string{"task": t.ID, "type": t.Type, "key": t.SigningKeyID}
	if t.RetryOf != "" {
		detail["retry_of"] = t.RetryOf
	}
	return store.Event{At: t.CreatedAt, Kind: "task.created", Actor: by.Name, NodeID: node.ID, NodeName: node.Name, Tenant: node.Tenant,
		Address: by.Address, Outcome: store.OutcomeOK, Security: true, Detail: detail}
}

// lostRace tells the reasons for a write that was refused apart: the same id came first, the node changed, or it has too many tasks.
func (d *Service) lostRace(ctx context.Context, tenant string, o order, node store.Node) (store.Task, bool, error) {
	earlier, err := d.Store.Task(ctx, "", o.payload.TaskID)
	if errors.Is(err, store.ErrNotFound) {
		now, err := d.node(ctx, tenant, o)
		if err == nil && now.EnrolmentID == node.EnrolmentID {
			err = wire.Refuse(wire.CodeIllegalMove, fmt.Sprintf("node %s has %d tasks that have not ended", node.Name, store.MostOpenTasks),
				"cancel some: muster task ls --open --node "+node.Name)
		}
		if err != nil {
			return earlier, false, err
		}
		return earlier, false, wire.Refuse(wire.CodeIllegalMove, "the node has enrolled again or was retired just now", "look: muster node ls")
	}
	if err != nil {
		return earlier, false, err
	}
	return o.same(tenant, earlier)
}

// same gives the task on record to whoever asks for it again, and refuses another one with its id.
func (o order) same(tenant string, earlier store.Task) (store.Task, bool, error) {
	equal := o.Signed != nil && bytes.Equal(o.Signed.Payload, earlier.Payload) ||
		o.Signed == nil && (o.Node == earlier.NodeID || o.Node == earlier.NodeName) && o.kind.Name == earlier.Type &&
			(bytes.Equal(o.payload.Params, Params(earlier)) || o.sameLaunch(earlier))
	if !equal || tenant != "" && tenant != earlier.Tenant {
		return store.Task{}, false, wire.Refuse(wire.CodeAlreadyThere, "another task has the id "+o.payload.TaskID, "choose another id, or none")
	}
	return earlier, false, nil
}

// Params returns the params of a task, as they were signed.
func Params(t store.Task) json.RawMessage {
	var payload wire.TaskPayload
	if json.Unmarshal(t.Payload, &payload) != nil {
		return json.RawMessage("null") // nobody signs such a payload
	}
	return payload.Params
}
