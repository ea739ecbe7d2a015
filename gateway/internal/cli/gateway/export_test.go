package gateway

// WithSettings sets flags in one.
var WithSettings = withSettings
