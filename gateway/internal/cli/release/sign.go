package release

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
	"muster/gateway/internal/cli/work"
)

// releaseSign has two halves, so that the key can stay on a machine without a network. Without --key it gives what is to be signed. With
// --key it signs a file with that; or, where it reaches the gateway, what the gateway says.
func releaseSign(ctx context.Context, s *cli.Session) error {
	key := s.Flags.Text("key")
	if len(s.Words) > 0 && key == "" {
		return cli.Usagef("add --key FILE", "muster release sign: which key signs %s?", s.Words[0])
	}
	payload, err := payloadOf(ctx, s)
	if err != nil {
		return err
	}
	if key == "" {
		return s.Print(string(payload) + "\n")
	}
	envelope, err := signed(s, key, payload)
	if err != nil {
		return err
	}
	return s.Print(string(envelope) + "\n")
}

// payloadOf is what is to be signed: from a file, or from the gateway.
func payloadOf(ctx context.Context, s *cli.Session) ([]byte, error) {
	if len(s.Words) > 0 {
		raw, err := s.ReadFile(s.Words[0])
		return bytes.TrimRight(raw, "\r\n"), err
	}
	name, err := channelOf(s)
	if err != nil {
		return nil, err
	}
	digest := s.Flags.Text("digest")
	if digest == "" {
		return nil, cli.Usagef("add --digest DIGEST, or give the file that holds it", "muster release sign: which release?")
	}
	unsigned, err := cli.Get[api.UnsignedPointer](ctx, s, api.At(api.PathChannelPointer, name), api.PointerFilter{Release: digest})
	return unsigned.Payload, err
}

// pointerOf is the signed pointer that a change of a channel brings along: from --pointer, or made with --key. Nil: the gateway signs.
func pointerOf(ctx context.Context, s *cli.Session, channel, digest string) (json.RawMessage, error) {
	file, key := s.Flags.Text("pointer"), s.Flags.Text("key")
	switch {
	case file != "" && key != "":
		return nil, cli.Usagef("leave one of them out", "--pointer is signed already, and --key signs")
	case file != "":
		return readPointer(s, file)
	case key == "":
		return nil, nil
	}
	unsigned, err := cli.Get[api.UnsignedPointer](ctx, s, api.At(api.PathChannelPointer, channel), api.PointerFilter{Release: digest})
	if err != nil {
		return nil, err
	}
	return signed(s, key, unsigned.Payload)
}

// readPointer reads what muster release sign has written. The gateway verifies it.
func readPointer(s *cli.Session, file string) (json.RawMessage, error) {
	raw, err := s.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the pointer: %w", err)
	}
	var e sign.Envelope
	if json.Unmarshal(raw, &e) != nil || e.Role != sign.RoleRelease || len(e.Signature) == 0 {
		return nil, cli.Hinted(file+" holds no signed pointer", "muster release sign --key FILE PAYLOAD makes one")
	}
	return bytes.TrimSpace(raw), nil
}

// signed shows the person what the key signs, and signs it.
func signed(s *cli.Session, file string, payload []byte) (json.RawMessage, error) {
	key, err := work.ReadKey(s, file)
	if err != nil {
		return nil, err
	}
	var p wire.ReleasePointer
	if err := sign.DecodeStrict(payload, &p); err != nil {
		return nil, cli.Hinted("this is no pointer of a release: "+err.Error(), "muster release sign --channel stable --digest DIGEST gives one")
	}
	if err := checkPointer(p); err != nil {
		return nil, err
	}
	showPointer(s, p)
	return json.Marshal(sign.Seal(key, sign.RoleRelease, payload))
}

// checkPointer refuses what no node would take.
func checkPointer(p wire.ReleasePointer) error {
	if err := wire.CheckChannel(p.Channel); err != nil {
		return err
	}
	if !wire.IsDigest(p.Digest) || p.Sequence < 1 || len(p.Platforms) == 0 || !p.NotBefore.Before(p.Expires) {
		return cli.Hinted("this pointer names no release that a node could take", "get another from the gateway: muster release sign --channel "+
			p.Channel+" --digest DIGEST")
	}
	return nil
}

// showPointer prints what is signed. The gateway wrote it, and the person who signs must see what it says.
func showPointer(s *cli.Session, p wire.ReleasePointer) {
	rows := [][]string{
		{"signing", fmt.Sprintf("channel %s, number %d", screen.Printable(p.Channel), p.Sequence)},
		{"release", screen.OrUnknown(p.Version) + " " + screen.OrUnknown(p.Digest)},
		{"good", p.NotBefore.UTC().Format(time.RFC3339) + " to " + p.Expires.UTC().Format(time.RFC3339)},
	}
	for _, platform := range p.Platforms {
		name := platform.OS + "/" + platform.Arch
		rows = append(rows, []string{name, platform.Program})
	}
	screen.Pairs(s.Stderr, 0, rows)
}
