package artifact

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"muster/store"
	"muster/store/registry"
)

// ErrNotThere says that another gateway has answered, and that it does not have the blob.
var ErrNotThere = errors.New("it is not there")

// mostFailed is how many blobs in a row may fail before a mirror gives up: then it is the way that fails, and not a blob.
const mostFailed = 5

// Mirror makes the folder of a registry that is not open, such as that of a standby gateway, agree with the records. It fetches the blobs
// that are missing, and removes those that have no record any more. It goes on after a blob that cannot be fetched. It returns how many it
// has fetched, and the error of the first that it could not fetch.
func Mirror(ctx context.Context, records store.Records, path string, fetch func(Info) (io.ReadCloser, error)) (fetched int, err error) {
	f := folder{path: path}
	if err := f.make(); err != nil {
		return 0, err
	}
	var first error
	old := time.Now().Add(-grace)
	row := 0 // failures
	known := map[string]bool{}
	err = Each(ctx, registry.On(records), func(blob Info) error {
		known[blob.Digest] = true
		if f.has(blob) {
			return ctx.Err()
		}
		content, err := fetch(blob)
		if err == nil {
			err = errors.Join(f.take(blob, content), content.Close())
		}
		if err == nil {
			fetched++
			row = 0
			return ctx.Err()
		}
		first = cmp.Or(first, fmt.Errorf("%s: %w", blob.Digest, err))
		if row++; errors.Is(err, ErrNotThere) {
			row = 0
		}
		if row == mostFailed {
			return errors.New("the next ones failed too")
		}
		return ctx.Err()
	})
	if err != nil { // known is not all
		return fetched, errors.Join(first, err)
	}
	// What is new stays: the active gateway records a blob when a copy of it is here already.
	return fetched, errors.Join(first, f.forget(known, old))
}

// forget removes the blobs that are not known, and the uploads, that were written before a time.
func (f folder) forget(known map[string]bool, before time.Time) error {
	var failed error
	for _, algorithm := range []string{SHA256, SHA512} {
		failed = errors.Join(failed, f.forgetIn(f.algorithm(algorithm), before, func(name string) bool {
			digest := algorithm + ":" + name
			_, err := ParseDigest(digest)
			return err == nil && !known[digest]
		}))
	}
	return errors.Join(failed, f.forgetIn(f.uploads(), before, isUpload))
}

func (f folder) forgetIn(dir string, before time.Time, gone func(name string) bool) error {
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		if !gone(entry.Name()) {
			continue
		}
		info, failed := entry.Info()
		switch {
		case errors.Is(failed, fs.ErrNotExist):
		case failed != nil:
			err = errors.Join(err, failed)
		case info.ModTime().Before(before):
			err = errors.Join(err, f.remove(filepath.Join(dir, entry.Name())))
		}
	}
	return err
}
