package console

// For tests of this package.
var (
	SafePath   = safePath
	SetPath    = setPath
	TopicIn    = topicIn
	MostChange = mostChanged
)
