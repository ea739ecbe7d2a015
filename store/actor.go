package store

// Actor is who does something.
type Actor struct {
	Name    string // as events show it: "operator:socket", "account:ci", "token:mse_ab12", "node:<id>", "gateway"
	Address string // where the request came from; empty for the gateway itself
}
