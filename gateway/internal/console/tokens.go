package console

import (
	"cmp"
	"net/url"

	"muster/gateway/api"
	"muster/gateway/internal/console/form"
)

type tokensPage struct {
	Tokens []api.Token
	All    bool
	Made   *api.NewToken // shown once
}

func (v *visit) showTokens() (page, error) {
	all := v.Set("all")
	list, err := get[api.TokenList](v, api.PathTokens, api.ListFilter{All: all})
	return page{name: "tokens", title: "Tokens", section: "tokens", data: tokensPage{Tokens: list.Tokens, All: all}}, err
}

// mintToken answers with the page itself, which holds the token: a redirect could not carry it.
func (v *visit) mintToken() (page, error) {
	made, err := v.minted()
	if err != nil {
		return page{}, err
	}
	return once(v, (*visit).showTokens, func(data *tokensPage) { data.Made = &made }), nil
}

func (v *visit) minted() (api.NewToken, error) {
	uses, badUses := v.number("uses")
	gpus, badGPUs := v.number("gpus")
	ttl, badTTL := v.duration("ttl")
	labels, badLabels := form.Pairs(v.field("labels"))
	if err := cmp.Or(badUses, badGPUs, badTTL, badLabels); err != nil {
		return api.NewToken{}, err
	}
	return send[api.NewToken](v, "POST", api.PathTokens, api.TokenRequest{Tenant: v.field("tenant"),
		Uses: uses, TTL: ttl, Labels: labels, GPUs: gpus, BindInstance: v.field("bind") != ""})
}

func (v *visit) revokeToken() (page, error) {
	return page{to: api.PathConsole + "tokens"}, v.do("DELETE", api.At(api.PathToken, v.r.PathValue("token")), nil)
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
