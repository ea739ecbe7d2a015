package nodeapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"io/fs"
	"net/http"
	"path"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/httpserver"
	"muster/gateway/internal/release"
	"muster/gateway/internal/reply"
	"muster/store/releases"
)

// agentFile is the name of every agent binary below its <os>-<arch> folder.
const agentFile = "muster-agent"

const sha256Prefix = "sha256:"

// Agents are the binaries that the gateway carries. They are hashed when they are first asked for, and never copied into memory.
type Agents struct {
	files   fs.FS
	version string
	// List returns them by their paths.
	List func() []wire.Platform
}

// NewAgents makes the Agents of the binaries in files, <os>-<arch>/muster-agent, of one version. files may have none.
func NewAgents(files fs.FS, version string) *Agents {
	a := &Agents{files: files, version: version}
	a.List = sync.OnceValue(a.find)
	return a
}

// find lists what is there. A binary that cannot be read is left out: without its digest nobody may trust it.
func (a *Agents) find() []wire.Platform {
	found := []wire.Platform{}
	if a.files == nil {
		return found
	}
	names, err := fs.Glob(a.files, "*/"+agentFile)
	if err != nil {
		return found
	}
	for _, name := range names {
		system, arch, ok := strings.Cut(path.Dir(name), "-")
		size, sum, err := a.digest(name)
		if ok && err == nil {
			found = append(found, wire.Platform{OS: system, Arch: arch, Size: size, SHA256: sum, Path: wire.AgentPath(system, arch)})
		}
	}
	sort.Slice(found, func(i, j int) bool { return found[i].Path < found[j].Path })
	return found
}

func (a *Agents) digest(name string) (size int64, sum string, err error) {
	file, err := a.files.Open(name)
	if err != nil {
		return 0, "", err
	}
	defer file.Close()
	hash := sha256.New()
	size, err = io.Copy(hash, file)
	return size, hex.EncodeToString(hash.Sum(nil)), err
}

// open gives one platform's binary; the caller closes it.
func (a *Agents) open(system, arch string) (wire.Platform, io.ReadSeekCloser, bool) {
	for _, p := range a.List() {
		if p.OS != system || p.Arch != arch {
			continue
		}
		file, err := a.files.Open(system + "-" + arch + "/" + agentFile)
		if err != nil {
			return p, nil, false
		}
		seeker, ok := file.(io.ReadSeekCloser)
		if !ok {
			file.Close()
		}
		return p, seeker, ok
	}
	return wire.Platform{}, nil, false
}

// newest is the release that a machine begins with of which nothing is known yet, where it lies in this gateway's registry.
func (a *API) newest(ctx context.Context) releases.Release {
	if a.Releases == nil {
		return releases.Release{}
	}
	n, _, err := a.Releases.Newcomer(ctx, "")
	if err != nil || release.Elsewhere(n.Release) {
		return releases.Release{}
	}
	return n.Release
}

// Manifest lists the agents with which a machine begins: those of the default channel if they are plain programs, else those that this
// gateway carries. The version is that of the channel's release if one of the agents belongs to it.
func (a *API) Manifest() wire.Manifest {
	all, version := slices.Clone(a.Agents.List()), a.Agents.version
	newest := a.newest(context.Background())
	for _, p := range newest.Platforms {
		one := wire.Platform{OS: p.OS, Arch: p.Arch, Size: p.ProgramSize, SHA256: strings.TrimPrefix(p.Program, sha256Prefix),
			Path: wire.AgentPath(p.OS, p.Arch)}
		at, carried := slices.BinarySearchFunc(all, one, func(a, b wire.Platform) int { return strings.Compare(a.Path, b.Path) })
		if p.MediaType != wire.MediaProgram {
			continue
		}
		version = newest.Version
		if carried {
			all[at] = one
		} else {
			all = slices.Insert(all, at, one)
		}
	}
	return wire.Manifest{Version: version, Platforms: all}
}

// installer serves the joining script. Nothing on the way may change its bytes: an operator may hold their digest.
func (a *API) installer(w http.ResponseWriter, r *http.Request) {
	if a.Installer == nil {
		a.Info.WriteError(w, wire.Refuse(wire.CodeNotFound, "this gateway has no installer",
			"copy muster-agent to the machine and run: muster-agent join"))
		return
	}
	script, err := a.Installer(a.Manifest(), r)
	if err != nil {
		a.Info.WriteError(w, err)
		return
	}
	reply.Begin(w, "text/plain; charset=utf-8")
	_, _ = w.Write(script)
}

func (a *API) manifest(w http.ResponseWriter, _ *http.Request) {
	reply.Write(w, http.StatusOK, reply.JSON(a.Manifest()))
}

// program gives the agent with a digest, and the one that this gateway carries if nobody has it: who asks compares the digest.
func (a *API) program(r *http.Request, sum string) (string, io.ReadSeekCloser, bool) {
	of := a.newest(r.Context())
	for _, p := range of.Platforms {
		if p.MediaType == wire.MediaProgram && p.Program == sha256Prefix+sum {
			blob, err := a.Releases.Artifacts.Blob(r.Context(), release.Repository(of), p.Digest)
			return sum, blob, err == nil
		}
	}
	platform, file, ok := a.Agents.open(r.PathValue("os"), r.PathValue("arch"))
	return platform.SHA256, file, ok
}

// binary serves one agent. A download that broke off can go on where it ended.
func (a *API) binary(w http.ResponseWriter, r *http.Request) {
	sum, file, ok := a.program(r, r.URL.Query().Get(wire.AgentDigest))
	if !ok {
		a.Info.WriteError(w, wire.Refuse(wire.CodeNotFound, "this gateway has no such agent for that platform",
			"GET /agent lists what it has now; a gateway that carries none was built without: make build"))
		return
	}
	defer file.Close()
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("ETag", `"sha256:`+sum+`"`)
	http.ServeContent(httpserver.Patient(w), r, "", time.Time{}, file)
}
