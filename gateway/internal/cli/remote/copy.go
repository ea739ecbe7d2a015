package remote

import (
	"context"
	"encoding/hex"
	"fmt"
	"hash"
	"os"
	"path"
	"path/filepath"
	"strings"

	"muster/agent/wire"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/paste"
)

// place is one of the two words of cp.
type place struct {
	node string // empty: here
	path string
}

// readPlace tells NAME:PATH from a path here. What has a slash before its colon is one here.
func readPlace(text string) place {
	node, rest, found := strings.Cut(text, ":")
	if !found || node == "" || strings.Contains(node, "/") {
		return place{path: text}
	}
	return place{node: node, path: rest}
}

// nodeCopy looks at all words before the first byte goes.
func nodeCopy(ctx context.Context, s *cli.Session, o struct{ Recursive bool }) error {
	last := len(s.Words) - 1
	to := readPlace(s.Words[last])
	var sources []place
	for _, word := range s.Words[:last] {
		from := readPlace(word)
		if err := checkPlaces(from, to); err != nil {
			return err
		}
		sources = append(sources, from)
	}
	switch {
	case last == 1:
	case o.Recursive:
		return cli.Usagef("give the command once for each folder", "-r copies one folder at a time")
	case !strings.HasSuffix(to.path, "/") && (to.node != "" || !cli.IsFolder(to.path)):
		return cli.Usagef("end the target with a slash, such as gpu-1:/tmp/", "several files go into a folder, and %q names none", s.Words[last])
	}
	for _, from := range sources {
		if err := copyOne(ctx, s, from, to, o.Recursive); err != nil {
			return err
		}
	}
	return nil
}

func checkPlaces(from, to place) error {
	if (from.node == "") == (to.node == "") {
		return cli.Usagef("muster node cp gpu-1:/var/log/syslog . copies from a node, muster node cp FILE gpu-1:/tmp/ to one",
			"one of the two is NAME:PATH, and the other a file here")
	}
	there, here, program := from, to, "cat "+paste.Quote(from.path)
	if to.node != "" {
		there, here, program = to, from, "sh -c "+paste.Quote("cat > "+paste.Quote(to.path))
	}
	if here.path == "-" {
		return cli.Usagef("let a program of the node do it:\n  muster exec "+paste.Quote(there.node)+" -- "+program,
			"- is no file here, and a copy needs one")
	}
	if !path.IsAbs(there.path) {
		return cli.Usagef("such as "+there.node+":/home/ada/data", "the path on the node is not absolute: %q", there.path)
	}
	return nil
}

func copyOne(ctx context.Context, s *cli.Session, from, to place, recursive bool) error {
	switch {
	case to.node == "" && recursive:
		return downloadFolder(ctx, s, from, to.path)
	case to.node == "":
		return download(ctx, s, from, to.path)
	case recursive && cli.IsFolder(from.path):
		return uploadFolder(ctx, s, from.path, to)
	}
	return upload(ctx, s, from.path, to)
}

// target is where a file goes that keeps its name in a folder.
func target(local, name string) (string, error) {
	info, err := os.Stat(local)
	if err == nil && info.IsDir() {
		return filepath.Join(local, name), nil
	}
	if strings.HasSuffix(local, "/") {
		return "", fmt.Errorf("there is no folder %s", local)
	}
	return local, nil
}

// done says what was copied.
func done(s *cli.Session, to string, bytes int64, sum hash.Hash) {
	s.Printf("%s: %d bytes, SHA-256 %s\n", to, bytes, hex.EncodeToString(sum.Sum(nil)))
}

// folderError says how a folder goes.
func folderError(s *cli.Session, folder string) error {
	return cli.Hinted(folder+" is a folder", "-r copies a folder with all that is in it: "+wholeFolder(s))
}

// wholeFolder is this copy with -r.
func wholeFolder(s *cli.Session) string {
	return "muster " + s.Name + " -r " + paste.Line(s.Words...)
}

// openCopy asks for a copy by the user that the flags name.
func openCopy(ctx context.Context, s *cli.Session, node string, p wire.CopyParams) (*passage, error) {
	if err := s.Flags.Into(&p); err != nil {
		return nil, err
	}
	return open(ctx, s, node, wire.SessionCopy, &p)
}
