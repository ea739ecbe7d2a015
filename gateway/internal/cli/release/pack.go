package release

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/artifact/executable"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

// programName is how every agent is called.
const programName = "muster-agent"

// emptyConfig is the config of every manifest, which says nothing.
const emptyConfig = "{}"

// Annotations of OCI.
const (
	annotationTitle   = "org.opencontainers.image.title"
	annotationVersion = "org.opencontainers.image.version"
	annotationCreated = "org.opencontainers.image.created"
)

// program is one platform's agent in a file.
type program struct {
	file     string
	system   string
	arch     string
	digest   string
	size     int64
	manifest []byte // that names it
}

func (p program) platform() string { return p.system + "/" + p.arch }

// bundle is a release as it is pushed.
type bundle struct {
	programs []program
	index    []byte
	digest   string // of the index
}

// descriptor names some content, as OCI has it.
type descriptor struct {
	MediaType    string            `json:"mediaType"`
	ArtifactType string            `json:"artifactType,omitempty"`
	Digest       string            `json:"digest"`
	Size         int64             `json:"size"`
	Annotations  map[string]string `json:"annotations,omitempty"`
	Platform     *platform         `json:"platform,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

// document is a manifest, or an index of manifests. The order of its fields is that of the bytes.
type document struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	ArtifactType  string            `json:"artifactType"`
	Config        *descriptor       `json:"config,omitempty"`
	Layers        []descriptor      `json:"layers,omitempty"`
	Manifests     []descriptor      `json:"manifests,omitempty"`
	Annotations   map[string]string `json:"annotations"`
}

// pack makes the release of some programs. The same files, version and time give the same digest on every machine.
func pack(programs []program, version string, created time.Time) bundle {
	annotations := map[string]string{annotationVersion: version, annotationCreated: created.UTC().Format(time.RFC3339)}
	slices.SortFunc(programs, func(a, b program) int { return strings.Compare(a.platform(), b.platform()) })
	out := document{SchemaVersion: 2, MediaType: wire.MediaIndex, ArtifactType: wire.ArtifactAgent, Annotations: annotations}
	for i := range programs {
		p := &programs[i]
		p.manifest = encode(document{
			SchemaVersion: 2, MediaType: wire.MediaManifest, ArtifactType: wire.ArtifactAgent, Annotations: annotations,
			Config: &descriptor{MediaType: wire.MediaEmpty, Digest: digestOf([]byte(emptyConfig)), Size: int64(len(emptyConfig))},
			Layers: []descriptor{{MediaType: wire.MediaProgram, Digest: p.digest, Size: p.size,
				Annotations: map[string]string{annotationTitle: programName}}},
		})
		out.Manifests = append(out.Manifests, descriptor{
			MediaType: wire.MediaManifest, ArtifactType: wire.ArtifactAgent, Digest: digestOf(p.manifest), Size: int64(len(p.manifest)),
			Platform: &platform{Architecture: p.arch, OS: p.system},
		})
	}
	raw := encode(out)
	return bundle{programs: programs, index: raw, digest: digestOf(raw)}
}

// created is the time that a release says. A build that is to be repeatable has it in SOURCE_DATE_EPOCH, as reproducible-builds.org asks;
// without it the release says no real time.
func created(getenv func(string) string) (time.Time, error) {
	text := getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		return time.Unix(0, 0), nil
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seconds < 0 || seconds > 1<<38 {
		return time.Time{}, cli.Usagef("seconds since 1970, such as $(git log -1 --format=%ct)", "SOURCE_DATE_EPOCH has the value %q", text)
	}
	return time.Unix(seconds, 0), nil
}

// find gives the programs that the words name: folders, files, and files with their platform as os/arch=FILE.
func find(words []string) ([]program, error) {
	var programs []program
	for _, word := range words {
		found, err := findIn(word)
		if err != nil {
			return nil, err
		}
		programs = append(programs, found...)
	}
	seen := map[string]string{}
	for i := range programs {
		p := &programs[i]
		if err := p.read(); err != nil {
			return nil, err
		}
		if other := seen[p.platform()]; other != "" {
			return nil, cli.Hinted(fmt.Sprintf("%s and %s are both for %s", other, p.file, p.platform()),
				"a release has one agent for each platform")
		}
		seen[p.platform()] = p.file
	}
	return programs, nil
}

// findIn gives the programs of one word.
func findIn(word string) ([]program, error) {
	if named, file, ok := strings.Cut(word, "="); ok && !strings.HasPrefix(word, ".") && !strings.HasPrefix(word, "/") {
		system, arch, ok := strings.Cut(named, "/")
		if !ok || system == "" || arch == "" || file == "" {
			return nil, cli.Usagef("write it as linux/amd64=FILE", "%q names no platform", named)
		}
		return []program{{file: file, system: system, arch: arch}}, nil
	}
	info, err := os.Stat(word)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, cli.Hinted("there is no file or folder "+screen.Printable(word),
			"make build, in muster's source, leaves both platforms in gateway/agents")
	}
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []program{{file: word}}, nil
	}
	return findInFolder(word)
}

// findInFolder takes FOLDER/muster-agent-linux-amd64 and FOLDER/linux-amd64/muster-agent.
func findInFolder(folder string) ([]program, error) {
	var programs []program
	for _, pattern := range []string{programName + "-*-*", "*-*/" + programName} {
		files, err := filepath.Glob(filepath.Join(quoteGlob(folder), pattern))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			name := strings.TrimPrefix(filepath.Base(file), programName+"-")
			if filepath.Base(file) == programName {
				name = filepath.Base(filepath.Dir(file))
			}
			system, arch, _ := strings.Cut(name, "-")
			if arch != "" && !strings.Contains(arch, ".") { // a signature or a checksum may lie beside it
				programs = append(programs, program{file: file, system: system, arch: arch})
			}
		}
	}
	if len(programs) == 0 {
		return nil, cli.Hinted("no agent in "+folder,
			"it needs files such as muster-agent-linux-amd64 or linux-amd64/muster-agent; make build makes them")
	}
	return programs, nil
}

func quoteGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// read fills in what the file itself says: its platform, its digest and its size.
func (p *program) read() error {
	file, err := os.Open(p.file)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if err := p.judge(file, info.Size()); err != nil {
		return err
	}
	hash := sha256.New()
	p.size, err = io.Copy(hash, io.NewSectionReader(file, 0, wire.MaxProgram+1))
	if err == nil && p.size > wire.MaxProgram {
		err = fmt.Errorf("%s is larger than %d bytes, and no agent is", p.file, wire.MaxProgram)
	}
	p.digest = "sha256:" + hex.EncodeToString(hash.Sum(nil))
	return err
}

// judge compares the platform that the name says with the one that the program is for, and refuses what no node could start. The gateway
// refuses the same.
func (p *program) judge(file io.ReaderAt, size int64) error {
	head := make([]byte, min(size, executable.Head))
	if _, err := file.ReadAt(head, 0); err != nil && err != io.EOF {
		return err
	}
	arch := executable.Arch(head)
	if p.system == "" {
		p.system, p.arch = "linux", arch
	}
	const hint = "make build makes programs for Linux in bin and gateway/agents"
	if arch != "" && p.platform() != "linux/"+arch {
		return cli.Hinted(fmt.Sprintf("%s is a program for linux/%s, not for %s", p.file, arch, p.platform()), "name the right file")
	}
	if err := executable.Check(head, size, p.arch); err != nil {
		return cli.Hinted(p.file+" "+err.Error(), hint)
	}
	return nil
}

func digestOf(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// encode writes JSON in which keys and fields have a fixed order.
func encode(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic("release: " + err.Error()) // texts and numbers always encode
	}
	return raw
}
