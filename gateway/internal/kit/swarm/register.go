package main

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
)

// credential is what enrols the nodes.
type credential struct {
	id  string
	key []byte
}

func parseCredential(text string) (credential, error) {
	switch {
	case text == "":
		return credential{}, errors.New("there is no token to enrol the nodes with: " +
			"set MUSTER_TOKEN to one with enough uses; muster token create --uses N makes it")
	case !strings.HasPrefix(text, "mse_") && !strings.HasPrefix(text, "msb_") && !strings.HasPrefix(text, "msa_"):
		if err := sign.CheckPSK(text); err != nil {
			return credential{}, err
		}
		key, err := sign.PSKKey(text)
		return credential{id: sign.PSKID(key), key: key}, err
	}
	token, err := sign.ParseToken(text)
	if err != nil {
		return credential{}, err
	}
	key, err := sign.EnrollKey(token.Secret)
	return credential{id: token.Public(), key: key}, err
}

// enrol brings the fleet up to the number of nodes asked for, and keeps them.
func (s *swarm) enrol(ctx context.Context) error {
	missing := s.options.nodes - len(s.nodes)
	if missing <= 0 {
		return nil
	}
	if s.peer {
		return fmt.Errorf("%s has %d nodes, not %d", s.keep, len(s.nodes), s.options.nodes)
	}
	by, err := parseCredential(s.token)
	if err != nil {
		return err
	}
	hardware := reading(s.gpus)
	if err := s.register(ctx, missing, func(n *node) error { return n.apply(by, s.dialer.host, hardware) }, s.join); err != nil {
		return err
	}
	return s.save()
}

// register makes nodes and sends the request of each once. apply makes a node's key and its request, on all cores. That comes before the
// clock starts: it is the nodes' work and not the gateway's. join reads what was answered, after the clock has stopped.
func (s *swarm) register(ctx context.Context, missing int, apply, join func(*node) error) error {
	var random [3]byte
	rand.Read(random[:])
	prefix := "swarm-" + hex.EncodeToString(random[:])
	nodes := make([]*node, missing)
	for i := range nodes {
		number := len(s.nodes) + i
		nodes[i] = &node{name: fmt.Sprintf("%s-%06d", prefix, number), direct: s.directly(number), from: s.source(number)}
	}
	if err := s.prepare(nodes, apply); err != nil {
		return err
	}
	s.measure(ctx, "register", true, func(w *worker) { // nodes without an identity share connections
		for i := w.number; i < len(nodes) && ctx.Err() == nil; i += w.of {
			if answered, ok := w.send(ctx, &node{}, nodes[i].asks); ok {
				nodes[i].answer = answered.body
			}
			nodes[i].asks = sent{}
		}
	})
	for _, n := range nodes {
		if n.answer == nil {
			continue
		}
		if err := join(n); err != nil {
			return err
		}
		n.answer = nil
		s.nodes = append(s.nodes, n)
	}
	return ctx.Err()
}

// directly tells whether the node of this number uses mTLS. It depends on the number alone, so a later run gives the same answer.
func (s *swarm) directly(number int) bool {
	return s.transport == viaMTLS || s.transport == viaMixed && number%2 == 0
}

// source is the address that a node connects from. Each node has its own, as nodes are on machines of their own and a gateway counts
// connections by address. All of 127.0.0.0/8 is this machine. It is nil, and the system chooses, where the gateway is elsewhere.
func (s *swarm) source(number int) net.Addr {
	gateway := net.ParseIP(s.gateway.Hostname()).To4()
	if gateway == nil {
		return nil
	}
	const hosts = 250 // of the 254 in a network of 256
	return &net.TCPAddr{IP: net.IPv4(127, 1, byte(number/hosts%hosts), byte(number%hosts+1))}
}

// apply makes the node's key, and its request to enrol.
func (n *node) apply(by credential, host string, hardware []byte) (err error) {
	if n.key, err = n.newKey(); err != nil {
		return err
	}
	var nonce [16]byte
	rand.Read(nonce[:])
	asked := base64.StdEncoding.EncodeToString(nonce[:])
	body, err := json.Marshal(wire.RegisterRequest{
		Protocol: wire.ProtocolVersion, Name: n.name, Nonce: asked, Time: time.Now().UTC(), CSR: n.csr,
		Labels: map[string]string{"swarm": "true"}, Hardware: hardware, Agent: agentInfo(),
	})
	if err != nil {
		return err
	}
	raw := appendHead(make([]byte, 0, 512+len(body)), host, wire.PathRegister, len(body))
	raw = append(raw, "Authorization: "+sign.Authorization(by.id, by.key, body)+"\r\n\r\n"...)
	n.asks = sent{raw: append(raw, body...), prove: func(got answer) error {
		return sign.VerifyWelcome(got.proof, by.key, asked, got.status, got.body)
	}}
	return nil
}

func agentInfo() wire.AgentInfo {
	return wire.AgentInfo{Version: "swarm", OS: runtime.GOOS, Arch: runtime.GOARCH}
}

// join reads a proven welcome.
func (s *swarm) join(n *node) error {
	var w wire.Welcome
	if err := json.Unmarshal(n.answer, &w); err != nil {
		return fmt.Errorf("the welcome of %s: %w", n.name, err)
	}
	if err := n.adopt(n.key, w.Certificate); err != nil {
		return err
	}
	n.id = w.NodeID
	n.newRun()
	s.epoch.learn(w.Epoch)
	if s.pinned.roots != nil {
		return nil
	}
	key, err := sign.DecodeKey(w.AnswerKey)
	if err != nil {
		return fmt.Errorf("the gateway's answer key: %w", err)
	}
	return s.pin(w.Roots, key)
}

func (s *swarm) pin(roots string, answerKey []byte) error {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(roots)) {
		return errors.New("there is no root certificate to check the gateway with")
	}
	s.pinned = pinned{rootsPEM: roots, roots: pool, answerKey: answerKey}
	return nil
}
