package adminapi

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/bootstrap"
	"muster/gateway/internal/fleet"
	"muster/gateway/internal/reply"
)

// CreateNodeRequest makes a node that waits for its bootstrap. Mode and TTL are its first bootstrap token's.
type CreateNodeRequest struct {
	Name   string            `json:"name"`
	Tenant string            `json:"tenant,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	GPUs   int               `json:"gpus,omitempty"`
	Mode   string            `json:"mode,omitempty"` // manual (the default) or cloud_init
	TTL    Duration          `json:"ttl,omitempty"`
}

// CreatedNode answers a CreateNodeRequest: the only time that the token is shown.
type CreatedNode struct {
	Hint           string    `json:"hint"` // for whoever feeds this to a shell; the first member
	Node           Node      `json:"node"`
	BootstrapToken string    `json:"bootstrap_token"`
	BootstrapURL   string    `json:"bootstrap_url"` // of the script, with the token's fetch part alone
	ExpiresAt      time.Time `json:"expires_at"`    // the outer limit
	FetchWindow    Duration  `json:"fetch_window"`  // from the first fetch of the script on
	Command        string    `json:"command"`       // safe to paste into a root shell of the machine
	UserData       string    `json:"user_data,omitempty"`
	Script         string    `json:"script"` // complete by itself: it holds the token
	ScriptSHA256   string    `json:"script_sha256"`

	Packages []BootstrapPackage `json:"packages"`
}

// BootstrapScript answers POST nodes/{node}/bootstrap-script: the only time that the token is shown.
type BootstrapScript struct {
	Hint           string            `json:"hint"` // for whoever feeds this to a shell; the first member
	NodeID         string            `json:"node_id"`
	Node           string            `json:"node"` // its name
	BootstrapToken string            `json:"bootstrap_token"`
	BootstrapURL   string            `json:"bootstrap_url"`
	ExpiresAt      time.Time         `json:"expires_at"`   // the outer limit
	FetchWindow    Duration          `json:"fetch_window"` // from the first fetch of the script on
	Script         string            `json:"script"`       // complete by itself: it holds the token
	ScriptSHA256   string            `json:"script_sha256"`
	FetchSHA256    string            `json:"fetch_script_sha256"` // of what bootstrap_url gives, which is without the secret
	Mode           string            `json:"mode"`
	Metadata       BootstrapMetadata `json:"metadata"`
	Command        string            `json:"command"`
	UserData       string            `json:"user_data,omitempty"` // in the mode cloud_init
}

// BootstrapMetadata says what a script brings.
type BootstrapMetadata struct {
	TrustBundleVersion TrustVersion       `json:"trust_bundle_version"`
	PackageRef         string             `json:"package_ref"`    // of the platform that most machines have; empty: the gateway carries no agent
	PackageDigest      string             `json:"package_digest"` // sha256:<hex>
	Packages           []BootstrapPackage `json:"packages"`
}

// TrustVersion is v<number>. Gateways of earlier versions send the number alone, and it is read from them too.
type TrustVersion string

func trustVersion(number int64) TrustVersion {
	return TrustVersion("v" + strconv.FormatInt(number, 10))
}

// UnmarshalJSON takes either form.
func (v *TrustVersion) UnmarshalJSON(text []byte) error {
	var number int64
	if json.Unmarshal(text, &number) == nil {
		*v = trustVersion(number)
		return nil
	}
	return json.Unmarshal(text, (*string)(v))
}

// BootstrapPackage is the agent for one platform.
type BootstrapPackage struct {
	Platform string `json:"platform"` // linux/amd64
	Ref      string `json:"ref"`
	Digest   string `json:"digest"`
}

const scriptType = "text/x-shellscript"

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
		{"POST", "nodes", ScopeNodesWrite, minting(s.createNode)},
		{"POST", "nodes/{node}/bootstrap-script", ScopeNodesWrite, minting(s.bootstrapScript)},
	}
}

// minting guards what gives out a token beside what it does to a node: a token of a node that is live takes that node over.
func minting(serve func(*call) (any, error)) func(*call) (any, error) {
	return func(c *call) (any, error) {
		if !c.caller.may(ScopeTokensWrite) {
			return nil, forbidden("this account lacks the scope "+ScopeTokensWrite+", and this mints a token",
				"use an account that has both "+ScopeNodesWrite+" and "+ScopeTokensWrite+"; this one has "+strings.Join(c.caller.scopes, ", "))
		}
		return serve(c)
	}
}

func (s *server) createNode(c *call) (any, error) {
	if _, err := c.query(); err != nil {
		return nil, err
	}
	var q CreateNodeRequest
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
	return withScript{CreatedNode{Hint: notAScriptYet, Node: nodeShape(node), BootstrapToken: m.Token.Reveal(), BootstrapURL: m.URL,
		ExpiresAt: m.ExpiresAt.UTC(), FetchWindow: Duration(m.Window), Command: m.Command, UserData: m.UserData, Script: m.Script,
		ScriptSHA256: m.ScriptSum, Packages: packagesShape(m.Packages)}}, nil
}

// noToken refuses names and labels that may be tokens: both are shown to everybody.
func noToken(name string, labels map[string]string) error {
	if reply.TokenLike(name) {
		return wire.Refuse(wire.CodeBadName, "the name looks like a token",
			"choose one that does not begin with mse_, msb_ or msa_; if it is a token, revoke it: muster token revoke ID")

	}
	for key, value := range labels {
		if text := key + "=" + value; reply.Redact(text) != text {
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
		if q.TTL, err = ParseDuration(text); err != nil || q.TTL <= 0 {
			return q, badRequest("the parameter \"ttl\" is no duration", "write 30m, 12h or 7d")
		}
	}
	return q, q.Complete()
}

func wantsScript(c *call, p parameters) (bool, error) {
	switch p.text("format") {
	case "":
		return reply.Prefers(c.r, scriptType), nil
	case "json":
		return false, nil
	case "script":
		return true, nil
	}
	return false, badRequest("the parameter \"format\" is neither json nor script", "leave it out for JSON")
}

func sendScript(w http.ResponseWriter, m bootstrap.Minted) {
	h := w.Header()
	h.Set("Content-Type", scriptType+"; charset=utf-8")
	h.Set("Cache-Control", "no-store, no-transform")
	h.Set("X-Content-Type-Options", "nosniff")
	_, _ = io.WriteString(w, m.Script) // the connection is gone: nobody is left to tell
}

func scriptShape(n fleet.Node, m bootstrap.Minted) BootstrapScript {
	out := BootstrapScript{Hint: notAScript, NodeID: n.ID, Node: n.Name, BootstrapToken: m.Token.Reveal(), BootstrapURL: m.URL, ExpiresAt: m.ExpiresAt.UTC(),
		FetchWindow: Duration(m.Window), Script: m.Script, ScriptSHA256: m.ScriptSum, FetchSHA256: m.FetchSum, Mode: m.Mode,
		Command: m.Command, UserData: m.UserData,
		Metadata: BootstrapMetadata{TrustBundleVersion: trustVersion(m.TrustNumber), Packages: packagesShape(m.Packages)}}
	if len(out.Metadata.Packages) > 0 {
		out.Metadata.PackageRef, out.Metadata.PackageDigest = out.Metadata.Packages[0].Ref, out.Metadata.Packages[0].Digest
	}
	return out
}

func packagesShape(packages []bootstrap.Package) []BootstrapPackage {
	out := make([]BootstrapPackage, 0, len(packages))
	for _, p := range packages {
		out = append(out, BootstrapPackage{Platform: p.OS + "/" + p.Arch, Ref: p.Ref, Digest: p.Digest})
	}
	return out
}
