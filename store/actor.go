package store

// Actor is who does something, as events name them: "operator:socket", "account:ci", "token:mse_ab12", "node:<id>",
// "gateway". Address is where the request came from, empty for the gateway itself.
type Actor struct {
	Name    string
	Address string
}
