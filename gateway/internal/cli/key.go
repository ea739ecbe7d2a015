package cli

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/api"
)

// SigningKey reads an operator's private Ed25519 key in PKCS#8, as muster key generate and openssl genpkey write it.
func (s *Session) SigningKey(file string) (ed25519.PrivateKey, error) {
	raw, err := s.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the key: %w", err)
	}
	const hint = "muster key generate FILE makes one; so does openssl genpkey -algorithm ed25519"
	block, _ := pem.Decode(raw)
	if block == nil {
		return nil, Hinted(file+" holds no key in PEM", hint)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	key, ok := parsed.(ed25519.PrivateKey)
	if err != nil || !ok {
		return nil, Hinted(file+" holds no private Ed25519 key", hint)
	}
	return key, nil
}

// OperatorKey is the key that --key names; nil: the gateway signs.
func (s *Session) OperatorKey() (ed25519.PrivateKey, error) {
	file := s.Flags.Text("key")
	if file == "" {
		return nil, nil
	}
	return s.SigningKey(file)
}

// Sign signs a task or the opening of a session here. The node's id and enrolment come from the gateway; the node compares them with its
// own. The document says what p says of its id, type and params, and is good for so long.
func (s *Session) Sign(ctx context.Context, key ed25519.PrivateKey, node string, p wire.TaskPayload,
	lasts time.Duration) (*wire.SignedTask, error) {
	raw, err := Get[json.RawMessage](ctx, s, api.At(api.PathNode, node), nil)
	if err != nil {
		return nil, err
	}
	n, err := api.ReadNode(raw)
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

// Ask is how a command asks for a session with a node: signed here where there is a key.
func (s *Session) Ask(ctx context.Context, key ed25519.PrivateKey, node, kind string,
	params wire.SessionParams) (api.SessionAsk, error) {
	raw, err := sign.Encode(params)
	if err == nil {
		err = params.Check()
	}
	var refusal *wire.ErrorDetail
	if errors.As(err, &refusal) {
		return api.SessionAsk{}, Usagef(refusal.Hint, "%s", refusal.Message)
	}
	if err != nil || key == nil {
		return api.SessionAsk{Type: kind, Params: raw}, err
	}
	signed, err := s.Sign(ctx, key, node, wire.TaskPayload{TaskID: wire.NewSessionID(), Type: kind, Params: raw}, wire.MaxSessionWait)
	return api.SessionAsk{Signed: signed}, err
}
