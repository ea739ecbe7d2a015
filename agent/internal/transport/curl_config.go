package transport

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Files that curl finds open: the bodies of requests go through a pipe, and so do roots and the answer's headers. Nothing
// is written to a disk.
const (
	bodyFile    = "/proc/self/fd/3"
	headersFile = "/proc/self/fd/4"
	rootsFile   = "/proc/self/fd/5"
)

// noRoots is a folder without certificates. It replaces the system's folder, which curl would believe beside rootsFile.
const noRoots = "/proc/self/fdinfo"

// curlConfig collects options in the syntax of curl's --config. The first error is kept.
type curlConfig struct {
	text bytes.Buffer
	err  error
}

func (b *curlConfig) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

func (b *curlConfig) flag(name string) { b.text.WriteString(name + "\n") }

func (b *curlConfig) set(name, value string) {
	quoted, err := quote(value)
	if err != nil {
		b.fail(fmt.Errorf("option %s: %w", name, err))
	}
	fmt.Fprintf(&b.text, "%s = %s\n", name, quoted)
}

// request names the method and where it goes.
func (b *curlConfig) request(method, target string) {
	if strings.ContainsFunc(target, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		b.fail(errors.New("the URL has spaces or control characters"))
	}
	b.set("url", target)
	b.set("request", method)
}

// body names where the request's body is.
func (b *curlConfig) body() {
	b.set("data-binary", "@"+bodyFile)
	b.set("header", "Expect:") // no waiting for 100 Continue
}

func (b *curlConfig) headers(header http.Header) {
	for _, name := range slices.Sorted(maps.Keys(header)) {
		for _, value := range header[name] {
			b.header(name, value)
		}
	}
}

// header refuses what would become another header, or the name of a file to read headers from.
func (b *curlConfig) header(name, value string) {
	switch {
	case !isToken(name):
		b.fail(fmt.Errorf("%.40q is no name of a header", name))
	case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
		b.fail(fmt.Errorf("the header %s has control characters", name))
	case value == "":
		b.set("header", name+";") // with a colon curl would leave it out
	default:
		b.set("header", name+": "+value)
	}
}

func (b *curlConfig) done() ([]byte, error) { return b.text.Bytes(), b.err }

var errNUL = errors.New("a NUL character cannot be handed to curl")

// quote writes a value in double quotes as curl's config parser reads it (see --config in curl's manual): it knows \\, \",
// \t, \n, \r and \v, and takes every other byte as it is. A NUL would end the line.
func quote(value string) (string, error) {
	if strings.IndexByte(value, 0) >= 0 {
		return `""`, errNUL
	}
	replace := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\t", `\t`, "\n", `\n`, "\r", `\r`, "\v", `\v`)
	return `"` + replace.Replace(value) + `"`, nil
}

// isToken reports whether a header may be called so (RFC 9110, section 5.6.2).
func isToken(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return false
		}
		return !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

func port(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

func hostPort(u *url.URL) string { return net.JoinHostPort(u.Hostname(), port(u)) }
