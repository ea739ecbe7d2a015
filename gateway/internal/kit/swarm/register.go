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

// applicant is a node on its way in: its request, ready to be sent, and the answer.
type applicant struct {
	*node
	raw     []byte
	prove   func(a answer) error // nil: the connection proves the answer
	welcome []byte
}

// enrol brings the fleet up to the number of nodes asked for.
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
	applicants, err := s.applicants(missing, func(a *applicant) error { return a.write(by, s.dialer.host, hardware) })
	if err != nil {
		return err
	}
	s.register(ctx, applicants)
	for _, a := range applicants {
		if a.welcome == nil {
			continue
		}
		if err := s.join(a); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// applicants makes nodes. write makes each one's key and request, on all cores. That comes before the clock starts: it is the nodes'
// work and not the gateway's.
func (s *swarm) applicants(missing int, write func(*applicant) error) ([]*applicant, error) {
	var random [3]byte
	rand.Read(random[:])
	prefix := "swarm-" + hex.EncodeToString(random[:])
	applicants := make([]*applicant, missing)
	nodes := make([]*node, missing)
	byNode := make(map[*node]*applicant, missing)
	for i := range applicants {
		number := len(s.nodes) + i
		nodes[i] = &node{name: fmt.Sprintf("%s-%06d", prefix, number), direct: s.directly(number), from: s.source(number)}
		applicants[i] = &applicant{node: nodes[i]}
		byNode[nodes[i]] = applicants[i]
	}
	return applicants, s.prepare(nodes, func(n *node) error { return write(byNode[n]) })
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

func (a *applicant) write(by credential, host string, hardware []byte) (err error) {
	if a.key, err = a.newKey(); err != nil {
		return err
	}
	var nonce [16]byte
	rand.Read(nonce[:])
	asked := base64.StdEncoding.EncodeToString(nonce[:])
	a.prove = func(got answer) error {
		return sign.VerifyWelcome(got.proof, by.key, asked, got.status, got.body)
	}
	body, err := json.Marshal(wire.RegisterRequest{
		Protocol: wire.ProtocolVersion, Name: a.name, Nonce: asked, Time: time.Now().UTC(), CSR: a.csr,
		Labels: map[string]string{"swarm": "true"}, Hardware: hardware, Agent: agentInfo(),
	})
	if err != nil {
		return err
	}
	a.raw = appendHead(make([]byte, 0, 512+len(body)), host, wire.PathRegister, len(body))
	a.raw = append(a.raw, "Authorization: "+sign.Authorization(by.id, by.key, body)+"\r\n\r\n"...)
	a.raw = append(a.raw, body...)
	return nil
}

func agentInfo() wire.AgentInfo {
	return wire.AgentInfo{Version: "swarm", OS: runtime.GOOS, Arch: runtime.GOARCH}
}

// register sends every request once, and keeps what was answered to read it afterwards.
func (s *swarm) register(ctx context.Context, applicants []*applicant) {
	// One request each. They share connections, as they have no identity yet.
	waiting := &swarm{options: s.options, dialer: s.dialer, nodes: make([]*node, len(applicants))}
	s.phases = append(s.phases, waiting.measure(ctx, "register", func(w *worker) {
		for i := w.number; i < len(applicants) && ctx.Err() == nil; i += w.of {
			a := applicants[i]
			answered, ok := w.send(ctx, &node{}, sent{raw: a.raw, prove: a.prove})
			if ok {
				a.welcome = answered.body
			}
			a.raw = nil
		}
	}))
}

// join reads a proven welcome.
func (s *swarm) join(a *applicant) error {
	var w wire.Welcome
	if err := json.Unmarshal(a.welcome, &w); err != nil {
		return fmt.Errorf("the welcome of %s: %w", a.name, err)
	}
	a.welcome = nil
	if err := a.adopt(a.key, w.Certificate); err != nil {
		return err
	}
	a.id = w.NodeID
	a.newRun()
	s.nodes = append(s.nodes, a.node)
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
