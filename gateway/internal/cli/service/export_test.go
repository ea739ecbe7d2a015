package service

// WithSettings sets flags in one.
var WithSettings = withSettings
