package artifact

import (
	"context"
	"errors"
	"io"

	"muster/store"
	"muster/store/registry"
)

// Mirror fetches the blobs that are on record and not in the folder of a registry that is not open, as that of a gateway that stands by. It
// goes on after a blob that cannot be fetched, and tells how many it has fetched.
func Mirror(ctx context.Context, records store.Records, path string, fetch func(Info) (io.ReadCloser, error)) (fetched int, err error) {
	f := folder{path: path}
	if err := f.make(); err != nil {
		return 0, err
	}
	var failed error
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
		}
		failed = errors.Join(failed, err)
		return ctx.Err()
	})
	return fetched, errors.Join(failed, err)
}
