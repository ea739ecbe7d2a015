package adminapi

// NewSocketError is what a client says about a socket that it could not use.
var NewSocketError = newSocketError
