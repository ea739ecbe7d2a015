package console

import "net/http"

// For tests of this package.
var (
	SafePath   = safePath
	SetPath    = setPath
	TopicIn    = topicIn
	MostChange = mostChanged
)

// Inside is the transport that calls a handler.
func Inside(h http.Handler) http.RoundTripper { return inside{h} }
