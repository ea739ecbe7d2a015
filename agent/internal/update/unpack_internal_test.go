package update

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/agent/wire"
)

// entry is one of an archive.
type entry struct {
	name    string
	content string
	kind    byte
}

func tarOf(entries ...entry) []byte {
	var out bytes.Buffer
	writer := tar.NewWriter(&out)
	for _, e := range entries {
		header := &tar.Header{Name: e.name, Typeflag: e.kind, Size: int64(len(e.content)), Mode: 0o755, Linkname: "muster-agent"}
		if e.kind == 0 {
			header.Typeflag = tar.TypeReg
		}
		if header.Typeflag != tar.TypeReg {
			header.Size = 0
		}
		if header.Typeflag == tar.TypeXGlobalHeader {
			header = &tar.Header{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"comment": "x" + e.content}}
		}
		if err := writer.WriteHeader(header); err != nil {
			panic(err)
		}
		if header.Size > 0 {
			writer.Write([]byte(e.content))
		}
	}
	writer.Close()
	return out.Bytes()
}

func gzipOf(content []byte) []byte {
	var out bytes.Buffer
	writer := gzip.NewWriter(&out)
	writer.Write(content)
	writer.Close()
	return out.Bytes()
}

const program = "#!/bin/sh\necho muster-agent 2\n"

func platform(media string) wire.ReleasePlatform {
	return wire.ReleasePlatform{MediaType: media, Program: digestPrefix + hexOf([]byte(program)), ProgramSize: int64(len(program))}
}

// counting counts what is written.
type counting struct{ n int64 }

func (c *counting) Write(data []byte) (int, error) { c.n += int64(len(data)); return len(data), nil }

func TestUnpack(t *testing.T) {
	one := entry{"muster-agent", program, 0}
	inFolders := tarOf(entry{"usr/", "", tar.TypeDir}, entry{"./usr/muster-agent", program, 0})
	bomb := append(tarOf(one), make([]byte, 64<<20)...)
	zeros := make([]byte, 64<<20)
	talk := entry{"", strings.Repeat("x", 900<<10), tar.TypeXGlobalHeader} // each by itself is within what package tar takes
	for name, c := range map[string]struct {
		media string
		layer []byte
		fails string // empty: it does not
	}{
		"an archive":              {wire.MediaTar, tarOf(one), ""},
		"compressed":              {wire.MediaTarGzip, gzipOf(tarOf(one)), ""},
		"in folders":              {wire.MediaTarGzip, gzipOf(inFolders), ""},
		"with a global header":    {wire.MediaTar, tarOf(entry{kind: tar.TypeXGlobalHeader}, one), ""},
		"padded with zeros":       {wire.MediaTar, append(tarOf(one), make([]byte, 8<<10)...), ""},
		"another one in it":       {wire.MediaTar, tarOf(entry{"muster-agent", strings.ToUpper(program), 0}), "another digest"},
		"a cut archive":           {wire.MediaTar, tarOf(one)[:520], "read the program"},
		"a cut header":            {wire.MediaTar, tarOf(one)[:100], "read the archive"},
		"no archive":              {wire.MediaTar, []byte("<html>" + strings.Repeat("x", 600)), "read the archive"},
		"no gzip":                 {wire.MediaTarGzip, tarOf(one), "it is no gzip"},
		"a cut gzip":              {wire.MediaTarGzip, gzipOf(tarOf(one))[:60], "read the "},
		"a gzip with a wrong sum": {wire.MediaTarGzip, flipped(gzipOf(tarOf(one)), -5), "read to the end"},
		"a tail behind the gzip":  {wire.MediaTarGzip, append(gzipOf(tarOf(one)), "tail"...), "read to the end"},
		"an empty archive":        {wire.MediaTar, tarOf(), "holds no muster-agent"},
		"nothing":                 {wire.MediaTar, nil, "holds no muster-agent"},
		"twice":                   {wire.MediaTar, tarOf(one, one), "twice"},
		"a second file":           {wire.MediaTar, tarOf(one, entry{"x", "x", 0}), "which is not the program"},
		"a file before":           {wire.MediaTar, tarOf(entry{"x", "x", 0}, one), "which is not the program"},
		"a link":                  {wire.MediaTar, tarOf(entry{"muster-agent", "", tar.TypeSymlink}), "which is not the program"},
		"a hard link":             {wire.MediaTar, tarOf(one, entry{"x/muster-agent", "", tar.TypeLink}), "which is not the program"},
		"a device":                {wire.MediaTar, tarOf(entry{"muster-agent", "", tar.TypeChar}), "which is not the program"},
		"climbs":                  {wire.MediaTar, tarOf(entry{"../muster-agent", program, 0}), "names the path"},
		"climbs inside":           {wire.MediaTar, tarOf(entry{"a/../../muster-agent", program, 0}), "names the path"},
		"a climbing folder":       {wire.MediaTar, tarOf(entry{"../", "", tar.TypeDir}, one), "names the path"},
		"from the root":           {wire.MediaTar, tarOf(entry{"/usr/muster-agent", program, 0}), "names the path"},
		"a backslash":             {wire.MediaTar, tarOf(entry{`a\muster-agent`, program, 0}), "names the path"},
		"a smaller one":           {wire.MediaTar, tarOf(entry{"muster-agent", program[1:], 0}), "bytes instead of"},
		"too many folders":        {wire.MediaTar, tarOf(folders(100)...), "more than 64 entries"},
		"a bomb behind it":        {wire.MediaTarGzip, gzipOf(bomb), "something follows"},
		"a bomb in front":         {wire.MediaTarGzip, gzipOf(tarOf(entry{"muster-agent", string(zeros), 0})), "bytes instead of"},
		"headers without end":     {wire.MediaTarGzip, gzipOf(tarOf(talk, talk, one)), "read the archive"},
	} {
		var out counting
		err := unpack(bytes.NewReader(c.layer), platform(c.media), &out)
		if (c.fails == "") != (err == nil) || err != nil && (!strings.Contains(err.Error(), c.fails) || !errors.Is(err, errContent)) {
			t.Errorf("%s: %v", name, err)
		}
		if out.n > int64(len(program)) {
			t.Errorf("%s: %d bytes were written", name, out.n)
		}
	}
}

func flipped(content []byte, at int) []byte {
	content[len(content)+at] ^= 1
	return content
}

func folders(count int) (all []entry) {
	for range count {
		all = append(all, entry{"a/", "", tar.TypeDir})
	}
	return all
}

// TestUnpackFullDisk: what the disk says is not blamed on the layer.
func TestUnpackFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	layer := tarOf(entry{"muster-agent", program, 0})
	if err := unpack(bytes.NewReader(layer), platform(wire.MediaTar), full); err == nil || errors.Is(err, errContent) {
		t.Error(err)
	}
}

func TestCheckLayer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "layer")
	p := wire.ReleasePlatform{Digest: digestPrefix + hexOf([]byte("content")), Size: 7}
	for content, fits := range map[string]bool{"content": true, "contenT": false, "conten": false, "content ": false, "": false} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := checkLayer(path, p); (err == nil) != fits || err != nil && !errors.Is(err, errContent) {
			t.Errorf("%q: %v", content, err)
		}
	}
	if err := checkLayer(path+"x", p); err == nil || errors.Is(err, errContent) {
		t.Errorf("a file that is not there: %v", err)
	}
}

func FuzzUnpack(f *testing.F) {
	one := entry{"muster-agent", program, 0}
	for _, layer := range [][]byte{tarOf(one), gzipOf(tarOf(one)), []byte(program), tarOf(entry{"../muster-agent", program, 0}), nil} {
		f.Add(layer)
	}
	f.Fuzz(func(t *testing.T, layer []byte) {
		for _, media := range []string{wire.MediaTar, wire.MediaTarGzip} {
			var out bytes.Buffer
			err := unpack(bytes.NewReader(layer), platform(media), &out)
			if out.Len() > len(program) || err == nil && out.String() != program {
				t.Errorf("%s: %d bytes, %v", media, out.Len(), err)
			}
		}
	})
}
