package web

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"time"

	"muster/agent/wire"
)

// asset is a file that pages refer to.
type asset struct {
	text []byte
	kind string
	tag  string // changes with the text
}

func readAssets() map[string]asset {
	all := map[string]asset{}
	err := fs.WalkDir(files, "assets", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := files.ReadFile(name)
		sum := sha256.Sum256(text)
		all[path.Base(name)] = asset{text, assetKind(name), `"` + hex.EncodeToString(sum[:8]) + `"`}
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
	h.Set("ETag", found.tag)
	http.ServeContent(v.w, v.r, "", time.Time{}, bytes.NewReader(found.text))
	return page{sent: true}, nil
}
