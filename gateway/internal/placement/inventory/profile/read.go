package profile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"muster/agent/wire"
	"muster/gateway/api"
)

// Limits of a profile.
const (
	mostName   = 63
	mostAbout  = 200
	mostConfig = 64 << 10 // bytes of a cloud_config
	mostGPUs   = 64       // of a slot
)

// fields is the hint for a file that is no profile.
const fields = "a profile is a JSON object with name, about, checks, acceptance, slots {shapes, sizes}, cloud_config, erase and restart; " +
	"muster profile show NAME -o json prints one to begin with"

// Read reads a profile's file and checks it. It takes the form in which a profile is printed, and leaves out the fields that only the
// gateway sets.
func Read(body []byte) (api.Profile, error) {
	var p api.Profile
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	err := d.Decode(&p)
	if err == nil {
		if _, after := d.Token(); !errors.Is(after, io.EOF) {
			err = errors.New("something stands behind the object")
		}
	}
	if err != nil {
		return api.Profile{}, refuse("this is no profile: "+wire.Plain(strings.TrimPrefix(err.Error(), "json: "), 200), fields)
	}
	p.BuiltIn, p.Nodes, p.UpdatedAt, p.UpdatedBy = false, 0, nil, ""
	p.Checks = append([]string{}, p.Checks...)
	p.Slots.Shapes = append([]string{}, p.Slots.Shapes...)
	p.Slots.Sizes = append([]int{}, p.Slots.Sizes...)
	if err := Check(p); err != nil {
		return api.Profile{}, err
	}
	return p, nil
}

// Check refuses a profile that is not complete or correct, or that takes the name of a built-in one.
func Check(p api.Profile) error {
	_, taken := Find(p.Name)
	switch {
	case !isName(p.Name):
		return refuse(fmt.Sprintf("%.80q is not a profile's name", p.Name),
			"a name has 1 to 63 lower-case letters, digits and dashes, with a letter or a digit at both ends")
	case taken:
		return refuse(p.Name+" is built in", "choose another name: nodes that have this one would change")
	case p.About != wire.Plain(p.About, mostAbout):
		return refuse("about is no line of text", fmt.Sprintf("write one line of at most %d bytes", mostAbout))
	case len(p.Checks) == 0:
		return refuse("the profile asks for no check", "name at least one: "+strings.Join(wire.HostChecks(), ", "))
	}
	if odd := oddOne(p.Checks, wire.HostChecks()); odd != "" {
		return refuse("the check "+odd, "the checks are "+strings.Join(wire.HostChecks(), ", "))
	}
	if err := checkSlots(p.Slots); err != nil {
		return err
	}
	return checkConfig(p.CloudConfig)
}

func checkSlots(s api.ProfileSlots) error {
	shapes := []string{api.ShapeGPU, api.ShapeVM, api.ShapeNode}
	if len(s.Shapes) == 0 {
		return refuse("the profile gives no slots", "name at least one shape in slots.shapes: "+strings.Join(shapes, ", "))
	}
	if odd := oddOne(s.Shapes, shapes); odd != "" {
		return refuse("the shape "+odd, "the shapes are "+strings.Join(shapes, ", "))
	}
	if len(s.Sizes) > 0 && !slices.Contains(s.Shapes, api.ShapeVM) {
		return refuse("sizes are for slots of shape vm, and the profile gives none", "add vm to slots.shapes, or leave sizes out")
	}
	for i, size := range s.Sizes {
		if size < 1 || size > mostGPUs || slices.Contains(s.Sizes[:i], size) {
			return refuse(fmt.Sprintf("the size %d is no number of GPUs, or stands there twice", size),
				fmt.Sprintf("sizes are different numbers from 1 to %d, such as 1, 2, 4, 8", mostGPUs))
		}
	}
	return nil
}

func checkConfig(text string) error {
	first, _, _ := strings.Cut(text, "\n")
	switch {
	case text == "":
		return nil
	case strings.TrimRight(first, " \r") != "#cloud-config":
		return refuse("cloud_config is not cloud-init's", "its first line is #cloud-config")
	case len(text) > mostConfig || !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return refuse("cloud_config is too long, or is no text", fmt.Sprintf("it has at most %d bytes of UTF-8", mostConfig))
	}
	return nil
}

// oddOne says what is wrong with the first that is not among those, or that stands there twice; "": nothing.
func oddOne(all, those []string) string {
	for i, one := range all {
		if !slices.Contains(those, one) {
			return fmt.Sprintf("%.80q is not known", one)
		}
		if slices.Contains(all[:i], one) {
			return one + " stands there twice"
		}
	}
	return ""
}

func isName(s string) bool {
	plain := strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
	return plain && s != "" && len(s) <= mostName && s[0] != '-' && s[len(s)-1] != '-'
}

func refuse(message, hint string) error { return wire.Refuse(wire.CodeBadRequest, message, hint) }
