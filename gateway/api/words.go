package api

import "time"

// Statuses of tokens and accounts.
const (
	StatusLive    = "live"
	StatusUsed    = "used" // every use of a token is taken
	StatusExpired = "expired"
	StatusRevoked = "revoked"
)

// UTC is a time in UTC: the API shows no other zone.
func UTC(at *time.Time) *time.Time {
	if at == nil {
		return nil
	}
	u := at.UTC()
	return &u
}

// Each gives the shapes of rows. It is never nil, because a list in the API is never null.
func Each[Row, Shape any](rows []Row, shape func(Row) Shape) []Shape {
	out := make([]Shape, 0, len(rows))
	for _, row := range rows {
		out = append(out, shape(row))
	}
	return out
}

// Texts are these texts, and never null.
func Texts(texts map[string]string) map[string]string {
	if texts == nil {
		return map[string]string{}
	}
	return texts
}
