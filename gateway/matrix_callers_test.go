package main

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/account"
	"muster/gateway/internal/bootstrap"
	"muster/store"
)

// Where a caller shows something.
const (
	asBearer = "Bearer"
	asBasic  = "Basic"
	asMAC    = "Muster"
	asKey    = "X-Api-Key"
	inQuery  = "query"
	inPath   = "path"
)

// shown is a token, a PSK or a name of one, and where it stands in the request.
type shown struct {
	text  string
	kind  byte // as in its prefix: e, b, a or k; 0: what has no form
	where string
}

// whole tells whether a bootstrap token is shown whole: its fetch part has no dot.
func (s shown) whole() bool { return strings.Contains(s.text, ".") }

// caller is one kind of caller: what is known of it, from which the expected answers follow, and how its requests look.
type caller struct {
	name    string
	account *store.Account // whose API token it shows
	shows   shown
	node    string // the state of the node that it proves to be; empty: it is none
	mtls    bool   // it does so in the TLS handshake; else it signs
	other   bool   // it asks about another node than it is
	pass    *account.Pass
	enrols  *enrolment
}

// enrolment is how a caller registers.
type enrolment struct {
	code string // of the refusal; empty: it is let in
	key  []byte
	name string
	csr  string
}

func (m *matrix) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

// name is one that nothing else has.
func (m *matrix) name(kind string) string {
	m.made++
	return fmt.Sprintf("%s-%d", kind, m.made)
}

// accountOf makes an account and gives its API token.
func (m *matrix) accountOf(a store.Account) (*store.Account, string) {
	m.t.Helper()
	a.Name = m.name("account")
	a.CreatedAt = time.Now()
	token, err := account.Mint(&a, nil)
	m.must(err)
	m.must(m.gateway.store.CreateAccount(m.t.Context(), a))
	return &a, token.Reveal()
}

// callers are the kinds of callers.
func (m *matrix) callers() []caller {
	m.t.Helper()
	all := []caller{{name: "nobody"}, {name: "garbage", shows: shown{text: "hello", where: asBearer}}}
	add := func(name string, a store.Account) {
		made, token := m.accountOf(a)
		all = append(all, caller{name: name, account: made, shows: shown{token, 'a', asBearer}})
	}
	for _, scope := range api.KnownScopes() {
		add("an account with "+scope, store.Account{Scopes: []string{scope}})
	}
	add("an account of the tenant", store.Account{Scopes: []string{api.ScopeAll}, Tenant: ours})
	add("an account of another tenant", store.Account{Scopes: []string{api.ScopeAll}, Tenant: theirs})
	past := time.Now().Add(-time.Hour)
	add("a revoked account", store.Account{Scopes: []string{api.ScopeAll}, RevokedAt: &past})
	add("an expired account", store.Account{Scopes: []string{api.ScopeAll}, ExpiresAt: &past})
	for _, state := range []string{nodeActive, nodeBanned, nodeRetired, nodeExpired, nodeSuperseded, nodeReenrolled, nodeConflicted,
		nodeUnknown} {
		all = append(all, caller{name: state + " node, signed", node: state}, caller{name: state + " node, mTLS", node: state, mtls: true})
	}
	all = append(all, caller{name: "another node, signed", node: nodeActive, other: true},
		caller{name: "another node, mTLS", node: nodeActive, other: true, mtls: true})
	return slices.Concat(all, m.passes(), m.leaks(), m.applicants())
}

// passes are callers who show a pass of the registry.
func (m *matrix) passes() []caller {
	push := []account.Grant{{Repository: wire.AgentRepository, Actions: []string{account.ActionPull, account.ActionPush}}}
	pull := []account.Grant{{Repository: wire.AgentRepository, Actions: []string{account.ActionPull}}}
	other := []account.Grant{{Repository: "other", Actions: []string{account.ActionPull}}}
	all := []caller{{name: "nobody's pass", pass: &account.Pass{Grants: pull}},
		{name: "nobody's pass elsewhere", pass: &account.Pass{Grants: other}}, {name: "nobody's pass to push", pass: &account.Pass{Grants: push}}}
	for name, a := range map[string]store.Account{"a reader": {Scopes: []string{api.ScopeReleasesRead}},
		"a writer": {Scopes: []string{api.ScopeReleasesWrite}}, "a writer of a tenant": {Scopes: []string{api.ScopeAll}, Tenant: theirs}} {
		made, _ := m.accountOf(a)
		all = append(all, caller{name: name + "'s pass", account: made, pass: &account.Pass{Account: made.ID, Grants: push}})
	}
	for i, c := range all {
		made := m.gateway.passes.Issue(c.pass.Account, c.pass.Grants, time.Hour)
		all[i].shows = shown{text: made.Text, where: asBearer}
	}
	return all
}

// leaks are callers who show tokens and PSKs where they do not belong.
func (m *matrix) leaks() []caller {
	_, api := m.accountOf(store.Account{Scopes: []string{api.ScopeAll}})
	enrol := m.enrolToken.Reveal()
	kinds := []struct {
		name, text string
		kind       byte
	}{{"mse", enrol, 'e'}, {"msb", m.boot.Reveal(), 'b'}, {"msb's fetch part", m.boot.FetchPart(), 'b'}, {"msk", m.psk, 'k'}}
	var all []caller
	for _, k := range kinds {
		for _, where := range []string{asBearer, inQuery, inPath} {
			all = append(all, caller{name: k.name + " in " + where, shows: shown{k.text, k.kind, where}})
		}
	}
	for _, where := range []string{asBasic, asKey, inQuery, inPath} {
		all = append(all, caller{name: "msa in " + where, shows: shown{api, 'a', where}})
	}
	return append(all, caller{name: "a PSK's id", shows: shown{m.pskID, 0, asBearer}})
}

// applicants are those who register, with a good credential or not.
func (m *matrix) applicants() []caller {
	enrolKey, err := sign.EnrollKey(m.enrolToken.Secret)
	m.must(err)
	pskKey, err := sign.PSKKey(m.psk)
	m.must(err)
	boundNode, bound := m.bootstrapToken()
	boundKey, err := sign.EnrollKey(bound.Secret)
	m.must(err)
	applicant := func(what, id string, kind byte, e enrolment) caller {
		_, csr, err := keyAndRequest(e.name)
		m.must(err)
		e.csr = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: csr.Raw}))
		return caller{name: what, shows: shown{id, kind, asMAC}, enrols: &e}
	}
	return []caller{
		applicant("a holder of mse", m.enrolToken.Public(), 'e', enrolment{key: enrolKey, name: m.name("box")}),
		applicant("a holder of msk", m.pskID, 0, enrolment{key: pskKey, name: m.name("box")}),
		applicant("a holder of msb", bound.Public(), 'b', enrolment{key: boundKey, name: boundNode}),
		applicant("who knows the id of mse alone", m.enrolToken.Public(), 'e', enrolment{key: pskKey, name: "guess", code: wire.CodeBadMAC}),
		applicant("who made a token up", "mse_none1234", 'e', enrolment{key: pskKey, name: "guess", code: wire.CodeUnknownCredential}),
	}
}

// bootstrapToken makes a node that waits for its bootstrap.
func (m *matrix) bootstrapToken() (name string, token sign.Token) {
	m.t.Helper()
	by := store.Actor{Name: "test"}
	node, err := m.gateway.fleet.Create(m.t.Context(), api.CreateNodeRequest{Name: m.name("bound"), Tenant: ours}, by)
	m.must(err)
	minted, err := m.gateway.bootstrap.MintNodeToken(m.t.Context(), bootstrap.NodeTokenRequest{Node: node.Node, TTL: time.Hour}, by)
	m.must(err)
	return node.Name, minted.Token
}

// dress makes a request look as the caller's do. self is the node that the caller is.
func (m *matrix) dress(r *http.Request, c caller, self *identity, body []byte) {
	m.t.Helper()
	switch c.shows.where {
	case asBearer:
		r.Header.Set("Authorization", "Bearer "+c.shows.text)
	case asBasic:
		r.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte("someone:"+c.shows.text)))
	case asMAC:
		r.Header.Set("Authorization", sign.Authorization(c.shows.text, c.enrols.key, body))
	case asKey:
		r.Header.Set(asKey, c.shows.text)
	}
	if self != nil && !c.mtls {
		_, err := self.signer.Sign(r, body, m.gateway.info.Epoch, time.Now())
		m.must(err)
	}
}

// body is the register request that an applicant sends.
func (e *enrolment) body() []byte {
	nonce := make([]byte, 16)
	rand.Read(nonce)
	body, _ := json.Marshal(wire.RegisterRequest{Protocol: wire.ProtocolVersion, Name: e.name, Nonce: base64.StdEncoding.EncodeToString(nonce),
		Time: time.Now(), CSR: e.csr, Agent: wire.AgentInfo{Version: "test", OS: "linux", Arch: "amd64"}})
	return body
}
