// Package muster carries the installer, which stands at the top of the tree so that it can be read and run by itself.
package muster

import (
	_ "embed"
	"fmt"
	"regexp"
	"strings"
)

//go:embed install.sh
var installer string

// Certificate says what vouches for a gateway's TLS to a machine that has not joined yet.
type Certificate string

// The values of Certificate.
const (
	SystemCertificate Certificate = "system" // one that systems trust
	OwnCertificate    Certificate = "own"    // of the gateway's own CA: its key is pinned
	NoCertificate     Certificate = "plain"  // none, over plain HTTP: the digests vouch for the download
)

// Installer is what the gateway fills into install.sh.
type Installer struct {
	Gateway     string // URL without a path, as CheckURL takes it
	RootPin     string // sha256:<hex> of the root's public key; empty: none
	Version     string // of the agents, for people; odd characters are left out
	Certificate Certificate
	PinnedKey   string // sha256//<base64> of the serving key, with OwnCertificate
	SHA256AMD64 string // <hex> of the agent for linux/amd64; empty: there is none
	SHA256ARM64 string // the same for linux/arm64
}

// Everything that is filled in has to fit one of these: none of their characters means anything inside single quotes.
var (
	urlForm     = regexp.MustCompile(`^https?://([0-9A-Za-z_-][0-9A-Za-z._-]*|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?$`)
	rootPinForm = regexp.MustCompile(`^(sha256:[0-9a-f]{64})?$`)
	keyForm     = regexp.MustCompile(`^(sha256//[0-9A-Za-z+/]{43}=)?$`)
	digestForm  = regexp.MustCompile(`^([0-9a-f]{64})?$`)
	oddVersion  = regexp.MustCompile(`[^0-9A-Za-z.+_-]`)
)

// CheckURL says why a URL can stand neither in the installer nor in a command that a person pastes.
func CheckURL(url string) error {
	if !urlForm.MatchString(url) {
		return fmt.Errorf("%.120q is not https://HOST or https://HOST:PORT, HOST being a DNS name or an IP address", url)
	}
	return nil
}

// Render gives the script with the constants at its top filled in. The same values give the same bytes, so that a digest
// of the script can be handed out. It is an error if a value is not of its form: nothing is ever quoted into shape.
func (i Installer) Render() ([]byte, error) {
	if err := CheckURL(i.Gateway); err != nil {
		return nil, err
	}
	switch i.Certificate {
	case SystemCertificate, OwnCertificate, NoCertificate:
	default:
		return nil, fmt.Errorf("certificate %.40q is not known", i.Certificate)
	}
	text := installer
	for _, c := range []struct {
		name, value string
		form        *regexp.Regexp
	}{
		{"GATEWAY", i.Gateway, urlForm},
		{"ROOT_PIN", i.RootPin, rootPinForm},
		{"VERSION", oddVersion.ReplaceAllString(i.Version, ""), nil},
		{"CERTIFICATE", string(i.Certificate), nil},
		{"PINNED_KEY", i.PinnedKey, keyForm},
		{"SHA256_AMD64", i.SHA256AMD64, digestForm},
		{"SHA256_ARM64", i.SHA256ARM64, digestForm},
	} {
		if c.form != nil && !c.form.MatchString(c.value) {
			return nil, fmt.Errorf("%s %.120q is not of the form that the installer takes", c.name, c.value)
		}
		before, after, ok := strings.Cut(text, "\n"+c.name+"=''\n")
		if !ok {
			return nil, fmt.Errorf("install.sh has no line %s=''", c.name)
		}
		text = before + "\n" + c.name + "='" + c.value + "'\n" + after
	}
	return []byte(text), nil
}
