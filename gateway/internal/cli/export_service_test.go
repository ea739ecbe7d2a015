package cli

// WithSettings sets flags in one.
var WithSettings = withSettings
