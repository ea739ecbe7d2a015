package api

// Statuses of tokens and accounts.
const (
	StatusLive    = "live"
	StatusUsed    = "used" // every use of a token is taken
	StatusExpired = "expired"
	StatusRevoked = "revoked"
)
