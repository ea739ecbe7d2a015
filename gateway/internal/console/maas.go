package console

import (
	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/machines"
	"muster/gateway/internal/console/maas"
)

const maasPath = api.PathConsole + "maas"

// ofMAAS is the provider of the nodes that are machines of MAAS.
const ofMAAS = "maas"

// showMAAS lists what MAAS says of machines beside what the fleet hears. One state can be chosen in the address.
func (v *visit) showMAAS() (page, error) {
	data := maas.Of(v.Query)
	err := data.Fill(v.r.Context(), v.api)
	return page{name: "maas", title: "MAAS", section: ofMAAS, data: data}, err
}

// machine is what MAAS says of a node; nil: it is none of its machines, or the account may not see them.
func (v *visit) machine(n *api.NodeDetail) (*maas.Machine, error) {
	if !v.MAAS || n.Provider != ofMAAS || v.may.Tenant != "" {
		return nil, nil
	}
	m, err := get[machines.Machine](v, api.At(api.PathMachine, n.ID), nil)
	switch {
	case refusedBy(err, wire.CodeNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	drawn := maas.MachineOf(m)
	return &drawn, nil
}
