package api

// Done answers a change that has nothing else to show.
type Done struct {
	ID     string `json:"id,omitempty"`
	Status string `json:"status"`
}
