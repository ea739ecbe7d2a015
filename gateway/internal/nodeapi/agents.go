package nodeapi

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"io/fs"
	"net/http"
	"path"
	"sort"
	"strings"
	"sync"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/door"
	"muster/gateway/internal/reply"
)

// agentFile is the name of every agent binary below its <os>-<arch> folder.
const agentFile = "muster-agent"

// agents are the binaries that the gateway carries. They are hashed when first asked for and never copied into memory.
type agents struct {
	files   fs.FS
	version string
	list    func() []wire.Platform
}

func newAgents(files fs.FS, version string) *agents {
	a := &agents{files: files, version: version}
	a.list = sync.OnceValue(a.find)
	return a
}

// find lists what is there. A binary that cannot be read is left out: without its digest nobody may trust it.
func (a *agents) find() []wire.Platform {
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

func (a *agents) digest(name string) (size int64, sum string, err error) {
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
func (a *agents) open(system, arch string) (wire.Platform, io.ReadSeekCloser, bool) {
	for _, p := range a.list() {
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

// Platforms lists the agents that this gateway carries, by their paths.
func (a *API) Platforms() []wire.Platform { return a.agents.list() }

// installer serves the joining script. Nothing on the way may change its bytes: an operator may hold their digest.
func (a *API) installer(w http.ResponseWriter, r *http.Request) {
	if a.Installer == nil {
		a.Info.WriteError(w, wire.Refuse(wire.CodeNotFound, "this gateway has no installer",
			"copy muster-agent to the machine and run: muster-agent join"))
		return
	}
	script, err := a.Installer(r)
	if err != nil {
		a.Info.WriteError(w, err)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Cache-Control", "no-store, no-transform")
	h.Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(script)
}

func (a *API) manifest(w http.ResponseWriter, _ *http.Request) {
	reply.Write(w, http.StatusOK, reply.JSON(wire.Manifest{Version: a.agents.version, Platforms: a.agents.list()}))
}

// binary serves one agent. A download that broke off can go on where it ended.
func (a *API) binary(w http.ResponseWriter, r *http.Request) {
	platform, file, ok := a.agents.open(r.PathValue("os"), r.PathValue("arch"))
	if !ok {
		a.Info.WriteError(w, wire.Refuse(wire.CodeNotFound, "this gateway carries no agent for that platform",
			"GET /agent lists what it carries; a gateway that carries none was built without: make build"))
		return
	}
	defer file.Close()
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("ETag", `"sha256:`+platform.SHA256+`"`)
	http.ServeContent(door.Patient(w), r, "", time.Time{}, file)
}
