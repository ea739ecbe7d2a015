package update

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"muster/agent/internal/service"
	"muster/agent/wire"
)

// errContent is wrapped by errors about a layer that is not what the pointer says.
var errContent = errors.New("the layer is not what the pointer says")

func badContent(format string, args ...any) error {
	return fmt.Errorf("%w: %w", errContent, fmt.Errorf(format, args...))
}

// maxEntries bounds the folders in an archive, and maxTrail the bytes behind its end.
const (
	maxEntries = 64
	maxTrail   = 1 << 20
)

// checkLayer compares a layer with its digest. The signed pointer names that, so nothing of a layer is read before.
func checkLayer(layer string, p wire.ReleasePlatform) error {
	info, err := os.Stat(layer)
	if err != nil {
		return err
	}
	if info.Size() != p.Size {
		return badContent("it has %d bytes instead of %d", info.Size(), p.Size)
	}
	digest, err := service.Digest(layer)
	if err != nil {
		return err
	}
	if digestPrefix+digest != p.Digest {
		return badContent("it has another digest")
	}
	return nil
}

// unpack writes the program of a layer that is an archive. It reads no more than the pointer says that the program has, so that an archive
// which grows without end ends there.
func unpack(layer io.Reader, p wire.ReleasePlatform, to io.Writer) error {
	sum := sha256.New()
	out := io.MultiWriter(to, sum)
	archive := layer
	if p.MediaType == wire.MediaTarGzip { // as one stream
		reader, err := gzip.NewReader(layer)
		if err != nil {
			return badContent("it is no gzip: %w", err)
		}
		archive = reader
	}
	if err := untar(archive, p.ProgramSize, out); err != nil {
		return err
	}
	if digestPrefix+hex.EncodeToString(sum.Sum(nil)) != p.Program {
		return badContent("its program has another digest")
	}
	return nil
}

// untar writes the one file of an archive. Besides it there may be folders and what describes the archive, and nothing else.
func untar(archive io.Reader, size int64, to io.Writer) error {
	reader := tar.NewReader(io.LimitReader(archive, size+maxTrail))
	found := false
	for range maxEntries {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			if !found {
				return badContent("the archive holds no %s", service.Name)
			}
			return atEnd(archive)
		}
		if err != nil {
			return badContent("read the archive: %w", err)
		}
		isProgram, err := judgeEntry(header, size)
		switch {
		case err != nil:
			return err
		case isProgram && found:
			return badContent("the archive holds %s twice", service.Name)
		case isProgram:
			found = true
			if err := copyProgram(reader, size, to); err != nil {
				return err
			}
		}
	}
	return badContent("the archive has more than %d entries", maxEntries)
}

// judgeEntry reports whether an entry is the program. The error is about one that must not be there.
func judgeEntry(header *tar.Header, size int64) (isProgram bool, err error) {
	name := header.Name
	if strings.HasPrefix(name, "/") || strings.ContainsAny(name, "\\\x00") {
		return false, badContent("the archive names the path %.100q", name)
	}
	for _, part := range strings.Split(name, "/") {
		if part == ".." {
			return false, badContent("the archive names the path %.100q", name)
		}
	}
	switch {
	case header.Typeflag == tar.TypeXGlobalHeader || header.Typeflag == tar.TypeDir:
		return false, nil
	case header.Typeflag != tar.TypeReg || path.Base(name) != service.Name:
		return false, badContent("the archive holds %.100q, which is not the program", name)
	case header.Size != size:
		return false, badContent("the program in it has %d bytes instead of %d", header.Size, size)
	}
	return true, nil
}

// copyProgram copies exactly so many bytes.
func copyProgram(from io.Reader, size int64, to io.Writer) error {
	n, err := io.Copy(to, io.LimitReader(from, size))
	var failed *os.PathError // of the file that is written
	switch {
	case errors.As(err, &failed):
		return err
	case err != nil:
		return badContent("read the program: %w", err)
	case n != size:
		return badContent("the program ends after %d bytes of %d", n, size)
	}
	return nil
}

// atEnd reads what is left, which may only be a little padding of zeros (maxTrail). It reads to the end, because gzip checks its sum there.
func atEnd(from io.Reader) error {
	buffer := make([]byte, 4<<10)
	for total := int64(0); ; {
		n, err := from.Read(buffer)
		total += int64(n)
		for _, b := range buffer[:n] {
			if b != 0 {
				return badContent("something follows the program")
			}
		}
		switch {
		case total > maxTrail:
			return badContent("something follows the program")
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return badContent("read to the end: %w", err)
		}
	}
}
