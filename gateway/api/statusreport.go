package api

import "time"

// StatusReport is what muster status shows: one look at a gateway and its fleet. The client puts it together from the answers that it may
// read. Parts that it may not read are null, and named in Unread.
type StatusReport struct {
	Gateway    Gateway   `json:"gateway"`
	Fleet      *Totals   `json:"fleet"`
	Wrong      []Trouble `json:"wrong"`       // the severe first, then the dearest, then the oldest; at most MostTroubles
	WrongTotal int       `json:"wrong_total"` // nodes with findings or alerts, and alerts about no single node
	Severe     int       `json:"severe"`      // of WrongTotal
	Silenced   int       `json:"silenced"`    // alerts that a silence keeps back; they are not in Wrong
	Unread     []Unread  `json:"unread"`
}

// MostTroubles is how many a StatusReport lists.
const MostTroubles = 50

// Trouble is what is worst about one node, or one alert that is about no single node.
type Trouble struct {
	Severity string    `json:"severity"`
	Cause    string    `json:"cause"` // one of the table of conditions
	Node     string    `json:"node"`  // empty: it is about no single node
	NodeID   string    `json:"node_id"`
	Alert    string    `json:"alert"` // its id; empty: no alert tells of it yet
	Text     string    `json:"text"`
	Next     string    `json:"next"`
	Since    time.Time `json:"since"`
	Command  string    `json:"command"` // that shows all of it

	PricePerHour *float64 `json:"price_per_hour"` // of the node; null: it has none, or it is not known
}

// Unread is a part of a report that could not be read.
type Unread struct {
	Part string `json:"part"`
	Why  string `json:"why"`
}

// Outcomes of a Check. What is not known is not well.
const (
	CheckOK      = "ok"
	CheckWarn    = "warn"
	CheckFailed  = "failed"
	CheckUnknown = "unknown"
)

// CheckOutcomes are the outcomes, the best first.
func CheckOutcomes() []string { return []string{CheckOK, CheckUnknown, CheckWarn, CheckFailed} }

// DoctorReport is what muster doctor found. The client puts it together.
type DoctorReport struct {
	Checks []Check `json:"checks"`
}

// Check is one thing that was looked at.
type Check struct {
	Check   string `json:"check"`
	Outcome string `json:"outcome"` // one of CheckOutcomes
	Seen    string `json:"seen"`    // one sentence
	Next    string `json:"next"`    // what to do; empty: nothing
}
