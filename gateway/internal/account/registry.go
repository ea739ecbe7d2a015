package account

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/account/secret"
)

// ErrLogin is in the error of a caller who shows no credential, or a pass that has run out. Each client of a registry begins so: the
// refusal tells it where to get a pass.
var ErrLogin = errors.New("a login is needed")

// registry finds out who calls the registry: by a pass, or by an account's API token. Both may come as Bearer, or in the place of the
// password of Basic.
func (g *Gate) registry(r *http.Request, who Caller) (Caller, error) {
	if len(r.Header["Authorization"]) == 0 {
		return who, fmt.Errorf("%w: %w", ErrLogin, wire.Refuse(wire.CodeUnauthorized, "the registry needs a login",
			"log in with an account's name and its API token as the password, such as: docker login"))
	}
	name, text, err := shown(r)
	if err != nil {
		return who, err
	}
	pass, err := g.Passes.read(text)
	switch {
	case err == nil && pass.Account == "":
		who.Actor.Name = "pass:" + pass.ID
		who.Scopes = []string{api.ScopeReleasesRead}
		who.Pass = pass
		return who, nil
	case errors.Is(err, errLapsed):
		return who, fmt.Errorf("%w: %w", ErrLogin, wire.Refuse(wire.CodeUnauthorized, "this pass has run out", "get another"))
	case g.Logins != nil && !g.Logins(r):
		return who, wire.Refuse(wire.CodeForbidden, "accounts do not log in to the registry here",
			"use the gateway's own TLS port or its socket; through a proxy only with --admin-behind-proxy")
	case err == nil:
		who.Pass = pass // it is good as long as its account is
		return g.known(r.Context(), who, pass.Account, "pass")
	}
	return g.login(r, who, name, text)
}

// login takes an API token. With a user's name, it has to be that account's.
func (g *Gate) login(r *http.Request, who Caller, name, text string) (Caller, error) {
	known, err := g.token(r.Context(), who, text)
	if err == nil && name != "" && name != known.Account.Name && name != known.Account.ID {
		return who, wire.Refuse(wire.CodeUnauthorized, "the API token is not of the account "+fmt.Sprintf("%.80q", secret.Redact(name)),
			"the user's name is that of the account: muster account ls")
	}
	return known, err
}

// shown is what a request shows in the header Authorization, with the user's name where the scheme is Basic.
func shown(r *http.Request) (name, text string, err error) {
	scheme, coded, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Basic") || len(r.Header["Authorization"]) != 1 {
		text, err = bearer(r)
		return "", text, err
	}
	plain, err := base64.StdEncoding.DecodeString(strings.TrimSpace(coded))
	name, text, ok := strings.Cut(string(plain), ":")
	if err != nil || !ok {
		return "", "", wire.Refuse(wire.CodeUnauthorized, "the login cannot be read", "the scheme Basic takes base64 of NAME:API-TOKEN")
	}
	return name, text, nil
}
