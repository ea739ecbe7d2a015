package logfile

import (
	"bytes"
	"regexp"
	"strings"

	"muster/agent/sign"
)

// forms are the expressions by which secrets are found. They are made once for a masker, because it may see every line of a log.
type forms struct {
	token, public, key, scheme, webToken, other, next, flag *regexp.Regexp
	userinfo                                                []*regexp.Regexp
	tokenWords, secretWords, otherWords                     []string
}

func newForms() *forms {
	f := forms{tokenWords: tokenKinds(), secretWords: secretWords(), otherWords: otherKinds()}
	f.token = regexp.MustCompile(`(?:` + strings.Join(f.tokenWords, "|") + `)([0-9A-Za-z_.%]+)`)
	f.public = regexp.MustCompile(`^[0-9A-Za-z]{4,64}_`)
	f.key = regexp.MustCompile(`-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY`)
	f.scheme = regexp.MustCompile(`(?i)(bearer|basic)[ \t]+([A-Za-z0-9+/._~=:-]{6,})`)
	f.webToken = regexp.MustCompile(`eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*`)
	f.other = regexp.MustCompile(`(?i:` + strings.Join(f.otherWords, "|") + `)[A-Za-z0-9_-]{12,}`)
	f.next = regexp.MustCompile(`[ \t][A-Za-z_][A-Za-z0-9_.-]*=`)
	f.flag = regexp.MustCompile(`(?i)-[a-z0-9-]*(?:` + strings.Join(f.secretWords, "|") + `)[a-z0-9-]*[ \t]+`)
	for _, form := range []string{`://([^\s/"'<>]+)@`, `://([^\s/"'<>:]*:[^\s"'<>]*)@`} {
		f.userinfo = append(f.userinfo, regexp.MustCompile(form))
	}
	return &f
}

// tokenKinds begin muster's own secrets.
func tokenKinds() []string {
	kinds := []string{sign.PSKPrefix}
	for _, kind := range []sign.TokenKind{sign.EnrollmentToken, sign.BootstrapToken, sign.AccountToken} {
		kinds = append(kinds, string(kind)+"_")
	}
	return kinds
}

// tokens finds muster's own secrets, also mistyped ones and those that are cut off. The part that names a token stays.
func (f *forms) tokens(text []byte) []span {
	var found []span
	for _, at := range f.token.FindAllSubmatchIndex(text, -1) {
		from := at[2]
		if !bytes.HasPrefix(text[at[0]:], []byte(sign.PSKPrefix)) {
			from += len(f.public.Find(text[from:at[3]]))
		}
		found = append(found, span{from, at[3]})
	}
	return found
}

// privateKeys finds PEM blocks, also in JSON, where a line ends with \n in two characters. A block without an end goes on to the end of
// the text.
func (f *forms) privateKeys(text []byte) []span {
	var found []span
	end := 0
	for _, at := range f.key.FindAllIndex(text, -1) {
		if at[1] < end {
			continue // it lies in the block before
		}
		end = len(text)
		if next := bytes.Index(text[at[1]:], []byte("-----END")); next >= 0 {
			end = at[1] + next
		}
		found = append(found, span{at[1], end})
	}
	return found
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

func letter(c byte) bool { return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' }

// schemes finds what follows the name of a scheme of HTTP authentication. The word basic stands in much other text, so what follows it
// counts only if it looks like base64.
func (f *forms) schemes(text []byte) []span {
	var found []span
	for _, at := range f.scheme.FindAllSubmatchIndex(text, -1) {
		value := text[at[4]:at[5]]
		if strings.EqualFold(string(text[at[2]:at[3]]), "bearer") || bytes.ContainsAny(value, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789=") {
			found = append(found, span{at[4], at[5]})
		}
	}
	return found
}

// userinfos finds names and passwords in URLs. A password may hold an @ or a / that should have been escaped.
func (f *forms) userinfos(text []byte) []span {
	var found []span
	for _, form := range f.userinfo {
		for _, at := range form.FindAllSubmatchIndex(text, -1) {
			found = append(found, span{at[2], at[3]})
		}
	}
	return found
}

// webTokens finds JSON web tokens.
func (f *forms) webTokens(text []byte) []span { return everywhere(text, f.webToken) }

// otherKinds begin other people's secrets that stand in the command lines and logs of such machines: those of GitHub, GitLab, Hugging
// Face, NVIDIA, OpenAI, Slack, Docker and AWS.
func otherKinds() []string {
	return []string{"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "hf_", "nvapi-", "sk-", "xoxb-", "xoxp-", "xoxa-",
		"dckr_pat_", "akia", "asia"}
}

func (f *forms) others(text []byte) []span { return everywhere(text, f.other) }

func everywhere(text []byte, form *regexp.Regexp) []span {
	var found []span
	for _, at := range form.FindAllIndex(text, -1) {
		found = append(found, span{at[0], at[1]})
	}
	return found
}
