package web

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/client"
)

type tokensPage struct {
	Tokens []client.Token
	All    bool
	Made   *client.NewToken // shown once
}

func (v *visit) showTokens() (page, error) {
	all := v.asked("all") != ""
	list, err := v.api.Tokens(v.r.Context(), "", all)
	return page{name: "tokens", title: "Tokens", section: "tokens", data: tokensPage{Tokens: list.Tokens, All: all}}, err
}

// mintToken answers with the page itself, which holds the token: a redirect could not carry it.
func (v *visit) mintToken() (page, error) {
	made, err := v.minted()
	if err != nil {
		return v.stay((*visit).showTokens, "mint", err)
	}
	shown, err := v.showTokens()
	if err != nil { // the token is made: it must be seen, with or without the list
		shown = page{name: "tokens", title: "Tokens", section: "tokens", data: tokensPage{}}
	}
	data, _ := shown.data.(tokensPage)
	data.Made = &made
	shown.data = data
	return shown, nil
}

func (v *visit) minted() (client.NewToken, error) {
	uses, err := v.number("uses")
	if err != nil {
		return client.NewToken{}, err
	}
	gpus, err := v.number("gpus")
	if err != nil {
		return client.NewToken{}, err
	}
	ttl, err := v.duration("ttl")
	if err != nil {
		return client.NewToken{}, err
	}
	labels, err := readPairs(v.field("labels"))
	if err != nil {
		return client.NewToken{}, err
	}
	return v.api.CreateToken(v.r.Context(), client.TokenRequest{Tenant: v.field("tenant"), Uses: uses, TTL: ttl, Labels: labels, GPUs: gpus,
		BindInstance: v.field("bind") != ""})
}

func (v *visit) revokeToken() (page, error) {
	if err := v.api.RevokeToken(v.r.Context(), v.r.PathValue("token")); err != nil {
		return v.stay((*visit).showTokens, "list", err)
	}
	return page{to: client.PathConsole + "tokens"}, nil
}

// number is 0 where the form says none.
func (v *visit) number(name string) (int, error) {
	text := v.field(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, wire.Refuse(wire.CodeBadRequest, "the field "+name+" is no whole number", "write 8, or leave it empty")
	}
	return n, nil
}

// duration is 0 where the form says none.
func (v *visit) duration(name string) (client.Duration, error) {
	text := v.field(name)
	if text == "" {
		return 0, nil
	}
	d, err := client.ParseDuration(text)
	if err != nil || d < time.Second {
		return 0, wire.Refuse(wire.CodeBadRequest, "the field "+name+" is no duration", "write 30m, 12h or 7d, or leave it empty")
	}
	return client.Duration(d), nil
}

// readPairs reads NAME=text, one in a line or behind a comma.
func readPairs(text string) (map[string]string, error) {
	pairs := map[string]string{}
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == '\n' || r == '\r' }) {
		if strings.TrimSpace(part) == "" {
			continue
		}
		name, value, ok := strings.Cut(part, "=")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return nil, wire.Refuse(wire.CodeBadRequest, "a label is not NAME=text", "write tier=sovereign, one in a line")
		}
		pairs[name] = strings.TrimSpace(value)
	}
	if len(pairs) == 0 {
		return nil, nil
	}
	return pairs, nil
}

// with is the URL of this page with other values in its query; an empty value is left out.
func (v *visit) with(values ...string) string {
	q := url.Values{}
	for name, old := range v.r.URL.Query() {
		if len(old) > 0 && old[0] != "" {
			q.Set(name, old[0])
		}
	}
	for i := 0; i+1 < len(values); i += 2 {
		q.Del(values[i])
		if values[i+1] != "" {
			q.Set(values[i], values[i+1])
		}
	}
	if len(q) == 0 {
		return v.r.URL.Path
	}
	return v.r.URL.Path + "?" + q.Encode()
}
