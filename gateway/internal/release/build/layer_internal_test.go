package build

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"muster/agent/wire"
	"muster/gateway/internal/artifact"
	"muster/gateway/internal/artifact/executable"
)

// elf is a program for a machine, with so many bytes of text.
func elf(arch string, size int) []byte {
	return executable.Least(arch, strings.Repeat("\x00", size))
}

const (
	amd64 = "amd64"
	arm64 = "arm64"
)

// file is an entry of an archive.
type file struct {
	name string
	kind byte
	link string
	body []byte
}

func regular(name string) file {
	return file{name: name, kind: tar.TypeReg, body: elf(amd64, 6000)}
}

func archive(files ...file) []byte {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		h := tar.Header{Name: f.name, Typeflag: f.kind, Linkname: f.link, Size: int64(len(f.body)), Mode: 0o755}
		if err := w.WriteHeader(&h); err != nil {
			panic(err)
		}
		if _, err := w.Write(f.body); err != nil {
			panic(err)
		}
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return out.Bytes()
}

func packed(content []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	w.Write(content)
	w.Close()
	return out.Bytes()
}

// bomb is a small gzip of very many blocks: those of a folder's header, or zeros behind an archive.
func bomb(block, behind []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	w.Write(behind)
	many := bytes.Repeat(block, (1<<20)/len(block))
	for range 64 {
		w.Write(many)
	}
	w.Close()
	return out.Bytes()
}

// largeHeader is the beginning of an archive with a program that is too large.
func largeHeader() []byte {
	var out bytes.Buffer
	if err := tar.NewWriter(&out).WriteHeader(&tar.Header{Name: ProgramName, Typeflag: tar.TypeReg, Size: wire.MaxProgram + 1}); err != nil {
		panic(err)
	}
	return out.Bytes()
}

func layerOf(mediaType string, content []byte) layer {
	return layer{mediaType: mediaType, digest: artifact.DigestOf(content), size: int64(len(content))}
}

func TestLayer(t *testing.T) {
	good := archive(regular(ProgramName))
	plain := elf(amd64, 6000)
	for name, c := range map[string]struct {
		mediaType string
		content   []byte
		want      string // of the refusal; "": none
	}{
		"the program":           {wire.MediaProgram, plain, ""},
		"tar":                   {wire.MediaTar, good, ""},
		"tar of docker":         {dockerTar, good, ""},
		"tar+gzip":              {wire.MediaTarGzip, packed(good), ""},
		"tar+gzip of docker":    {dockerGzip, packed(good), ""},
		"in a folder":           {wire.MediaTar, archive(file{name: "usr/", kind: tar.TypeDir}, regular("usr/bin/"+ProgramName)), ""},
		"no padding":            {wire.MediaTar, bytes.TrimRight(good, "\x00"), "cut off|no whole tar"},
		"much padding":          {wire.MediaTar, append(bytes.Clone(good), make([]byte, 10240)...), ""},
		"climbs":                {wire.MediaTar, archive(regular("../" + ProgramName)), "climbs out"},
		"climbs inside":         {wire.MediaTar, archive(regular("a/../../" + ProgramName)), "climbs out"},
		"absolute":              {wire.MediaTar, archive(regular("/bin/" + ProgramName)), "climbs out"},
		"a climbing folder":     {wire.MediaTar, archive(file{name: "../x/", kind: tar.TypeDir}), "climbs out"},
		"a symbolic link":       {wire.MediaTar, archive(file{name: ProgramName, kind: tar.TypeSymlink, link: "/bin/sh"}), "a link"},
		"a hard link":           {wire.MediaTar, archive(regular(ProgramName), file{name: "b", kind: tar.TypeLink, link: ProgramName}), "a link"},
		"a device":              {wire.MediaTar, archive(file{name: ProgramName, kind: tar.TypeChar}), "no regular file"},
		"a second file":         {wire.MediaTar, archive(regular(ProgramName), regular("x/"+ProgramName)), "a second file"},
		"another name":          {wire.MediaTar, archive(regular("agent")), "it must be muster-agent"},
		"empty":                 {wire.MediaTar, archive(), "has no file muster-agent"},
		"no tar":                {wire.MediaTar, plain, "no whole tar"},
		"no gzip":               {wire.MediaTarGzip, good, "no gzip"},
		"cut off":               {wire.MediaTar, good[:2000], "cut off within the program"},
		"cut off gzip":          {wire.MediaTarGzip, packed(good)[:60], "cut off|no whole tar|damaged"},
		"data behind the tar":   {wire.MediaTar, append(bytes.Clone(good), 'x'), "data after the archive's end"},
		"data behind the gzip":  {wire.MediaTarGzip, append(packed(good), 'x'), "data after its end"},
		"zeros behind the gzip": {wire.MediaTarGzip, append(packed(good), 0), "data after its end"},
		"a second gzip":         {wire.MediaTarGzip, append(packed(good), packed(good)...), "data after its end"},
		"endless padding":       {wire.MediaTar, append(bytes.Clone(good), make([]byte, mostPadding+1)...), "data after the archive's end"},
		"a bomb of folders":     {wire.MediaTarGzip, bomb(archive(file{name: "a/", kind: tar.TypeDir})[:512], nil), "more than 100 entries"},
		"a bomb of zeros":       {wire.MediaTarGzip, bomb([]byte{0}, good), "data after the archive's end"},
		"a large program":       {wire.MediaTar, largeHeader(), "is larger than"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := layerOf(c.mediaType, c.content).read(bytes.NewReader(c.content))
			if c.want == "" {
				if err != nil || p.digest != artifact.DigestOf(plain) || p.size != int64(len(plain)) || !bytes.Equal(p.head, plain[:executable.Head]) {
					t.Errorf("got %+v, %v", p, err)
				}
				return
			}
			refused(t, err, strings.Split(c.want, "|")...)
		})
	}
}

func refused(t *testing.T, err error, want ...string) {
	t.Helper()
	var detail *wire.ErrorDetail
	if !errors.As(err, &detail) || detail.Code != wire.CodeReleaseUnusable {
		t.Errorf("got %v", err)
		return
	}
	for _, one := range want {
		if strings.Contains(detail.Message, one) {
			return
		}
	}
	t.Errorf("got %q, want one of %q", detail.Message, want)
}

// TestLayerAsStated: size and digest are those of the manifest.
func TestLayerAsStated(t *testing.T) {
	content := packed(archive(regular(ProgramName)))
	l := layerOf(wire.MediaTarGzip, content)
	longer := l
	longer.size++
	_, err := longer.read(bytes.NewReader(content))
	refused(t, err, "cut off: it has")
	shorter := l
	shorter.size--
	_, err = shorter.read(bytes.NewReader(content))
	refused(t, err, "is larger than")
	other := l
	other.digest = artifact.DigestOf(nil)
	_, err = other.read(bytes.NewReader(content))
	refused(t, err, "has another digest")
	broken := errors.New("the disk is broken")
	_, err = l.read(io.MultiReader(bytes.NewReader(content[:10]), iotest.ErrReader(broken)))
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func TestCheckProgram(t *testing.T) {
	change := func(at int, to byte) []byte {
		b := elf(amd64, 100)
		b[at] = to
		return b
	}
	for name, c := range map[string]struct {
		content      []byte
		system, arch string
		want         string
	}{
		"amd64":                {elf(amd64, 100), "linux", "amd64", ""},
		"arm64":                {elf(arm64, 100), "linux", "arm64", ""},
		"position-independent": {change(16, 3), "linux", "amd64", ""},
		"of another machine":   {elf(arm64, 100), "linux", "amd64", "another machine"},
		"a wide machine":       {change(19, 1), "linux", "amd64", "another machine"},
		"32 bits":              {change(4, 1), "linux", "amd64", "no 64-bit ELF"},
		"big-endian":           {change(5, 2), "linux", "amd64", "no 64-bit ELF"},
		"a library's object":   {change(16, 1), "linux", "amd64", "a part of one"},
		"half of one":          {elf(amd64, 100)[:150], "linux", "amd64", "cut off or damaged"},
		"a script":             {[]byte("#!/bin/sh\nexec something-else\n"), "linux", "amd64", "no 64-bit ELF"},
		"short":                {[]byte("\x7fELF"), "linux", "amd64", "no 64-bit ELF"},
		"windows":              {elf(amd64, 100), "windows", "amd64", "there is no agent"},
		"riscv":                {elf(amd64, 100), "linux", "riscv64", "there is no agent"},
	} {
		p, err := readProgram(bytes.NewReader(c.content))
		if err != nil {
			t.Fatal(err)
		}
		err = checkProgram(p, c.system, c.arch)
		if c.want == "" && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if c.want != "" {
			refused(t, err, c.want)
		}
	}
	large := program{size: wire.MaxProgram + 1, head: elf(amd64, 0)}
	refused(t, checkProgram(large, "linux", "amd64"), "larger than")
}

// FuzzLayer: whatever the bytes are, nothing panics, and what is taken is a program of the stated bytes.
func FuzzLayer(f *testing.F) {
	good := archive(regular(ProgramName))
	f.Add(good, 0)
	f.Add(packed(good), 1)
	f.Add(elf(amd64, 30), 2)
	f.Add(append(packed(good), packed(good)...), 1)
	f.Fuzz(func(t *testing.T, content []byte, kind int) {
		types := []string{wire.MediaTar, wire.MediaTarGzip, wire.MediaProgram}
		p, err := layerOf(types[uint(kind)%3], content).read(bytes.NewReader(content))
		if err == nil && (p.size < 0 || len(p.digest) != digestLength || int64(len(p.head)) > p.size) {
			t.Errorf("got %+v", p)
		}
	})
}
