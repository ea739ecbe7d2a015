package web

// For tests of this package.
var (
	SafePath   = safePath
	ReadPairs  = readPairs
	ReadParams = readParams
	SetPath    = setPath
	TopicIn    = topicIn
	MostChange = mostChanged
)
