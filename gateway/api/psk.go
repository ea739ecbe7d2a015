package api

import "time"

// PSKRequest sets or rotates the cluster's pre-shared key: one of the two fields.
type PSKRequest struct {
	Generate bool   `json:"generate,omitempty"`
	Secret   string `json:"secret,omitempty"`
}

// NewPSK answers a PSKRequest. Secret is there only when the gateway made it, and only this once.
type NewPSK struct {
	ID     string `json:"id"`
	Secret string `json:"secret,omitempty"`
}

// PSK is a live pre-shared key, named by its key's hash.
type PSK struct {
	ID        string    `json:"id"`
	CreatedAt time.Time `json:"created_at"`
}

// PSKList answers GET psk.
type PSKList struct {
	PSKs []PSK `json:"psks"`
}

// PSKFilter says which pre-shared key stays when the others end; empty: none.
type PSKFilter struct {
	Keep string `json:"keep,omitempty"`
}
