package main

import (
	"context"
	"strings"

	"muster/agent/wire"
	"muster/gateway/internal/bootstrap"
	"muster/gateway/internal/release"
	"muster/store"
	"muster/store/releases"
)

// scriptRelease is what the bootstrap script of a node installs: the release of its channel.
func (g *gateway) scriptRelease(ctx context.Context, nodeID string) (bootstrap.Release, error) {
	now, ok, err := g.releases.Newcomer(ctx, nodeID)
	if err != nil || !ok || now.Digest == "" {
		return bootstrap.Release{}, err
	}
	at := release.Repository(now.Release)
	if !release.Elsewhere(now.Release) {
		at = strings.TrimPrefix(g.settings.publicURL, "https://") + "/" + at
	}
	r := bootstrap.Release{Reference: at + "@" + now.Digest, Digest: now.Digest, Channel: now.Channel, Sequence: now.Sequence}
	for _, p := range now.Platforms {
		r.Platforms = append(r.Platforms, wire.ReleasePlatform(p))
	}
	return r, nil
}

// newcomer tells the machine of a script what its channel points at now, and lends it a pass for that. The pass is made when the script
// runs, not when it is made: between the two there may be a day.
func (g *gateway) newcomer(ctx context.Context, n store.Node, arch string) (*wire.Release, error) {
	now, ok, err := g.releases.Newcomer(ctx, n.ID)
	if err != nil || !ok {
		return nil, err
	}
	layer := layerFor(now.Release, arch)
	if layer == "" {
		return nil, nil
	}
	out := &wire.Release{Channel: now.Channel, Sequence: now.Sequence, Digest: now.Digest, Size: now.Size, Pointer: []byte(now.Pointer)}
	if now.Pointer == "" {
		out.Pointer = []byte("null")
	}
	if release.Elsewhere(now.Release) {
		out.URL, out.Authorization, err = g.releases.Place(ctx, now.Release, layer)
		return out, err
	}
	at := release.Repository(now.Release)
	out.URL = wire.PathRegistry + at + "/blobs/" + layer
	out.Authorization = "Bearer " + g.passes.PullToken(at, bootstrap.FetchWindow)
	return out, nil
}

func layerFor(r releases.Release, arch string) string {
	for _, p := range r.Platforms {
		if p.OS == "linux" && p.Arch == arch {
			return p.Digest
		}
	}
	return ""
}
