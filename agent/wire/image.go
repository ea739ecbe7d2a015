package wire

import (
	"cmp"
	"strings"
)

// Image is the name of an image in its parts: HOST/PATH[:TAG][@DIGEST].
type Image struct {
	Host   string // with its port, if it has one
	Path   string
	Tag    string // empty: none
	Digest string // sha256:<hex>; empty: none
}

// ParseImage reads the name of an image. ok is false if the text is no such name. HOST has to be there: names without a host mean different
// images to different engines.
func ParseImage(text string) (image Image, ok bool) {
	name, digest, pinned := strings.Cut(text, "@")
	host, rest, split := strings.Cut(name, "/")
	path, tag, tagged := strings.Cut(rest, ":")
	image = Image{host, path, tag, digest}
	switch {
	case !split || path == "" || len(name) > 255, pinned && !IsDigest(digest), tagged && !wordForm(tag, MaxLabelValue):
		return image, false
	}
	bare, port, hasPort := strings.Cut(host, ":")
	if !wordForm(bare, MaxLabelValue) || hasPort && !portNumber(port) {
		return image, false
	}
	for part := range strings.SplitSeq(path, "/") {
		if !wordForm(part, MaxLabelValue) || strings.ToLower(part) != part {
			return image, false
		}
	}
	return image, true
}

// hub is the registry that names of images without a host mean, as in docker's own commands.
const hub = "docker.io"

// Tagged reads the image of a launch that has a tag and no digest, with all that docker's own commands add to a short name. The gateway
// replaces it, and nodes never see it. ok is false if it has a digest, or is no name of an image.
func (p *WorkloadLaunch) Tagged() (image Image, ok bool) {
	name := p.Image
	host, _, split := strings.Cut(name, "/")
	switch {
	case name == "" || strings.Contains(name, "@"):
		return image, false
	case !split:
		name = hub + "/library/" + name
	case !strings.ContainsAny(host, ".:") && host != "localhost":
		name = hub + "/" + name
	case host == hub && strings.Count(name, "/") == 1:
		name = hub + "/library/" + strings.TrimPrefix(name, hub+"/")
	}
	image, ok = ParseImage(name)
	image.Tag = cmp.Or(image.Tag, "latest")
	return image, ok
}

// CheckTagged does what Check does, for a launch whose image may still get its digest.
func (p *WorkloadLaunch) CheckTagged() error {
	pinned := *p
	if image, tagged := p.Tagged(); tagged {
		image.Digest = "sha256:" + strings.Repeat("0", 64)
		pinned.Image = image.String()
	}
	return pinned.Check()
}

// String returns the name in the form that ParseImage reads.
func (i Image) String() string {
	text := i.Host + "/" + i.Path
	if i.Tag != "" {
		text += ":" + i.Tag
	}
	if i.Digest != "" {
		text += "@" + i.Digest
	}
	return text
}

// Pinned returns the name with its digest and without its tag: engines do not agree on names that have both.
func (i Image) Pinned() string {
	i.Tag = ""
	return i.String()
}

// imageByDigest accepts a name such as registry.example:5000/team/model:1.2@sha256:<64 hex>.
func imageByDigest(text string) bool {
	image, ok := ParseImage(text)
	return ok && image.Digest != ""
}
