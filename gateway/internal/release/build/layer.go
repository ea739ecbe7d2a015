package build

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"path"
	"strings"

	"muster/agent/wire"
	"muster/gateway/internal/artifact/executable"
	"muster/store/releases"
)

// Media types of layers as docker names them.
const (
	dockerTar  = "application/vnd.docker.image.rootfs.diff.tar"
	dockerGzip = "application/vnd.docker.image.rootfs.diff.tar.gzip"
)

// What an archive may hold besides the program. With the bound of the program, this bounds what a small gzip unpacks to.
const (
	mostEntries = 100
	mostPadding = 1 << 20
)

// program is what a layer holds.
type program struct {
	digest string
	size   int64
	head   []byte // its first bytes
}

// layer is what is told of a layer, and what it must be.
type layer struct {
	mediaType string
	digest    string
	size      int64
}

// knownLayer tells whether nodes can open layers of this type.
func knownLayer(mediaType string) bool {
	return mediaType == wire.MediaProgram || isTar(mediaType) || isGzip(mediaType)
}

func isTar(mediaType string) bool  { return mediaType == wire.MediaTar || mediaType == dockerTar }
func isGzip(mediaType string) bool { return mediaType == wire.MediaTarGzip || mediaType == dockerGzip }

// read reads a layer to its end, checks its size and digest, and finds the program in it.
func (l layer) read(content io.Reader) (program, error) {
	whole := newCounted(io.LimitReader(content, l.size+1))
	found, err := l.open(whole)
	if err == nil || whole.failed == nil {
		_, drained := io.Copy(io.Discard, whole) // the digest of all of it says more than where the archive broke
		err = errors.Join(err, drained)
	}
	switch {
	case whole.failed != nil:
		return program{}, fmt.Errorf("read the layer %s: %w", l.digest, whole.failed)
	case whole.count > l.size:
		return program{}, Unusable("the layer %s is larger than the %d bytes that its manifest says", l.digest, l.size)
	case whole.count < l.size:
		return program{}, Unusable("the layer %s is cut off: it has %d bytes of %d", l.digest, whole.count, l.size)
	case whole.digest() != l.digest:
		return program{}, Unusable("the layer %s has another digest, %s", l.digest, whole.digest())
	}
	return found, err
}

func (l layer) open(content io.Reader) (program, error) {
	if isTar(l.mediaType) {
		return readTar(content, l.digest)
	}
	if !isGzip(l.mediaType) {
		return readProgram(content)
	}
	packed := bufio.NewReader(content)
	unpacked, err := gzip.NewReader(packed)
	if err != nil {
		return program{}, Unusable("the layer %s is no gzip", l.digest)
	}
	unpacked.Multistream(false)
	found, err := readTar(unpacked, l.digest)
	if err != nil {
		return program{}, err
	}
	if _, err := packed.ReadByte(); err != io.EOF {
		return program{}, Unusable("the layer %s has data after its end", l.digest)
	}
	return found, nil
}

// readTar reads an archive with one file, in any folder.
func readTar(content io.Reader, digest string) (program, error) {
	var found *program
	archive := tar.NewReader(content)
	for entries := 0; ; entries++ {
		header, err := archive.Next()
		if err == io.EOF {
			break
		}
		if entries == mostEntries {
			return program{}, Unusable("the layer %s has more than %d entries: it may have one file, and its folders", digest, mostEntries)
		}
		if err != nil {
			return program{}, Unusable("the layer %s is no whole tar archive: %v", digest, err)
		}
		if header.Typeflag == tar.TypeDir && inside(header.Name) {
			continue
		}
		if err := checkEntry(header, found != nil, digest); err != nil {
			return program{}, err
		}
		read, err := readProgram(archive)
		if err != nil {
			return program{}, Unusable("the layer %s is cut off within the program", digest)
		}
		found = &read
	}
	if found == nil {
		return program{}, Unusable("the layer %s has no file %s", digest, ProgramName)
	}
	return *found, onlyZeros(content, digest)
}

func checkEntry(header *tar.Header, second bool, digest string) error {
	switch {
	case !inside(header.Name):
		return Unusable("the layer %s has a name that climbs out: %.80q", digest, header.Name)
	case header.Typeflag == tar.TypeSymlink, header.Typeflag == tar.TypeLink:
		return Unusable("the layer %s has a link, %.80q: it may have one regular file alone", digest, header.Name)
	case header.Typeflag != tar.TypeReg:
		return Unusable("the layer %s has %.80q, which is no regular file", digest, header.Name)
	case second:
		return Unusable("the layer %s has a second file, %.80q", digest, header.Name)
	case path.Base(header.Name) != ProgramName:
		return Unusable("the layer %s has the file %.80q: it must be %s", digest, header.Name, ProgramName)
	case header.Size > wire.MaxProgram:
		return Unusable("the program in the layer %s is larger than %d bytes", digest, wire.MaxProgram)
	}
	return nil
}

// inside accepts names that stay below the folder into which an archive is unpacked.
func inside(name string) bool {
	if name == "" || strings.HasPrefix(name, "/") || strings.ContainsAny(name, "\\\x00") {
		return false
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return false
		}
	}
	return true
}

// onlyZeros accepts the padding behind an archive.
func onlyZeros(content io.Reader, digest string) error {
	buffer := make([]byte, 32<<10)
	left := mostPadding
	for {
		n, err := content.Read(buffer)
		if left -= n; left < 0 || strings.Trim(string(buffer[:n]), "\x00") != "" {
			return Unusable("the layer %s has data after the archive's end", digest)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return Unusable("the layer %s is damaged at its end: %v", digest, err)
		}
	}
}

func readProgram(content io.Reader) (program, error) {
	whole := newCounted(content)
	head := make([]byte, executable.Head)
	n, err := io.ReadFull(whole, head)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return program{}, err
	}
	if _, err := io.Copy(io.Discard, whole); err != nil {
		return program{}, err
	}
	return program{whole.digest(), whole.count, head[:n]}, nil
}

// checkProgram refuses a program that the platform cannot run.
func checkProgram(p program, system, arch string) error {
	if system != "linux" || arch != "amd64" && arch != "arm64" {
		return Unusable("there is no agent for %.20q/%.20q: releases are for linux/amd64 and linux/arm64", system, arch)
	}
	if p.size > wire.MaxProgram {
		return Unusable("the program for %s/%s is larger than %d bytes", system, arch, wire.MaxProgram)
	}
	if err := executable.Check(p.head, p.size, arch); err != nil {
		return Unusable("the program for %s/%s %v", system, arch, err)
	}
	return nil
}

// counted counts and sums what is read through it.
type counted struct {
	from   io.Reader
	sum    hash.Hash
	count  int64
	failed error // of the reader itself
}

func newCounted(from io.Reader) *counted {
	return &counted{from: from, sum: sha256.New()}
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.from.Read(b)
	c.count += int64(n)
	c.sum.Write(b[:n])
	if err != nil && err != io.EOF {
		c.failed = err
	}
	return n, err
}

func (c *counted) digest() string { return "sha256:" + hex.EncodeToString(c.sum.Sum(nil)) }

// platformOf makes what the pointer says of a layer. Nodes know OCI's names of the media types.
func platformOf(system, arch string, l layer, p program) releases.Platform {
	mediaType := l.mediaType
	if isTar(mediaType) {
		mediaType = wire.MediaTar
	}
	if isGzip(mediaType) {
		mediaType = wire.MediaTarGzip
	}
	return releases.Platform{OS: system, Arch: arch, MediaType: mediaType, Digest: l.digest, Size: l.size, Program: p.digest,
		ProgramSize: p.size}
}
