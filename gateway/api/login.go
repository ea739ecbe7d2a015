package api

import "time"

// Paths of the console.
const (
	PathConsole = "/ui/" // begins all of them
	PathLogin   = PathConsole + "login"
)

// LoginRequest asks for a code that logs a browser in to the console.
type LoginRequest struct {
	// Account is a name or an id. Empty: the caller's own; on the socket the account "operator". Nobody else than the caller can be named,
	// but on the socket.
	Account string `json:"account,omitempty"`
}

// Login answers a LoginRequest: the only time that the code is shown.
type Login struct {
	Account   string    `json:"account"` // its name
	Code      string    `json:"code"`    // good once
	URL       string    `json:"url"`     // of the login page, with the code behind #, which no browser sends
	ExpiresAt time.Time `json:"expires_at"`
}
