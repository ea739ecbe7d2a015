package update

// RecordFile is a file in the state directory.
const RecordFile = "update.json"

// Record is the content of update.json in the state directory. The version before and the next one read it too, so a decoder takes what
// it knows and leaves the rest. Times of a trial are not of a clock that somebody can set: see Trial.
type Record struct {
	Node    string           `json:"node,omitempty"`    // whose floors these are: another enrolment begins anew
	Channel string           `json:"channel,omitempty"` // as the gateway has provably said
	Floors  map[string]int64 `json:"floors,omitempty"`  // by channel: the highest number that this node has obeyed
	Last    Last             `json:"last,omitzero"`     // the last update
	Failed  []Failure        `json:"failed,omitempty"`  // what did not prove itself here, the oldest first
}

// Last is an update under way, or the last one. Phase and Code are wire.Update's.
type Last struct {
	Channel string `json:"channel,omitempty"`
	Release string `json:"release,omitempty"` // digest of the release
	About   int64  `json:"about,omitempty"`   // sequence number of the pointer that named it
	Version string `json:"version,omitempty"`
	Phase   string `json:"phase,omitempty"`
	Code    string `json:"code,omitempty"`
	Detail  string `json:"detail,omitempty"`
	Log     string `json:"log,omitempty"`  // the last lines of a version that the node has gone back from
	Told    bool   `json:"told,omitempty"` // a heartbeat with this end was accepted

	From  string `json:"from,omitempty"` // builds in the layout, in hex: the one before
	To    string `json:"to,omitempty"`   // and the one on trial
	Trial *Trial `json:"trial,omitempty"`
}

// Trial counts what a version on trial has had. Its times are in milliseconds since the boot that it names, and for how long it has been
// going on in all. A clock that is set changes none of them.
type Trial struct {
	Boot     string `json:"boot"`
	At       int64  `json:"at"`                 // since the boot: when the rest was written
	Window   int64  `json:"window"`             // how long it had by then, since the last extension
	Spent    int64  `json:"spent"`              // how long it had by then, all in all
	Starts   int    `json:"starts"`             // by Settle
	Up       int    `json:"up"`                 // of them, the last one in which the new version came up itself
	GaveUp   string `json:"gave_up,omitempty"`  // the new version ended itself, because of that
	Extended int    `json:"extended,omitempty"` // how often
	LogSize  int64  `json:"log_size,omitempty"` // of the log when the trial began
}

// Failure is a release that failed on this node. It is tried again only for a higher number.
type Failure struct {
	Channel  string `json:"channel"`
	Digest   string `json:"digest"` // of the release
	Sequence int64  `json:"seq"`
}
