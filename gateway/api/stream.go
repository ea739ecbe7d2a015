package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
)

// Kinds of what the stream tells, which are also the names of its server-sent events.
const (
	StreamNode  = "node"  // data: StreamNodes
	StreamBrief = "brief" // data: StreamBriefs; instead of StreamNode, what the console's page of the fleet shows
	StreamTask  = "task"  // data: TaskPage
	StreamEvent = "event" // data: EventList
	StreamLost  = "lost"  // something was left out: load again what is shown
)

// StreamType is the media type of server-sent events.
const StreamType = "text/event-stream"

// HeaderLastEvent says up to which event a reader has the log. The stream goes on there.
const HeaderLastEvent = "Last-Event-ID"

// StreamKinds are the kinds that a reader can ask for.
func StreamKinds() []string { return []string{StreamNode, StreamBrief, StreamTask, StreamEvent} }

// StreamNodes tells of nodes that changed, each as it is now, and of those that the reader's query picks no more, by id.
type StreamNodes struct {
	Nodes []*NodeRow `json:"nodes"`
	Gone  []string   `json:"gone"`
}

// StreamBriefs tells of nodes that changed: of most the live values alone.
type StreamBriefs struct {
	Nodes []Brief  `json:"nodes"`
	Alive []Live   `json:"alive"`
	Gone  []string `json:"gone"`
}

// StreamFilter picks what a stream tells. A zero field does not count.
type StreamFilter struct {
	Selector string   `json:"selector,omitempty"`
	Tenant   string   `json:"tenant,omitempty"`
	All      bool     `json:"all,omitempty"`   // retired nodes too
	Kinds    []string `json:"kinds,omitempty"` // none: nodes
}

// ReadStreamNodes reads what a StreamNode tells.
func ReadStreamNodes(data []byte) (n StreamNodes, err error) {
	if err = json.Unmarshal(data, &n); err != nil {
		return n, fmt.Errorf("the gateway's stream is not as this version expects: %w", err)
	}
	return n, nil
}

// LastEvent reads HeaderLastEvent; 0: it is missing, or the gateway has not given this value.
func LastEvent(r *http.Request) int64 {
	id, err := strconv.ParseInt(r.Header.Get(HeaderLastEvent), 10, 64)
	if err != nil || id < 0 {
		return 0
	}
	return id
}
