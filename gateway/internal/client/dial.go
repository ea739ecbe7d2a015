package client

import (
	"context"
	"path/filepath"
	"time"
)

// SocketName is the admin socket's file in the gateway's data directory.
const SocketName = "muster.sock"

const restartTime = time.Second // a gateway takes about so long to listen again

// Target says which gateway to call and how: by URL and API token where URL is set, else through the socket in DataDir.
type Target struct {
	DataDir string
	URL     string
	Token   string
	RootPin string // sha256:<hex> of the root's public key; the gateway's TLS must chain to that root
	CAFile  string // PEM bundle to trust instead of the system's
}

// Dial makes a client. It connects at once only to fetch the root that a pin names.
func Dial(ctx context.Context, t Target) (*Client, error) {
	if t.URL == "" {
		socket := overSocket(filepath.Join(t.DataDir, SocketName))
		return &Client{BaseURL: "http://muster", HTTP: socket, again: restartTime, explain: explainSocket}, nil
	}
	base, err := baseURL(t.URL)
	if err != nil {
		return nil, err
	}
	token, err := checkToken(t.Token)
	if err != nil {
		return nil, err
	}
	secured, err := overTLS(ctx, base, trust{RootPin: t.RootPin, CAFile: t.CAFile})
	if err != nil {
		return nil, err
	}
	base, _ = named(base)
	return &Client{BaseURL: base, Token: token, HTTP: secured, again: restartTime, explain: explainTLS}, nil
}
