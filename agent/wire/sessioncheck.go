package wire

import (
	"cmp"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

func badSession(what, takes string) error {
	return Refuse(CodeTaskParamsInvalid, "that cannot be the "+what+" of a session", takes)
}

// Check refuses a terminal that cannot exist.
func (p *ShellParams) Check() error {
	switch {
	case !sessionUser(p.User):
		return badSession("user", userForm)
	case len(p.Term) > MaxTerm || !only(p.Term, ".+-_"):
		return badSession("term", "letters, digits and . + - _, such as xterm-256color")
	case !terminalSide(p.Rows) || !terminalSide(p.Columns):
		return badSession("rows and columns", fmt.Sprintf("1 to %d, or 0 for the usual", MaxTerminal))
	case len(p.Command) > 0 && !argumentsFit(p.Command):
		return badSession("command", commandForm)
	}
	return p.SessionBounds.Check()
}

// Check refuses a program that cannot be run.
func (p *ExecParams) Check() error {
	switch {
	case !sessionUser(p.User):
		return badSession("user", userForm)
	case !argumentsFit(p.Command):
		return badSession("command", commandForm)
	}
	return p.SessionBounds.Check()
}

// Check refuses a place to which no connection can be made.
func (p *ForwardParams) Check() error {
	if p.Host != "" && !hostName(p.Host) && !address(p.Host) {
		return badSession("host", "an address or a name, without a port")
	}
	if p.Port < 1 || p.Port > 65535 {
		return badSession("port", "1 to 65535")
	}
	return p.SessionBounds.Check()
}

// Check refuses a path that cannot be a file.
func (p *CopyParams) Check() error {
	switch {
	case !sessionUser(p.User):
		return badSession("user", userForm)
	case !path.IsAbs(p.Path) || len(p.Path) > MaxSessionPath || strings.ContainsRune(p.Path, 0):
		return badSession("path", "an absolute path")
	case p.Offset < 0 || p.Size < 0 || p.Offset > p.Size && p.Write || p.Size > MaxNumber || p.Offset > MaxNumber:
		return badSession("offset and size", "0 or more, and an offset within the file")
	case p.Mode < 0 || p.Mode > 0o7777:
		return badSession("mode", "permission bits")
	case p.SHA256 != "" && !isSHA256(p.SHA256), p.Write && p.SHA256 == "" && !p.Folder:
		return badSession("sha256", "64 hex digits; a file that is written needs it")
	case p.Folder && (p.Offset != 0 || p.Size != 0 || p.Mode != 0 || p.Sparse || p.SHA256 != ""):
		return badSession("folder", "without offset, size, mode, sparse and sha256, which are of files")
	case p.Name != "" && !(p.Folder && p.Write && fileName(p.Name)):
		return badSession("name", "of a folder that is written: a name without a slash")
	case p.Origin != "" && !(p.Folder && p.Write && isSHA256(p.Origin)):
		return badSession("origin", "of a folder that is written: 64 hex digits")
	}
	return p.SessionBounds.Check()
}

func fileName(text string) bool {
	return text != "." && text != ".." && len(text) <= 255 && !strings.ContainsAny(text, "/\x00")
}

// Check refuses a source that no node has.
func (p *LogsParams) Check() error {
	return cmp.Or(CheckLogSource(p.Source), p.SessionBounds.Check())
}

const (
	userForm    = "the name of an account on the node"
	commandForm = "a program and its arguments, without NUL characters, 32 KiB at most"
	wordsForm   = "words without NUL characters, 32 KiB at most"
)

func sessionUser(name string) bool {
	return len(name) <= 32 && !strings.HasPrefix(name, "-") && !strings.ContainsFunc(name, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || strings.ContainsRune(":/\\\"'", r) || r == utf8.RuneError
	})
}

func terminalSide(n int) bool { return n >= 0 && n <= MaxTerminal }

func argumentsFit(all []string) bool { return len(all) > 0 && all[0] != "" && wordsFit(all) }

// wordsFit is for arguments whose program is known elsewhere: there may be none, and the first may be empty.
func wordsFit(words []string) bool {
	size := 0
	for _, word := range words {
		size += len(word) + 1
	}
	return size <= MaxSessionCommand && !hasZero(words)
}

// hasZero tells whether a word has a zero byte, at which the kernel would end it.
func hasZero(words []string) bool {
	return slices.ContainsFunc(words, func(word string) bool { return strings.ContainsRune(word, 0) })
}

// hostName tells whether a text can be a host's name (RFC 1123, section 2.1).
func hostName(text string) bool {
	return len(text) <= 253 && !strings.HasPrefix(text, "-") && only(text, ".-_")
}

// address tells whether a text is an IP address. netip takes whatever stands behind a %, and only names of interfaces stand there.
func address(text string) bool {
	addr, err := netip.ParseAddr(text)
	return err == nil && (addr.Zone() == "" || hostName(addr.Zone()))
}
