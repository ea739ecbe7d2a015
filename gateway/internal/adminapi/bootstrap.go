package adminapi

import (
	"io"
	"net/http"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/bootstrap"
	"muster/gateway/internal/client"
	"muster/gateway/internal/fleet"
	"muster/gateway/internal/reply"
	"muster/gateway/internal/secret"
)

// Hints of answers that hold a script. A shell that is fed one complains of a command with this name, so it has no slash.
const (
	noShell       = "this answer is JSON, which no shell can run: "
	orCommand     = ", or add -o script to the muster command"
	notAScript    = noShell + "add format=script to the URL to get the script by itself" + orCommand
	notAScriptYet = noShell + "ask for bootstrap-script of this node with format=script to get a script" + orCommand
)

// withScript marks an answer that holds a script, which a root shell may be fed by mistake.
type withScript struct{ shape any }

func (s *server) bootstrapRoutes() []route {
	return []route{
		{"POST", "nodes", client.ScopeNodesWrite, minting(s.createNode)},
		{"POST", "nodes/{node}/bootstrap-script", client.ScopeNodesWrite, minting(s.bootstrapScript)},
	}
}

// minting guards what gives out a token beside what it does to a node: a token of a node that is live takes that node over.
func minting(serve func(*call) (any, error)) func(*call) (any, error) {
	return func(c *call) (any, error) {
		if !c.caller.may(client.ScopeTokensWrite) {
			return nil, forbidden("this account lacks the scope "+client.ScopeTokensWrite+", and this mints a token",
				"use an account that has both "+client.ScopeNodesWrite+" and "+client.ScopeTokensWrite+"; this one has "+strings.Join(c.caller.scopes, ", "))
		}
		return serve(c)
	}
}

func (s *server) createNode(c *call) (any, error) {
	if _, err := c.query(); err != nil {
		return nil, err
	}
	var q client.CreateNodeRequest
	if err := c.decode(&q); err != nil {
		return nil, err
	}
	tenant, err := c.caller.within(q.Tenant)
	if err != nil {
		return nil, err
	}
	if err := noToken(q.Name, q.Labels); err != nil {
		return nil, err
	}
	wanted := bootstrap.NodeTokenRequest{Mode: q.Mode, TTL: time.Duration(q.TTL)}
	for _, err := range []error{wanted.Complete(), s.Bootstrap.Ready()} { // before there is a node without a token
		if err != nil {
			return nil, err
		}
	}
	node, err := s.Fleet.Create(c.r.Context(), fleet.NewNode{Name: q.Name, Tenant: tenant, Labels: q.Labels, GPUs: q.GPUs}, c.caller.actor)
	if err != nil {
		return nil, err
	}
	wanted.Node = node.Node
	m, err := s.Bootstrap.MintNodeToken(c.r.Context(), wanted, c.caller.actor)
	if err != nil {
		return nil, err
	}
	c.status = http.StatusCreated
	return withScript{client.CreatedNode{Hint: notAScriptYet, Node: nodeShape(node), BootstrapToken: m.Token.Reveal(), BootstrapURL: m.URL,
		ExpiresAt: m.ExpiresAt.UTC(), FetchWindow: client.Duration(m.Window), Command: m.Command, UserData: m.UserData, Script: m.Script,
		ScriptSHA256: m.ScriptSum, Packages: packagesShape(m.Packages)}}, nil
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

// bootstrapScript mints a token for a node that is there, and gives the script as JSON or, where that is asked for, as it is.
func (s *server) bootstrapScript(c *call) (any, error) {
	p, err := c.query("mode", "again", "format", "ttl")
	if err != nil {
		return nil, err
	}
	wanted, err := mintRequest(p)
	if err != nil {
		return nil, err
	}
	again, err := p.flag("again")
	if err != nil {
		return nil, err
	}
	plain, err := wantsScript(c, p)
	if err != nil {
		return nil, err
	}
	if err := c.decode(&struct{}{}); err != nil {
		return nil, err
	}
	node, err := s.Fleet.Node(c.r.Context(), c.caller.tenant, c.r.PathValue("node"))
	if err != nil {
		return nil, err
	}
	if err := node.Bootstrappable(again); err != nil {
		return nil, err
	}
	wanted.Node = node.Node
	m, err := s.Bootstrap.MintNodeToken(c.r.Context(), wanted, c.caller.actor)
	switch {
	case err != nil:
		return nil, err
	case plain:
		sendScript(c.w, m)
		return streamed{}, nil
	}
	return withScript{scriptShape(node, m)}, nil
}

func mintRequest(p parameters) (q bootstrap.NodeTokenRequest, err error) {
	q.Mode = p.text("mode")
	if text := p.text("ttl"); text != "" {
		if q.TTL, err = client.ParseDuration(text); err != nil || q.TTL <= 0 {
			return q, badRequest("the parameter \"ttl\" is no duration", "write 30m, 12h or 7d")
		}
	}
	return q, q.Complete()
}

func wantsScript(c *call, p parameters) (bool, error) {
	switch p.text("format") {
	case "":
		return reply.Prefers(c.r, client.ScriptType), nil
	case "json":
		return false, nil
	case "script":
		return true, nil
	}
	return false, badRequest("the parameter \"format\" is neither json nor script", "leave it out for JSON")
}

func sendScript(w http.ResponseWriter, m bootstrap.Minted) {
	h := w.Header()
	h.Set("Content-Type", client.ScriptType+"; charset=utf-8")
	h.Set("Cache-Control", "no-store, no-transform")
	h.Set("X-Content-Type-Options", "nosniff")
	_, _ = io.WriteString(w, m.Script) // the connection is gone: nobody is left to tell
}

func scriptShape(n fleet.Node, m bootstrap.Minted) client.BootstrapScript {
	out := client.BootstrapScript{Hint: notAScript, NodeID: n.ID, Node: n.Name, BootstrapToken: m.Token.Reveal(), BootstrapURL: m.URL, ExpiresAt: m.ExpiresAt.UTC(),
		FetchWindow: client.Duration(m.Window), Script: m.Script, ScriptSHA256: m.ScriptSum, FetchSHA256: m.FetchSum, Mode: m.Mode,
		Command: m.Command, UserData: m.UserData,
		Metadata: client.BootstrapMetadata{TrustBundleVersion: client.NewTrustVersion(m.TrustNumber), Packages: packagesShape(m.Packages)}}
	if len(out.Metadata.Packages) > 0 {
		out.Metadata.PackageRef, out.Metadata.PackageDigest = out.Metadata.Packages[0].Ref, out.Metadata.Packages[0].Digest
	}
	return out
}

func packagesShape(packages []bootstrap.Package) []client.BootstrapPackage {
	out := make([]client.BootstrapPackage, 0, len(packages))
	for _, p := range packages {
		out = append(out, client.BootstrapPackage{Platform: p.OS + "/" + p.Arch, Ref: p.Ref, Digest: p.Digest})
	}
	return out
}
