package main

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"muster/agent/wire"
	"muster/gateway/internal/account"
	"muster/gateway/internal/artifact"
	"muster/gateway/internal/bootstrap"
	"muster/gateway/internal/nodeapi"
	"muster/gateway/internal/release"
	"muster/gateway/internal/release/build"
	"muster/store"
	"muster/store/releases"
)

// openReleases opens the registry of agent releases, whose blobs lie in a folder beside the database, and what decides which agent each
// node runs. A gateway whose own agents do not get into its registry serves all the same: a full disk must not keep its nodes from it.
func (p *parts) openReleases(ctx context.Context, b base) (err error) {
	agents := b.settings.agents
	if agents == nil {
		if agents, err = agentFiles(); err != nil {
			return err
		}
	}
	if err := b.settings.holdsAgents(agents); err != nil {
		return err
	}
	p.agents = nodeapi.NewAgents(agents, version)
	c := artifact.Config{Folder: b.settings.registryFolder(), Records: b.store.Records(),
		MaxBlob: int64(b.settings.RegistryMaxBlob), Quota: int64(b.settings.RegistryQuota), Logger: b.log}
	if b.peers != nil {
		c.Copy, c.Fetch = b.peers.Copy, b.peers.FetchAny
	}
	p.artifacts, err = artifact.Open(ctx, c)
	if err != nil {
		return err
	}
	if p.passes, err = account.OpenPasses(ctx, b.store, nil); err != nil {
		return err
	}
	p.releases, err = release.Open(ctx, release.Config{Store: b.store, Artifacts: p.artifacts, Sign: b.authority.SignRelease,
		Keys: b.authority.ReleaseKeys, CountAgain: b.audit.Told, Severe: p.health.SevereSince,
		Report: func(nodeID string) { p.tasks.Report(nodeID) }, Logger: b.log})
	if err != nil {
		return err
	}
	if _, err := p.releases.Import(ctx, agents, version); err != nil {
		b.log.Error("the agents that this gateway carries are no release", "error", err)
	}
	return nil
}

// holdsAgents refuses a bound of the registry that is below the agents that this gateway carries: its nodes would get none of them.
func (s *settings) holdsAgents(agents fs.FS) error {
	if agents == nil {
		return nil
	}
	names, err := fs.Glob(agents, "*-*/"+build.ProgramName)
	if err != nil {
		return err
	}
	var all size
	for _, name := range names {
		info, err := fs.Stat(agents, name)
		if err != nil {
			return err
		}
		one := size(info.Size())
		all += one
		if most := s.RegistryMaxBlob; most > 0 && one > most {
			return fmt.Errorf("%s allows a blob %d bytes, and the agent %s that this gateway carries has %d: give it at least so many, "+
				"such as 64MiB, or leave it out", artifact.SettingMaxBlob, most, path.Dir(name), one)
		}
	}
	if most := s.RegistryQuota; most > 0 && all > most {
		return fmt.Errorf("%s allows all blobs %d bytes, and the agents that this gateway carries have %d: give it room for several releases, "+
			"such as 1GiB, or leave it out", artifact.SettingQuota, most, all)
	}
	return nil
}

// scriptRelease is what the bootstrap script of a node installs: the release of its channel.
func scriptRelease(ctx context.Context, service *release.Service, url, nodeID string) (bootstrap.Release, error) {
	now, ok, err := service.Newcomer(ctx, nodeID)
	if err != nil || !ok || now.Digest == "" {
		return bootstrap.Release{}, err
	}
	at := release.Repository(now.Release)
	if !release.Elsewhere(now.Release) {
		at = strings.TrimPrefix(url, "https://") + "/" + at
	}
	r := bootstrap.Release{Reference: at + "@" + now.Digest, Digest: now.Digest, Channel: now.Channel, Sequence: now.Sequence}
	for _, p := range now.Platforms {
		r.Platforms = append(r.Platforms, wire.ReleasePlatform(p))
	}
	return r, nil
}

// newcomer tells the machine of a script what its channel points at now, and lends it a pass for that. The pass is made when the script
// runs, not when it is made: between the two there may be a day.
func (p *parts) newcomer(ctx context.Context, n store.Node, arch string) (*wire.Release, error) {
	now, ok, err := p.releases.Newcomer(ctx, n.ID)
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
		out.URL, out.Authorization, err = p.releases.Place(ctx, now.Release, layer)
		return out, err
	}
	at := release.Repository(now.Release)
	out.URL = wire.PathRegistry + at + "/blobs/" + layer
	out.Authorization = "Bearer " + p.passes.PullToken(at, bootstrap.FetchWindow)
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
