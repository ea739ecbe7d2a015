package registry

import (
	"context"

	"muster/store/engine"
)

// ForgetBlobs deletes the records of blobs whose files are gone, so that they can be pushed again. Manifests that name them stay.
func (r Records) ForgetBlobs(ctx context.Context, digests []string) error {
	if len(digests) == 0 {
		return nil
	}
	list := engine.JSON(digests)
	return r.write(ctx,
		engine.Do("DELETE FROM registry_links WHERE digest IN (SELECT value FROM json_each(?))", list),
		engine.Do("DELETE FROM registry_blobs WHERE digest IN (SELECT value FROM json_each(?))", list))
}
