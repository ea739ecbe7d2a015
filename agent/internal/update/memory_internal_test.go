package update

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"muster/agent/internal/identity"
	"muster/agent/internal/transport"
	"muster/agent/internal/transport/gatewaytest"
	"muster/agent/wire"
)

// pullFolder is a variable for another process of this test: the folder of an agent that pulls.
const pullFolder = "MUSTER_TEST_PULL"

const (
	mostMore = 24 << 20 // bytes of memory that the largest layer may take beyond a small one
	smallOne = 1 << 20
)

// largest is an archive of a program, of so many bytes less a little, that nothing makes smaller.
func largest(t *testing.T, size int) (layer []byte, p wire.ReleasePlatform) {
	t.Helper()
	body := make([]byte, size-64<<10)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(body)
	copy(body, "#!/bin/sh\necho muster-agent 2\nexit 0\n")
	var out bytes.Buffer
	out.Grow(size)
	packed, err := gzip.NewWriterLevel(&out, gzip.NoCompression)
	if err != nil {
		t.Fatal(err)
	}
	archive := tar.NewWriter(packed)
	if err := archive.WriteHeader(&tar.Header{Name: "muster-agent", Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(body))}); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{write(archive, body), archive.Close(), packed.Close()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes(), wire.ReleasePlatform{
		MediaType: wire.MediaTarGzip, Digest: digestPrefix + hexOf(out.Bytes()), Size: int64(out.Len()), Program: digestPrefix + hexOf(body),
		ProgramSize: int64(len(body)),
	}
}

func write(to *tar.Writer, body []byte) error {
	_, err := to.Write(body)
	return err
}

// pulls has another process pull, verify, unpack, install and try a layer of this size, and gives the most memory that it had.
func pulls(t *testing.T, way transport.Way, layer []byte, p wire.ReleasePlatform) (peak int64) {
	t.Helper()
	g := gatewaytest.New(t)
	f := newFleet(t)
	g.Route = func(q gatewaytest.Request) *gatewaytest.Reply {
		if q.Path != wire.ReleaseBlobPath(p.Digest) {
			return nil
		}
		return &gatewaytest.Reply{Status: 200, Body: layer, Header: map[string]string{"ETag": `"` + p.Digest + `"`}}
	}
	n := newFilesWith(t)
	state := g.Node(t)
	state.Gateway.URL = gatewaytest.Listen(t, g, nil)
	state.Gateway.Channel = "stable"
	state.Gateway.Trust = f.state().Gateway.Trust
	if err := os.Chmod(n.Base, 0o700); err != nil {
		t.Fatal(err)
	}
	directory, err := identity.Open(n.Base)
	if err == nil {
		err = directory.Save(state)
		directory.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	release := f.release([]byte(program), func(pointer *wire.ReleasePointer) {
		for i := range pointer.Platforms {
			p.OS = pointer.Platforms[i].OS
			p.Arch = pointer.Platforms[i].Arch
			pointer.Platforms[i] = p
		}
	})
	release.URL = wire.ReleaseBlobPath(p.Digest)
	raw, err := json.Marshal(release)
	if err == nil {
		err = os.WriteFile(filepath.Join(n.Base, "release"), raw, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command(os.Args[0], "-test.run=^TestConstantMemory$", "-test.v")
	child.Env = append(os.Environ(), pullFolder+"="+n.Base, "WAY="+string(way))
	out, err := child.CombinedOutput()
	_, text, _ := strings.Cut(string(out), "VmHWM ")
	text, _, _ = strings.Cut(text, "\n")
	peak, unread := strconv.ParseInt(text, 10, 64)
	if err != nil || unread != nil {
		t.Fatalf("%v, %v:\n%s", err, unread, out)
	}
	build := strings.TrimPrefix(p.Program, digestPrefix)
	if !(&Updater{files: n}).isThere(build) {
		t.Error("the program is not there")
	}
	return peak
}

// pull is the other process.
func pull(t *testing.T, folder string) {
	state, err := identity.Read(folder)
	if err != nil {
		t.Fatal(err)
	}
	client, err := transport.New(transport.Config{Gateway: state.Gateway.URL, Way: transport.Way(os.Getenv("WAY"))})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	id, err := state.Transport()
	if err != nil {
		t.Fatal(err)
	}
	client.Use(id)
	var release wire.Release
	raw, err := os.ReadFile(filepath.Join(folder, "release"))
	if err != nil || json.Unmarshal(raw, &release) != nil {
		t.Fatal(err)
	}
	n := newFiles(folder)
	u := New(Config{Client: client, State: state, Folder: folder, Digest: digestPrefix + n.Current(),
		Hold: func(context.Context) (func(), bool) { return func() {}, true }})
	w, err := u.check(release)
	if err == nil {
		err = u.get(t.Context(), w, release)
	}
	if err != nil {
		t.Fatal(err)
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, line, _ := strings.Cut(string(status), "VmHWM:")
	var kilobytes int64
	if _, err := fmt.Sscan(line, &kilobytes); err != nil {
		t.Fatal(err)
	}
	fmt.Println("VmHWM", kilobytes<<10)
}

// TestConstantMemory: the largest layer takes no more memory than a small one, and neither does a large one through curl.
func TestConstantMemory(t *testing.T) {
	if folder := os.Getenv(pullFolder); folder != "" {
		pull(t, folder)
		return
	}
	small, smallPlatform := largest(t, smallOne)
	if room, err := (&Updater{files: newFiles(t.TempDir())}).room(); err != nil || room < 4*wire.MaxLayer {
		t.Skipf("not run: the disk of temporary files has %d MB free, %v", room>>20, err)
	}
	for _, way := range []transport.Way{transport.Direct, transport.Curl} {
		if _, err := exec.LookPath("curl"); err != nil && way == transport.Curl {
			t.Skip("not run through curl: there is none here")
		}
		before := pulls(t, way, small, smallPlatform)
		size := wire.MaxLayer
		if way == transport.Curl {
			size /= 4
		}
		large, largePlatform := largest(t, size)
		after := pulls(t, way, large, largePlatform)
		t.Logf("%s: %d KiB for a layer of %d KiB, %d KiB for one of %d KiB", way, before>>10, len(small)>>10, after>>10, len(large)>>10)
		if after > before+mostMore {
			t.Errorf("%s: %d bytes for a layer of %d bytes, %d bytes for one of %d bytes", way, before, len(small), after, len(large))
		}
	}
}
