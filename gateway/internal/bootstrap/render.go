package bootstrap

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"
)

//go:embed bootstrap.sh
var scriptTemplate string

//go:embed firsthop.sh
var firstHopTemplate string

// Modes of a bootstrap.
const (
	Manual    = "manual"
	CloudInit = "cloud_init"
)

// constant is a line NAME=<two single quotes> of a template, and the value for it.
type constant struct{ name, value string }

// fill writes values, quoted for a shell, into the empty constants of a template.
func fill(text string, constants []constant) (string, error) {
	for _, c := range constants {
		before, after, ok := strings.Cut(text, "\n"+c.name+"=''\n")
		if !ok {
			return "", fmt.Errorf("the template has no line %s=''", c.name)
		}
		text = before + "\n" + c.name + "=" + quote(c.value) + "\n" + after
	}
	return text, nil
}

// quote turns any text into one word for a POSIX shell.
func quote(value string) string { return "'" + strings.ReplaceAll(value, "'", `'\''`) + "'" }

// frozen makes the script that is stored. Only the fetch part and the secret are missing in it.
func (s Site) frozen(q NodeTokenRequest, tokenID string, r Release) (string, error) {
	certificate := "system"
	if s.OwnCertificate {
		certificate = "own"
	}
	amd64, layerAMD64 := r.program("amd64")
	arm64, layerARM64 := r.program("arm64")
	sequence := ""
	if r.Reference == "" {
		amd64 = s.digest("amd64")
		arm64 = s.digest("arm64")
	} else {
		sequence = strconv.FormatInt(r.Sequence, 10)
	}
	return fill(scriptTemplate, []constant{
		{"MODE", q.Mode}, {"NODE_ID", q.Node.ID}, {"NODE_NAME", q.Node.Name}, {"GATEWAY", s.NodeURL}, {"CERTIFICATE", certificate},
		{"ROOT_PIN", s.RootPin}, {"TRUST_NUMBER", strconv.FormatInt(s.TrustNumber, 10)}, {"TRUST_KEY", s.TrustKey},
		{"ANSWER_KEYS", strings.Join(s.AnswerKeys, ",")}, {"TASK_KEYS", strings.Join(s.TaskKeys, ",")},
		{"RELEASE_KEYS", strings.Join(s.ReleaseKeys, ",")}, {"SHA256_AMD64", amd64}, {"SHA256_ARM64", arm64},
		{"PACKAGE_REF", r.Reference}, {"PACKAGE_DIGEST", r.Digest}, {"CHANNEL", r.Channel}, {"SEQUENCE", sequence},
		{"LAYER_AMD64", layerAMD64}, {"LAYER_ARM64", layerARM64},
		{"RESOLVE_ADDRESS", s.ResolveAddress}, {"INSTALL_RUNTIME", yes(s.InstallRuntime)}, {"RUNTIME_PACKAGE", s.RuntimePackage},
		{"REGISTRY", s.Registry}, {"LOGIN", yes(s.Direct)}, {"TOKEN_ID", tokenID}, {"PROFILE", q.Profile}, {"APPLY", strings.TrimSpace(q.Apply)},
		{"RESTART", yes(q.Restart)},
		{"ROOTS", strings.TrimSpace(s.Roots)},
	})
}

// yes is how a constant of a script says yes or no.
func yes(so bool) string {
	if so {
		return "yes"
	}
	return ""
}

// thaw makes the script that is served from the one that is stored. Every script is made by it, so the digest that an operator gets is
// the digest of what a machine fetches. Without a secret, the script takes the token from its environment.
func thaw(kept, fetch, secret string) (string, error) {
	text, err := fill(kept, []constant{{"FETCH", fetch}})
	if err != nil || secret == "" {
		return text, err
	}
	return fill(text, []constant{{"SECRET", secret}})
}

// userData is the text for cloud-init. It holds the token, the URL of the script, and the small script that fetches it.
func (s Site) userData(q NodeTokenRequest, fetchPart, token, digest string) (string, error) {
	hop, err := fill(firstHopTemplate, []constant{{"URL", s.URL(fetchPart)}, {"SHA256", digest}, {"NODE_ID", q.Node.ID},
		{"NODE_NAME", q.Node.Name},
		{"LIMIT", strconv.Itoa(int(q.TTL / time.Second))}})
	if err != nil {
		return "", err
	}
	if q.Shell {
		return shellUserData(q.Node.Name, token, hop), nil
	}
	return `#cloud-config
# Makes this machine the node ` + q.Node.Name + ` of a muster fleet at its first boot. The token in here is good for that
# node alone, once, and not for long.
write_files:
- path: /etc/muster/bootstrap-token
  owner: 'root:root'
  permissions: '0600'
  content: |
    ` + token + `
- path: /etc/muster/first-hop.sh
  owner: 'root:root'
  permissions: '0700'
  content: |
` + indent(hop, "    ") + `runcmd:
- [sh, /etc/muster/first-hop.sh]
`, nil
}

// endOfFile ends what stands in a script as a file. No value is on a line of its own in a first hop.
const endOfFile = "END_OF_FIRST_HOP"

// shellUserData is user-data that is a script. Where cloud-config has write_files or runcmd, a machine that MAAS installs into its memory
// loses its network.
func shellUserData(name, token, hop string) string {
	return `#!/bin/sh
# Makes this machine the node ` + name + ` of a muster fleet at its first boot. The token in here is good for that
# node alone, once, and not for long.
set -eu
umask 077
mkdir -p /etc/muster
chmod 700 /etc/muster
printf '%s\n' ` + quote(token) + ` >/etc/muster/bootstrap-token
cat >/etc/muster/first-hop.sh <<'` + endOfFile + `'
` + hop + endOfFile + `
exec sh /etc/muster/first-hop.sh
`
}

// indent writes by before every line that is not empty. It turns tabs into blanks, because some YAML readers refuse tabs.
func indent(text, by string) string {
	var out strings.Builder
	for line := range strings.Lines(strings.ReplaceAll(text, "\t", "  ")) {
		if line != "\n" {
			out.WriteString(by)
		}
		out.WriteString(line)
	}
	return out.String()
}

func hexSum(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
