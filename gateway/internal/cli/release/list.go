package release

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"

	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

// shortDigest is how much of a digest is enough for a person: the algorithm and 12 digits.
const shortDigest = len("sha256:") + 12

// short cuts a digest if nothing is copied from it.
func short(digest string) string {
	return screen.OrUnknown(digest[:min(len(digest), shortDigest)])
}

func platforms(r api.Release) string { return strings.Join(r.Platforms, ", ") }

func releaseList(ctx context.Context, s *cli.Session) error {
	columns := []screen.Column{
		{Name: "VERSION", Least: 8, Most: 40}, {Name: "DIGEST"}, {Name: "CHANNELS", Least: 8}, {Name: "PLATFORMS", Rank: 2, Least: 12},
		{Name: "SIZE", Rank: 4}, {Name: "SIGNED BY", Rank: 5}, {Name: "AGE", Rank: 1}, {Name: "BY", Rank: 3, Least: 8, Most: 30},
		{Name: "REFERENCE", Wide: true},
	}
	return cli.ShowList(ctx, s, api.PathReleases, nil, columns, func(l api.ReleaseList) [][]string {
		return cli.Rows(l.Releases, func(r api.Release) []string { return releaseRow(s, r, s.Form == cli.FormWide) })
	})
}

func releaseRow(s *cli.Session, r api.Release, wide bool) []string {
	digest := short(r.Digest)
	if wide {
		digest = screen.OrUnknown(r.Digest)
	}
	by := r.CreatedBy
	if r.Carried {
		by = "this gateway"
	}
	return []string{r.Version, digest, strings.Join(r.Channels, ","), strings.Join(r.Platforms, ","), bytesOf(layers(r)), r.SignedBy,
		screen.Age(s.Now().Sub(r.CreatedAt)), by, r.Reference}
}

// layers is how much all that nodes fetch of a release takes.
func layers(r api.Release) int64 {
	var sum int64
	for _, p := range r.Programs {
		sum += p.Size
	}
	return sum
}

func releaseShow(ctx context.Context, s *cli.Session) error {
	return cli.Show(ctx, s, http.MethodGet, api.At(api.PathRelease, s.Words[0]), nil, func(r api.Release) {
		rows := [][]string{
			{"version", r.Version}, {"digest", r.Digest},
			{"channels", cmp.Or(strings.Join(r.Channels, ", "), "none")}, {"signed by", cmp.Or(r.SignedBy, "none")},
			{"lies in", cmp.Or(r.Reference, "this gateway's registry")},
			{"made", fmt.Sprintf("%s by %s (%s)", screen.Stamp(&r.CreatedAt), screen.OrUnknown(r.CreatedBy), screen.Ago(s.Now(), r.CreatedAt))},
		}
		for _, p := range r.Programs {
			rows = append(rows, []string{p.OS + "/" + p.Arch, fmt.Sprintf("%s, %s", p.Program, bytesOf(p.ProgramSize))})
		}
		screen.Pairs(s.Stdout, s.Screen(), rows)
	})
}

func releaseDrop(ctx context.Context, s *cli.Session) error {
	r, err := cli.Get[api.Release](ctx, s, api.At(api.PathRelease, s.Words[0]), nil)
	if err != nil {
		return err
	}
	deed := "take release " + r.Version + " (" + short(r.Digest) + ") off the record"
	said := "Release " + r.Version + " is off the record. Its content stays in the registry until it is deleted there."
	return s.Drop(ctx, api.At(api.PathRelease, r.Digest), nil, deed, said)
}
