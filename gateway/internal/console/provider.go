package console

import "muster/gateway/internal/console/provider"

// showProviders lists what companies charge beside what the fleet hears. One account can be chosen in the address.
func (v *visit) showProviders() (page, error) {
	data := provider.Of(v.Query, v.now)
	err := data.Fill(v.r.Context(), v.api)
	return page{name: "providers", title: "Providers", section: "providers", data: data}, err
}
