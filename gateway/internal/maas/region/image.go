package region

import (
	"context"
	"errors"
	"slices"
	"strings"

	"muster/agent/wire"
)

// Images returns the names of what MAAS can install, sorted, such as ubuntu/noble, and custom/NAME of what people have uploaded.
func (c *Client) Images(ctx context.Context) (all []string, err error) {
	err = c.do(ctx, request{path: "boot-resources/"}, rows(rawImage.name, func(name string) error {
		if !strings.HasPrefix(name, "grub-") && !strings.HasPrefix(name, "pxelinux/") { // these only start machines
			all = append(all, name)
		}
		return nil
	}))
	slices.Sort(all)
	return slices.Compact(all), err // one name has an image for each architecture and kernel
}

type rawImage struct{ Name string }

func (r rawImage) name() (string, error) {
	name := wire.Plain(r.Name, longestWord)
	switch {
	case name == "":
		return "", errors.New("an image has no name")
	case !strings.Contains(name, "/"):
		return "custom/" + name, nil
	}
	return name, nil
}

// MayInstall reports whether MAAS may take an image for a series. It takes the whole name, the release or the system alone, and the
// beginning of a release. It also takes versions such as 24.04, of which its list of images says nothing.
func MayInstall(image, series string) bool {
	system, release, _ := strings.Cut(image, "/")
	of, want, both := strings.Cut(series, "/")
	if !both {
		of, want = system, series
	}
	return of == system && (want == system || strings.HasPrefix(release, want) || strings.IndexAny(want, "0123456789") == 0)
}
