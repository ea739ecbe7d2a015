package artifact

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"muster/store"
	"muster/store/registry"
)

// mostFailed is how many blobs in a row may fail before a mirror gives up: then it is the way that fails, and not a blob.
const mostFailed = 5

// Mirror fetches the blobs that are on record and not in the folder of a registry that is not open, as that of a gateway that stands by. It
// goes on after a blob that cannot be fetched, and tells how many it has fetched. The error is that of the first which it could not.
func Mirror(ctx context.Context, records store.Records, path string, fetch func(Info) (io.ReadCloser, error)) (fetched int, err error) {
	f := folder{path: path}
	if err := f.make(); err != nil {
		return 0, err
	}
	var first error
	row := 0 // failures
	err = each(ctx, registry.On(records), func(blob Info) error {
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
		if row++; row == mostFailed {
			return errors.New("the next ones failed too")
		}
		return ctx.Err()
	})
	return fetched, errors.Join(first, err)
}
