package api

// What a task has written, and the file that it has made.
const (
	TaskOutputType  = "text/plain"
	TaskArchiveType = "application/octet-stream"

	// HeaderTaskOffset says where an answer's first byte stands in all that the task has written.
	HeaderTaskOffset = "Muster-Task-Offset"
)
