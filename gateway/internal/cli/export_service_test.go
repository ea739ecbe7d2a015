package cli

// ParseEnv reads a settings file of the service.
var ParseEnv = parseEnv

// WithSettings sets flags in one.
var WithSettings = withSettings
