package adminapi

// NewSocketError is what a client says about a socket that it could not use.
var NewSocketError = newSocketError

// ExplainURL is what a client says about a gateway on another machine that it did not reach.
var ExplainURL = explainURL
