package adminapi

// ExplainSocket is what a client says about a socket that it could not use.
var ExplainSocket = explainSocket
