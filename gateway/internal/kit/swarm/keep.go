package main

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"muster/agent/sign"
)

// kept is what the file of -keep holds: private keys, so nobody else may read it.
type kept struct {
	Roots     string     `json:"roots"`
	AnswerKey string     `json:"answer_key"`
	Nodes     []keptNode `json:"nodes"`
}

type keptNode struct {
	Name  string `json:"name"`
	ID    string `json:"id"`
	Key   []byte `json:"key"` // PKCS #8
	Chain string `json:"certificate"`
}

// load takes up the nodes of an earlier run, as many as are asked for.
func (s *swarm) load() error {
	if s.keep == "" {
		return nil
	}
	text, err := os.ReadFile(s.keep)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var k kept
	if err := json.Unmarshal(text, &k); err != nil {
		return fmt.Errorf("%s is not a file that -keep wrote: %w", s.keep, err)
	}
	key, err := sign.DecodeKey(k.AnswerKey)
	if err != nil {
		return fmt.Errorf("%s: the answer key: %w", s.keep, err)
	}
	if err := s.pin(k.Roots, key); err != nil {
		return fmt.Errorf("%s: %w", s.keep, err)
	}
	played := min(len(k.Nodes), s.options.nodes)
	s.unplayed = k.Nodes[played:]
	for i, one := range k.Nodes[:played] {
		n, err := one.node(s.directly(i))
		if err != nil {
			return fmt.Errorf("%s: node %s: %w", s.keep, one.Name, err)
		}
		n.from = s.source(i)
		s.nodes = append(s.nodes, n)
	}
	return nil
}

func (k keptNode) node(direct bool) (*node, error) {
	parsed, err := x509.ParsePKCS8PrivateKey(k.Key)
	if err != nil {
		return nil, err
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return nil, errors.New("its key is not an ECDSA key")
	}
	n := &node{name: k.Name, id: k.ID, direct: direct}
	n.newRun()
	return n, n.adopt(key, k.Chain)
}

// save writes the nodes' identities to the file of -keep, all or nothing. Nodes in the file that this run does not play stay in it.
func (s *swarm) save() error {
	if s.keep == "" || len(s.nodes) == 0 {
		return nil
	}
	k := kept{Roots: s.pinned.rootsPEM, AnswerKey: sign.EncodeKey(s.pinned.answerKey)}
	for _, n := range s.nodes {
		der, err := x509.MarshalPKCS8PrivateKey(n.key)
		if err != nil {
			return err
		}
		k.Nodes = append(k.Nodes, keptNode{Name: n.name, ID: n.id, Key: der, Chain: n.chain})
	}
	k.Nodes = append(k.Nodes, s.unplayed...)
	text, err := json.Marshal(k)
	if err != nil {
		return err
	}
	// A run that is ended in the middle must not cost the identities of the run before.
	if err := os.WriteFile(s.keep+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(s.keep+".new", s.keep)
}
