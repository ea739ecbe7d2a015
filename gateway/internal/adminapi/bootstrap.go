package adminapi

import (
	"io"
	"net/http"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/account/secret"
	"muster/gateway/internal/bootstrap"
	"muster/gateway/internal/reply"
)

// createNode makes a node that waits for its bootstrap, with a token and a script.
func (c *call) createNode(q api.CreateNodeRequest) (any, error) {
	if _, err := c.Query(); err != nil {
		return nil, err
	}
	var err error
	if q.Tenant, err = c.Caller.Within(q.Tenant); err != nil {
		return nil, err
	}
	if err := noToken(q.Name, q.Labels); err != nil {
		return nil, err
	}
	wanted := bootstrap.NodeTokenRequest{Mode: q.Mode, TTL: time.Duration(q.TTL)}
	if err := wanted.Complete(); err != nil {
		return nil, err
	}
	if err := c.Bootstrap.Ready(); err != nil { // checked first, so that a refusal leaves no node without a token
		return nil, err
	}
	node, err := c.Fleet.Create(c.Context(), q, c.Caller.Actor)
	if err != nil {
		return nil, err
	}
	c.renew(node)
	wanted.Node = node.Node
	m, err := c.Bootstrap.MintNodeToken(c.Context(), wanted, c.Caller.Actor)
	if err != nil {
		return nil, err
	}
	c.Created()
	return withScript{m.Created(shownNode(node))}, nil
}

// noToken refuses names and labels that may be tokens: both are shown to everybody.
func noToken(name string, labels map[string]string) error {
	if secret.TokenLike(name) {
		return wire.Refuse(wire.CodeBadName, "the name looks like a token",
			"choose one that does not begin with mse_, msb_ or msa_; if it is a token, revoke it: muster token revoke ID")
	}
	for key, value := range labels {
		if text := key + "=" + value; secret.Redact(text) != text {
			return wire.Refuse(wire.CodeBadLabel, "a label holds a token",
				"labels are shown to everybody: leave it out, and revoke the token: muster token revoke ID")
		}
	}
	return nil
}

// bootstrapScript mints a token for an existing node. It answers with JSON, or with the script itself if the caller asks for that.
func (c *call) bootstrapScript(_ struct{}) (any, error) {
	var f struct {
		api.BootstrapOptions
		Format string `json:"format"`
	}
	if err := c.Ask(&f); err != nil {
		return nil, err
	}
	wanted := bootstrap.NodeTokenRequest{Mode: f.Mode, TTL: time.Duration(f.TTL)}
	if err := wanted.Complete(); err != nil {
		return nil, err
	}
	plain, err := wantsScript(c, f.Format)
	if err != nil {
		return nil, err
	}
	node, err := c.Fleet.Node(c.Context(), c.Caller.Tenant, c.Named("node"))
	if err != nil {
		return nil, err
	}
	if err := node.Bootstrappable(f.Again); err != nil {
		return nil, err
	}
	wanted.Node = node.Node
	m, err := c.Bootstrap.MintNodeToken(c.Context(), wanted, c.Caller.Actor)
	switch {
	case err != nil:
		return nil, err
	case plain:
		sendScript(c.W, m)
		return streamed{}, nil
	}
	return withScript{m.Answer(node.ID, node.Name)}, nil
}

// wantsScript is true if the caller wants the script itself. The parameter format decides, or without it the header Accept.
func wantsScript(c *call, format string) (bool, error) {
	switch format {
	case "":
		return reply.Prefers(c.Request, api.ScriptType), nil
	case "json":
		return false, nil
	case "script":
		return true, nil
	}
	return false, wire.Refuse(wire.CodeBadRequest, "the parameter \"format\" is neither json nor script", "leave it out for JSON")
}

// sendScript tells proxies to change nothing, because the operator compares the script's digest.
func sendScript(w http.ResponseWriter, m bootstrap.Minted) {
	reply.Begin(w, api.ScriptType+"; charset=utf-8")
	_, _ = io.WriteString(w, m.Script) // the connection is gone: nobody is left to tell
}
