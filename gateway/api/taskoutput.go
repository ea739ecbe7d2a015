package api

// What a task has written, and the file that it has made.
const (
	TaskOutputType  = "text/plain"
	TaskArchiveType = "application/octet-stream"

	// HeaderTaskOffset says at which offset of the task's whole output an answer begins.
	HeaderTaskOffset = "Muster-Task-Offset"
)

// TaskOutputFilter says what of a task's output to send.
type TaskOutputFilter struct {
	Follow bool   `json:"follow,omitempty"` // until the task has ended
	From   *int64 `json:"from,omitempty"`   // this byte, without a gap; nil: as a person reads it
}
