package gateway

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"muster/agent/disk"
	"muster/agent/sign"
	"muster/gateway/api"
	"muster/gateway/api/trust"
	"muster/gateway/internal/cli"
)

const taskKeyText = "A task key that the gateway does not have keeps whoever takes the gateway over from giving work to nodes " +
	"whose policy demands it: muster help tasks says how. "

func taskKeyCommands() []cli.Command {
	return []cli.Command{
		{Name: "key generate", Args: "FILE", Least: 1, Most: 1, Run: keyGenerate,
			Summary: "make a key that signs tasks or releases, for an operator",
			Text: "FILE gets the private key (mode 0600, not encrypted: keep it on a medium that is not connected), FILE.pub the public one. " +
				"Neither may be there already. " + taskKeyText + "A release key says which version of the agent nodes take: muster help releases. " +
				"The gateway is not asked.",
			Examples: []string{"muster key generate /media/usb/task.key", "muster key generate /media/usb/release.key"}},
		{Name: "key add", Args: "FILE.pub", Least: 1, Most: 1, Flags: []string{"task", "release", "trust-key"}, Run: cli.With(keyAdd),
			Summary: "make nodes trust an operator's key",
			Text: taskKeyText + "With --release it signs pointers of releases: muster help releases. Nodes trust it from their next heartbeat " +
				"on. muster key drop ends that. A key has one role.",
			Examples: []string{"muster key add --task /media/usb/task.key.pub", "muster key add --release /media/usb/release.key.pub"}},
	}
}

func keyGenerate(_ context.Context, s *cli.Session) error {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	file := s.Words[0]
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return err
	}
	open, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(file + ".pub"); !errors.Is(err, fs.ErrNotExist) {
		return cli.Hinted(file+".pub is there already", "name another file: a key is never replaced")
	}
	if err := newFile(file, 0o600, &pem.Block{Type: "PRIVATE KEY", Bytes: secret}); err != nil {
		return err
	}
	if err := newFile(file+".pub", 0o644, &pem.Block{Type: "PUBLIC KEY", Bytes: open}); err != nil {
		return err
	}
	s.Printf("The key %s is in %s, and its public half in %s.pub.\n", sign.KeyID(public), file, file)
	s.Printf("Make nodes trust it for tasks: muster key add --task %s.pub\nor for releases: muster key add --release %s.pub\n"+
		"For a node's policy.json: %s\n", file, file, sign.EncodeKey(public))
	return nil
}

// newFile writes a file that must not be there yet.
func newFile(name string, mode fs.FileMode, block *pem.Block) error {
	err := disk.Steps(nil).Create(name, mode, pem.EncodeToMemory(block))
	if errors.Is(err, fs.ErrExist) {
		return cli.Hinted(name+" is there already", "name another file: a key is never replaced")
	}
	return err
}

// keyAdd has no usual role: a command that lets a key give work or programs to nodes has to say which.
func keyAdd(ctx context.Context, s *cli.Session, o struct{ Task, Release bool }) error {
	role := sign.RoleTask
	switch {
	case o.Task == o.Release:
		return cli.Usagef("--task or --release", "muster key add lets a key sign tasks, or releases: say which")
	case o.Release:
		role = sign.RoleRelease
	}
	public, err := readPublic(s, s.Words[0])
	if err != nil {
		return err
	}
	change, err := cli.Send[trust.TrustChange](ctx, s, "POST", api.PathKeys, trust.AddKeyRequest{Role: string(role),
		PublicKey: sign.EncodeKey(public)})
	if err != nil {
		return err
	}
	return publish(ctx, s, change)
}

func readPublic(s *cli.Session, file string) (ed25519.PublicKey, error) {
	raw, err := s.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the key: %w", err)
	}
	block, _ := pem.Decode(raw)
	if block == nil {
		return nil, cli.Hinted(file+" holds no key in PEM", "muster key generate FILE makes FILE and FILE.pub")
	}
	if block.Type != "PUBLIC KEY" {
		return nil, cli.Hinted(file+" holds no public key", "give the file that ends in .pub; the private key stays where it is")
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	key, ok := parsed.(ed25519.PublicKey)
	if err != nil || !ok {
		return nil, cli.Hinted(file+" holds no Ed25519 key", "muster key generate FILE makes FILE and FILE.pub")
	}
	return key, nil
}
