package console

import (
	"strings"

	"muster/gateway/api"
)

type accountsPage struct {
	Accounts []api.Account
	All      bool
	Scopes   []api.Scope // that the form offers
	Made     *api.NewAccount
	Self     string // id
}

func (v *visit) showAccounts() (page, error) {
	all := v.Set("all")
	list, err := get[api.AccountList](v, api.PathAccounts, api.ListFilter{All: all})
	data := accountsPage{Accounts: list.Accounts, All: all, Scopes: v.givable(), Self: v.session.Account.ID}
	return page{name: "accounts", title: "Accounts", section: "accounts", data: data}, err
}

// givable are the scopes that this account can give to another.
func (v *visit) givable() []api.Scope {
	var all []api.Scope
	for _, scope := range api.Scopes() {
		if v.may.May(scope.Name) {
			scope.Opens = strings.ReplaceAll(scope.Opens, "`", "")
			all = append(all, scope)
		}
	}
	return all
}

// makeAccount answers with the page itself, which holds the API token: a redirect could not carry it.
func (v *visit) makeAccount() (page, error) {
	ttl, err := v.duration("ttl")
	if err != nil {
		return page{}, err
	}
	made, err := send[api.NewAccount](v, "POST", api.PathAccounts, api.AccountRequest{Name: v.field("name"),
		Scopes: v.r.PostForm["scope"], Tenant: v.field("tenant"), TTL: ttl})
	if err != nil {
		return page{}, err
	}
	return once(v, (*visit).showAccounts, func(data *accountsPage) { data.Made = &made }), nil
}

func (v *visit) revokeAccount() (page, error) {
	name := v.r.PathValue("account")
	return v.perform(deed{question{Title: "Revoke the account " + name + "?", Button: "Revoke " + name, Danger: true,
		Back: api.PathConsole + "accounts", Says: []string{"Its API token and its sessions in the console end at once.",
			"Accounts that it made stay.", "This cannot be undone: make the account again for a new token."}},
		"DELETE", api.At(api.PathAccount, name), nil}, "accounts")
}
