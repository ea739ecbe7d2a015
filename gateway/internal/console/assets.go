package console

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/reply"
)

// asset is a file that pages refer to.
type asset struct {
	reply.File
	kind string
}

func readAssets() map[string]asset {
	all := map[string]asset{}
	err := fs.WalkDir(files, "assets", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := files.ReadFile(name)
		sum := sha256.Sum256(text)
		all[path.Base(name)] = asset{reply.FileOf(text, hex.EncodeToString(sum[:8])), assetKind(name)}
		return err
	})
	if err != nil {
		panic("web: " + err.Error())
	}
	return all
}

func assetKind(name string) string {
	switch path.Ext(name) {
	case ".css":
		return "text/css; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	}
	return "application/octet-stream"
}

// asset serves a file. Browsers may keep it, and ask each time whether it has changed.
func (v *visit) asset() (page, error) {
	found, ok := v.assets[v.r.PathValue("file")]
	if !ok {
		return page{}, wire.Refuse(wire.CodeNotFound, "there is no such file", "open the page again")
	}
	h := v.w.Header()
	h.Set("Content-Type", found.kind)
	h.Set("Cache-Control", "no-cache")
	http.ServeContent(v.w, v.r, "", time.Time{}, bytes.NewReader(found.Choose(v.w, v.r)))
	return page{sent: true}, nil
}
