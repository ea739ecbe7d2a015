package history

import (
	"context"

	"muster/store/engine"
)

// Framed puts a body into a whole frame of each kind.
func Framed(body []byte) [][]byte {
	return [][]byte{appendFrame(nil, kindSamples, body), appendFrame(nil, kindPoints, compress(body))}
}

// Spoil changes a byte in the middle of a row.
func Spoil(f *File, t Tier) error {
	_, err := f.db.Batch(context.Background(), []engine.Statement{{SQL: "UPDATE " + t.table() +
		" SET data = CAST(substr(data, 1, length(data) / 2) || x'ff' || substr(data, length(data) / 2 + 2) AS BLOB)"}})
	return err
}
