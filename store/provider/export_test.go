package provider

// Queries that are asked for each rental, and in each round.
const (
	BlindQuery  = "SELECT " + blind
	WantedQuery = "SELECT " + wanted
	LiveQuery   = "SELECT 1 FROM rentals x WHERE " + live
)

// OverQuery is what a limit asks.
func OverQuery(of string) string { return "SELECT " + over(of) }
