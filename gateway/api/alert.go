package api

import "time"

// Alert is one thing that people are told of.
type Alert struct {
	AlertFacts
	NodeIDs    []string        `json:"node_ids"`   // of those that it is about, where they are many
	Silence    *AlertSilence   `json:"silence"`    // that keeps it from being told; null: none
	Deliveries []AlertDelivery `json:"deliveries"` // what receivers were told
}

// AlertFacts is what an alert says, in lists and to webhooks.
type AlertFacts struct {
	ID         string     `json:"id"`
	Cause      string     `json:"cause"` // one of the table of conditions
	Subject    string     `json:"subject"`
	Severity   string     `json:"severity"`
	Tenant     string     `json:"tenant"` // empty: it is about the whole fleet
	Node       string     `json:"node"`   // empty: it is about no single node
	NodeID     string     `json:"node_id"`
	Text       string     `json:"text"`  // one sentence: what is wrong
	Next       string     `json:"next"`  // one sentence: what to do
	Topic      string     `json:"topic"` // of muster help
	Since      time.Time  `json:"since"`
	FiredAt    time.Time  `json:"fired_at"`
	ResolvedAt *time.Time `json:"resolved_at"` // null: it is open
}

// AlertDelivery is how far a receiver was told of an alert.
type AlertDelivery struct {
	Receiver string     `json:"receiver"`
	Told     string     `json:"told"` // firing or resolved; empty: nothing
	ToldAt   *time.Time `json:"told_at"`
	Waiting  bool       `json:"waiting"`  // there is more to tell
	GivenUp  bool       `json:"given_up"` // after a day of tries
	Tries    int        `json:"tries"`    // that failed
	Error    string     `json:"error"`
}

// AlertList answers GET alerts: the open ones first. At most MostAlerts are listed; Total counts all.
type AlertList struct {
	Alerts []Alert `json:"alerts"`
	Total  int     `json:"total"`
}

// MostAlerts is how many alerts one answer lists.
const MostAlerts = 2000

// AlertFilter picks alerts. A zero field does not count.
type AlertFilter struct {
	ID       string `json:"id,omitempty"`
	Selector string `json:"selector,omitempty"`
	Tenant   string `json:"tenant,omitempty"`
	Cause    string `json:"cause,omitempty"`
	All      bool   `json:"all,omitempty"` // resolved ones too
}

// AlertSilence keeps alerts from being told for a while. An empty condition is true of every alert.
type AlertSilence struct {
	ID        string    `json:"id"`
	Node      string    `json:"node"`
	Selector  string    `json:"selector"`
	Cause     string    `json:"cause"`
	Tenant    string    `json:"tenant"`
	Reason    string    `json:"reason"`
	CreatedAt time.Time `json:"created_at"`
	CreatedBy string    `json:"created_by"`
	EndsAt    time.Time `json:"ends_at"`
}

// AlertSilenceList answers GET alert-silences.
type AlertSilenceList struct {
	Silences []AlertSilence `json:"silences"`
}

// AlertSilenceRequest silences alerts.
type AlertSilenceRequest struct {
	Node     string   `json:"node,omitempty"`
	Selector string   `json:"selector,omitempty"`
	Cause    string   `json:"cause,omitempty"`
	Tenant   string   `json:"tenant,omitempty"`
	For      Duration `json:"for"`
	Reason   string   `json:"reason"`
}

// AlertReceiver is a receiver that is told of alerts. Its URL and its token are never shown.
type AlertReceiver struct {
	Name      string     `json:"name"`
	Kind      string     `json:"kind"`
	Host      string     `json:"host"`
	Selector  string     `json:"selector"`
	Tenant    string     `json:"tenant"`
	Causes    []string   `json:"causes"`   // empty: all
	Severity  string     `json:"severity"` // the least; empty: all
	Priority  int        `json:"priority"` // of ntfy; 0: by severity
	HasToken  bool       `json:"has_token"`
	CreatedAt time.Time  `json:"created_at"`
	CreatedBy string     `json:"created_by"`
	SentAt    *time.Time `json:"sent_at"` // the last that it took
	FailedAt  *time.Time `json:"failed_at"`
	Error     string     `json:"error"` // of the last try; empty: it went well
	Waiting   int        `json:"waiting"`
	GivenUp   int        `json:"given_up"`
	Secret    string     `json:"secret,omitempty"` // of a new webhook, shown once: it signs what the webhook gets
}

// AlertReceiverList answers GET alert-receivers.
type AlertReceiverList struct {
	Receivers []AlertReceiver `json:"receivers"`
}

// AlertReceiverRequest says what a receiver is to be. Without Replace, a name that exists is refused. With Replace and without a URL, the
// receiver keeps its URL and its token.
type AlertReceiverRequest struct {
	Kind     string   `json:"kind"`
	URL      string   `json:"url,omitempty"`
	Token    string   `json:"token,omitempty"`
	Selector string   `json:"selector,omitempty"`
	Tenant   string   `json:"tenant,omitempty"`
	Causes   []string `json:"causes,omitempty"`
	Severity string   `json:"severity,omitempty"`
	Priority int      `json:"priority,omitempty"`
	Replace  bool     `json:"replace,omitempty"` // a receiver of this name is changed
}

// AlertTest answers a test of a receiver.
type AlertTest struct {
	Delivered bool   `json:"delivered"`
	Status    int    `json:"status"` // of the receiver's answer; 0: there was none
	TookMS    int64  `json:"took_ms"`
	Error     string `json:"error"`
	Next      string `json:"next"`
}
