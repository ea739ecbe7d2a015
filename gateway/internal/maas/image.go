package maas

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"muster/agent/wire"
	"muster/gateway/internal/maas/region"
)

// hasImage refuses a series of which MAAS has no image; empty: the one of the settings. If MAAS does not tell its images, nothing is
// refused: MAAS refuses the deployment itself then.
func (s *Service) hasImage(ctx context.Context, series string) error {
	if series = cmp.Or(series, s.Series); series == "" {
		return nil // MAAS's own default
	}
	ctx, cancel := context.WithTimeout(ctx, renewTime)
	defer cancel()
	images, err := s.Region.Images(ctx)
	if err != nil {
		s.Logger.Warn("MAAS: its images cannot be seen", "error", err)
	}
	may := func(image string) bool { return region.MayInstall(image, series) }
	if err != nil || len(images) == 0 || slices.ContainsFunc(images, may) {
		return nil
	}
	return wire.Refuse(wire.CodeNotFound, "MAAS has no image of "+series,
		"it has "+strings.Join(images, ", ")+"; muster help images says more")
}
