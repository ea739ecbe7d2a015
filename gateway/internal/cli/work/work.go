// Package work gives nodes their tasks and sessions. The gateway signs these, or the key of an operator that the gateway does not have.
package work

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/cli"
)

// ReadKey reads an operator's private Ed25519 key in PKCS#8, as muster key generate and openssl genpkey write it.
func ReadKey(s *cli.Session, file string) (ed25519.PrivateKey, error) {
	raw, err := s.ReadSecret(file)
	if err != nil {
		return nil, fmt.Errorf("read the key: %w", err)
	}
	const hint = "muster key generate FILE makes one; so does openssl genpkey -algorithm ed25519"
	block, _ := pem.Decode(raw)
	if block == nil {
		return nil, cli.Hinted(file+" holds no key in PEM", hint)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	key, ok := parsed.(ed25519.PrivateKey)
	if err != nil || !ok {
		return nil, cli.Hinted(file+" holds no private Ed25519 key", hint)
	}
	return key, nil
}

// Key returns the key that --key names; nil: the gateway signs.
func Key(s *cli.Session) (ed25519.PrivateKey, error) {
	file := s.Flags.Text("key")
	if file == "" {
		return nil, nil
	}
	return ReadKey(s, file)
}

// seal signs a task or the opening of a session here. The node's id and enrolment come from the gateway; the node compares them with its
// own. The document says what p says of its id, type and params, and is good for so long.
func seal(ctx context.Context, s *cli.Session, key ed25519.PrivateKey, node string, p wire.TaskPayload,
	lasts time.Duration) (*wire.SignedTask, error) {
	n, err := cli.Get[api.Node](ctx, s, api.At(api.PathNode, node), nil)
	if err != nil {
		return nil, err
	}
	p.NodeID = n.ID
	p.Enrolment = n.Enrolment
	p.IssuedAt = s.Now().UTC()
	p.ExpiresAt = p.IssuedAt.Add(lasts)
	p.Nonce = wire.NewTaskID()
	payload, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	signed := sign.SealTask(key, payload)
	return &signed, nil
}

// Session returns a command's request for a session with a node, signed with key if there is one.
func Session(ctx context.Context, s *cli.Session, key ed25519.PrivateKey, node, kind string,
	params wire.SessionParams) (api.SessionAsk, error) {
	raw, err := sign.Encode(params)
	if err == nil {
		err = params.Check()
	}
	if err != nil || key == nil {
		return api.SessionAsk{Type: kind, Params: raw}, cli.AsUsage(err)
	}
	signed, err := seal(ctx, s, key, node, wire.TaskPayload{TaskID: wire.NewSessionID(), Type: kind, Params: raw}, wire.MaxSessionWait)
	return api.SessionAsk{Signed: signed}, err
}

// Queue gives a node a task; lasts is how long the task may wait for the node. The task's id is chosen here, so that a request whose answer
// got lost can be sent again without making a second task, unless q has one. key signs the task; nil: the gateway does.
func Queue(ctx context.Context, s *cli.Session, key ed25519.PrivateKey, q api.NewTask, lasts time.Duration) (api.Task, error) {
	q.ID = cmp.Or(q.ID, wire.NewTaskID())
	q.ExpiresSeconds = int(lasts.Seconds())
	if key != nil {
		signed, err := seal(ctx, s, key, q.Node, wire.TaskPayload{TaskID: q.ID, Type: q.Type, Params: q.Params}, lasts)
		if err != nil {
			return api.Task{}, err
		}
		q = api.NewTask{Signed: signed}
	}
	return cli.SendSurely[api.Task](ctx, s, "POST", api.PathTasks, q)
}
