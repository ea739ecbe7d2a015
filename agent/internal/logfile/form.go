package logfile

import (
	"bytes"
	"strings"

	"muster/agent/sign"
)

// tokenKinds begin muster's own secrets.
func tokenKinds() []string {
	kinds := []string{sign.PSKPrefix}
	for _, kind := range []sign.TokenKind{sign.EnrollmentToken, sign.BootstrapToken, sign.AccountToken} {
		kinds = append(kinds, string(kind)+"_")
	}
	return kinds
}

// tokens finds muster's own secrets, also mistyped ones and those that are cut off. The part that names a token stays.
func tokens(text []byte) (found []span) {
	for _, at := range behind(text, text, tokenKinds(), "_.%", 1) {
		secret := text[at.from:at.to]
		name := run(secret, "")
		named := name >= 4 && name <= 64 && name < len(secret) && secret[name] == '_'
		if named && !bytes.HasSuffix(text[:at.from], []byte(sign.PSKPrefix)) {
			at.from += name + 1
		}
		found = append(found, at)
	}
	return found
}

// behind finds what follows one of some words: at least so many letters, digits and characters of more. The words are looked for in lower,
// which is the text or the text in small letters.
func behind(text, lower []byte, words []string, more string, least int) (found []span) {
	for at := 0; at < len(text); at++ {
		for _, word := range words {
			from := at + len(word)
			if !bytes.HasPrefix(lower[at:], []byte(word)) {
				continue
			}
			if n := run(text[from:], more); n >= least {
				found = append(found, span{from, from + n})
				at = from + n - 1
				break
			}
		}
	}
	return found
}

// run is how many letters, digits and characters of more a text begins with.
func run(text []byte, more string) int {
	for n, c := range text {
		if !letter(c) && strings.IndexByte(more, c) < 0 {
			return n
		}
	}
	return len(text)
}

func letter(c byte) bool { return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' }

// privateKeys finds PEM blocks, also in JSON, where a line ends with \n in two characters. A block without an end goes on to the end of
// the text.
func privateKeys(text []byte) (found []span) {
	for at := keyBegin(text, 0); at >= 0; at = keyBegin(text, at) {
		end := len(text)
		if next := bytes.Index(text[at:], []byte("-----END")); next >= 0 {
			end = at + next
		}
		found = append(found, span{at, end})
		at = end
	}
	return found
}

// keyBegin is behind the first line of the next private key, without its last dashes; -1: there is none.
func keyBegin(text []byte, from int) int {
	const begin, kind, longestKind = "-----BEGIN ", "PRIVATE KEY", 40
	for {
		next := bytes.Index(text[from:], []byte(begin))
		if next < 0 {
			return -1
		}
		from += next + len(begin)
		name := text[from:min(len(text), from+longestKind+len(kind))]
		small := bytes.IndexFunc(name, func(r rune) bool { return (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != ' ' })
		if small >= 0 {
			name = name[:small]
		}
		if at := bytes.LastIndex(name, []byte(kind)); at >= 0 {
			return from + at + len(kind)
		}
	}
}

// bareKeys finds what is left of a PEM block whose first line was cut off: lines of base64, one below the other. The lines of a
// certificate are masked too then.
func bareKeys(text []byte) []span {
	var found []span
	from := 0 // where the lines begin
	run := 0  // how many there are
	at := 0
	end := func() {
		if run > 1 {
			found = append(found, span{from, at})
		}
		run = 0
	}
	for line := range bytes.Lines(text) {
		if base64Line(bytes.TrimSpace(line), run > 0) {
			if run == 0 {
				from = at
			}
			run++
		} else {
			end()
		}
		at += len(line)
	}
	end()
	return found
}

// base64Line tells whether a line is one of base64. The last one of a block may be short.
func base64Line(line []byte, last bool) bool {
	if len(line) < 60 && (!last || len(line) < 4) {
		return false
	}
	for _, c := range line {
		if !letter(c) && c != '+' && c != '/' && c != '=' {
			return false
		}
	}
	return true
}

// schemes finds what follows the name of a scheme of HTTP authentication. The word basic stands in much other text, so what follows it
// counts only if it looks like base64.
func schemes(text []byte) (found []span) {
	lower := lowered(text)
	for at := 0; at < len(text); at++ {
		for _, word := range []string{"bearer", "basic"} {
			if !bytes.HasPrefix(lower[at:], []byte(word)) {
				continue
			}
			rest := text[at+len(word):]
			value := bytes.TrimLeft(rest, " \t")
			n := run(value, "+/._~=:-")
			if len(value) == len(rest) || n < 6 {
				continue
			}
			from := len(text) - len(value)
			if word == "bearer" || bytes.ContainsAny(value[:n], "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789=") {
				found = append(found, span{from, from + n})
			}
			at = from + n - 1
			break
		}
	}
	return found
}

// userinfos finds names and passwords in URLs. A password may hold an @ or a / that should have been escaped.
func userinfos(text []byte) (found []span) {
	end, last := 0, -1 // where the text without blanks and quotes ends that is looked at, and its last @
	for from := 0; ; {
		next := bytes.Index(text[from:], []byte("://"))
		if next < 0 {
			return found
		}
		from += next + len("://")
		if from >= end {
			whole := until(text[from:], "\t\n\f\r \"'<>")
			end = from + len(whole)
			last = from + bytes.LastIndexByte(whole, '@')
		}
		name := until(text[from:end], "/")
		if at := bytes.LastIndexByte(name, '@'); at > 0 {
			found = append(found, span{from, from + at})
		}
		if colon := bytes.IndexByte(name, ':'); colon >= 0 && last > from+colon {
			found = append(found, span{from, last})
		}
	}
}

// until is the beginning of a text, as far as none of these characters stands there.
func until(text []byte, ends string) []byte {
	if at := bytes.IndexAny(text, ends); at >= 0 {
		return text[:at]
	}
	return text
}

// webTokens finds JSON web tokens. Where one part is too short, it is so for all that begin later in the part before it.
func webTokens(text []byte) (found []span) {
	const begin, least = "eyJ", 8
	for from := 0; ; {
		next := bytes.Index(text[from:], []byte(begin))
		if next < 0 {
			return found
		}
		began := from + next
		from = began + len(begin)
		first := run(text[from:], "_-")
		if from += first; first < least || from == len(text) || text[from] != '.' {
			continue
		}
		second := run(text[from+1:], "_-")
		end := from + 1 + second
		if second < least || end == len(text) || text[end] != '.' {
			continue
		}
		from = end + 1 + run(text[end+1:], "_-")
		found = append(found, span{began, from})
	}
}

// otherKinds begin other people's secrets that stand in the command lines and logs of such machines: those of GitHub, GitLab, Hugging
// Face, NVIDIA, OpenAI, Slack, Docker and AWS.
func otherKinds() []string {
	return []string{"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "hf_", "nvapi-", "sk-", "xoxb-", "xoxp-", "xoxa-",
		"dckr_pat_", "akia", "asia"}
}

func others(text []byte) []span {
	lower := lowered(text)
	found := behind(text, lower, otherKinds(), "_-", 12)
	for i, at := range found {
		for _, kind := range otherKinds() {
			if bytes.HasSuffix(lower[:at.from], []byte(kind)) {
				found[i].from = at.from - len(kind)
			}
		}
	}
	return found
}
