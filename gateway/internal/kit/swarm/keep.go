package main

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

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
	for i, one := range k.Nodes[:min(len(k.Nodes), s.options.nodes)] {
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
	if s.keep == "" || s.peer || len(s.nodes) == 0 {
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
	rest, err := s.unplayed()
	if err != nil {
		return err
	}
	k.Nodes = append(k.Nodes, rest...)
	text, err := json.Marshal(k)
	if err != nil {
		return err
	}
	return replace(s.keep, text)
}

// unplayed are the nodes in the file beyond those of this run.
func (s *swarm) unplayed() ([]keptNode, error) {
	text, err := os.ReadFile(s.keep)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var k kept
	if err == nil {
		err = json.Unmarshal(text, &k)
	}
	if err != nil {
		return nil, err
	}
	return k.Nodes[min(len(k.Nodes), len(s.nodes)):], nil
}

// replace writes a file as a whole. A run that is ended in the middle must not cost the identities of the run before.
func replace(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".swarm-*") // 0600
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}
