package stepca

import (
	"crypto/ecdsa"
	"log/slog"
	"time"
)

// ReadKey reads a JWK provisioner's key with its id.
func ReadKey(file string) (*ecdsa.PrivateKey, string, error) {
	f, err := openCredential(Config{Settings: Settings{KeyFile: file}, Now: time.Now, Logger: slog.Default()})
	if err != nil {
		return nil, "", err
	}
	return f.Current().key, f.Current().keyID, nil
}

// ParseKey and ParseAnswer read foreign bytes.
var (
	ParseKey    = parseKey
	ParseAnswer = parseAnswer
)
