package wire

import (
	"fmt"
	"strings"
)

// IsDigest reports whether s is a SHA-256 as OCI writes it: sha256: and 64 hexadecimal digits in lower case.
func IsDigest(s string) bool {
	digits, ok := strings.CutPrefix(s, "sha256:")
	return ok && isSHA256(digits)
}

func isSHA256(s string) bool { return hexDigits(s, 64) }

// CheckChannel refuses what is not the name of a channel. It has the form of a node's name, so it can be the value of a label.
func CheckChannel(name string) error {
	if wordForm(name, MaxChannel) {
		return nil
	}
	return Refuse(CodeBadRequest, fmt.Sprintf("%.80q is not the name of a channel", name),
		"a channel has 1 to 63 letters, digits, dots, dashes or underscores, such as "+DefaultChannel)
}

// CheckUpdate refuses what no agent says of its updates. It does not refuse unknown phases and codes, because a newer agent may have some.
func CheckUpdate(u *Update) error {
	bad := func(what string) error {
		return Refuse(CodeBadRequest, "the update of the heartbeat "+what, "muster help protocol has its form")
	}
	switch {
	case u.Channel != "" && !wordForm(u.Channel, MaxChannel):
		return bad("names no channel")
	case u.Sequence < 0 || u.About < 0:
		return bad("has a number below 0")
	case u.Release != "" && !IsDigest(u.Release):
		return bad("names a release by something else than its digest")
	case !plainWord(u.Phase) || !plainWord(u.Code):
		return bad("has a phase or a code that is no short word")
	case len(u.Detail) > MaxUpdateDetail || len(u.Log) > MaxUpdateLog:
		return bad(fmt.Sprintf("says too much: its detail has at most %d bytes, its log %d", MaxUpdateDetail, MaxUpdateLog))
	}
	return nil
}

// plainWord accepts an empty text, and a short one that is safe in a table.
func plainWord(s string) bool { return s == "" || wordForm(s, MaxUpdateWord) }
