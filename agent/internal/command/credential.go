package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"muster/agent/internal/identity"
	"muster/agent/sign"
	"muster/agent/wire"
)

// maxSecret bounds a token file, in bytes.
const maxSecret = 4 << 10

// The flags that bring a credential.
const (
	tokenFlag = "token"
	fileFlag  = "token-file"
)

// ErrNoCredential is returned if an enrolment is needed and no credential was given.
var ErrNoCredential = errors.New("this machine is not enrolled and no credential was given: set MUSTER_TOKEN or give " +
	"--token-file FILE (muster token create prints a token on the gateway)")

// errShown is returned where an enrolment would use a pre-shared key from the arguments, which every user of the machine can read. A token
// there is soon used up. The key of the whole fleet stays good. An agent that is enrolled needs neither, so it starts all the same.
var errShown = errors.New("--token takes a token alone (mse_... or msb_...), for every user of this machine can read what " +
	"stands there: give a pre-shared key in MUSTER_TOKEN or --token-file FILE; where others may have read it, change it on the " +
	"gateway (muster psk rotate)")

// source is where the credential comes from: a text, or a file that is read when it is needed.
type source struct {
	text  string
	file  string
	shown bool // --token holds what may be a pre-shared key
}

// choose keeps the source that wins: a flag over the environment, and a text over a file.
func (s *source) choose(f *Flags) error {
	byFlag := f.Given(tokenFlag)
	byFile := f.Given(fileFlag)
	switch {
	case byFlag && byFile:
		return Usagef("--token and --token-file exclude each other")
	case byFlag:
		*s = source{text: s.text, shown: s.text != "" && !IsToken(s.text)}
	case byFile:
		*s = source{file: s.file}
	case s.text != "":
		*s = source{text: s.text}
	}
	return nil
}

// WithoutCredential returns the arguments for another start of the agent: without a credential that stands in them, and without standard
// input, which can be read only once. The agent is enrolled then and needs neither.
func WithoutCredential(args []string) []string {
	var rest []string
	for i := 0; i < len(args); i++ {
		name, value, joined := strings.Cut(args[i], "=")
		name = strings.TrimPrefix(strings.TrimPrefix(name, "-"), "-")
		if !strings.HasPrefix(args[i], "-") || name != tokenFlag && name != fileFlag {
			rest = append(rest, args[i])
			continue
		}
		if !joined && i+1 < len(args) {
			i++
			value = args[i]
		}
		if name == fileFlag && value != "-" {
			rest = append(rest, "--"+fileFlag, value)
		}
	}
	return rest
}

// HasSecret reports whether a credential was given. It reads no file.
func (o *Options) HasSecret() bool { return o.source.text != "" || o.source.file != "" }

// Secrets returns the texts that nobody may see, for the code that masks secrets. It does not read standard input, which can be read only
// once.
func (o *Options) Secrets() []string {
	info, err := os.Stat(o.source.file)
	if o.source.text != "" || err != nil || !info.Mode().IsRegular() || info.Size() > maxSecret {
		return []string{o.source.text}
	}
	text, err := os.ReadFile(o.source.file)
	if err != nil {
		return nil
	}
	return []string{string(text)}
}

// ForgetSecret drops the credential from the agent's memory and from the environment that its children inherit.
func (o *Options) ForgetSecret() {
	o.source = source{}
	os.Unsetenv(wire.EnvToken)
}

// HoldSecret reads the credential once and keeps its text in place of its source, because standard input can be read only once. It refuses
// a mistyped credential before anything is done. from is the credential's file, if it was in a file.
func (o *Options) HoldSecret(p Program) (from string, err error) {
	if !o.HasSecret() {
		return "", nil
	}
	text, err := o.secret(p)
	if err != nil {
		return "", err
	}
	held := source{text: text, shown: o.source.shown}
	from = o.source.file
	o.ForgetSecret()
	o.source = held
	if IsToken(text) || held.shown {
		credential, err := o.Credential(p)
		credential.Forget()
		return from, err
	}
	return from, sign.CheckPSK(text) // a pre-shared key is stretched later, when it is needed: that takes a while
}

// Credential reads the credential from its source.
func (o *Options) Credential(p Program) (identity.Credential, error) {
	text, err := o.secret(p)
	if err != nil {
		return identity.Credential{}, err
	}
	if o.source.shown {
		return identity.Credential{}, errShown
	}
	if where := o.shows(text); where != "" {
		return identity.Credential{}, fmt.Errorf("%s holds the credential itself, and everybody is shown that: leave it out there", where)
	}
	return identity.ParseCredential(text)
}

// shows names a flag whose value holds the secret. The gateway shows the values of these flags to every user. It is empty if none
// holds it.
func (o *Options) shows(secret string) string {
	secret = strings.TrimSpace(secret)
	if secret == "" {
		return ""
	}
	for key, value := range o.Labels {
		if strings.Contains(key+"="+value, secret) {
			return "--label"
		}
	}
	for _, shown := range [...]struct{ flag, value string }{{"--name", o.Name}, {"--provider", o.Provider}, {"--instance-id", o.InstanceID}} {
		if strings.Contains(shown.value, secret) {
			return shown.flag
		}
	}
	return ""
}

// secret is the text of the credential. A file that others can read is used all the same, with a warning: it may be too late already.
func (o *Options) secret(p Program) (string, error) {
	switch {
	case o.source.text != "":
		return o.source.text, nil
	case o.source.file == "":
		return "", ErrNoCredential
	case o.source.file == "-":
		return readSecret(p.Stdin, "-")
	}
	file, err := os.Open(o.source.file)
	if err != nil {
		return "", fmt.Errorf("read the credential: %w", err)
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
		fmt.Fprintf(p.Stderr, "warning: other users of this machine can read or change %s (mode %04o): chmod 600 it, and make a new "+
			"credential if they may have read this one\n", o.source.file, info.Mode().Perm())
	}
	return readSecret(file, o.source.file)
}

func readSecret(from io.Reader, name string) (string, error) {
	raw, err := io.ReadAll(io.LimitReader(from, maxSecret+1))
	if err != nil {
		return "", fmt.Errorf("read the credential: %w", err)
	}
	if strings.HasPrefix(string(raw), "\xff\xfe") || strings.HasPrefix(string(raw), "\xfe\xff") {
		return "", fmt.Errorf("--token-file %s holds UTF-16, as some editors and shells of Windows write it: save it as plain text", name)
	}
	text := strings.TrimSpace(strings.TrimPrefix(string(raw), "\ufeff"))
	if text == "" || len(raw) > maxSecret {
		return "", fmt.Errorf("--token-file %s is empty or holds more than a credential", name)
	}
	return text, nil
}

// IsToken reports whether a credential is a token, by its prefix. The others are pre-shared keys.
func IsToken(text string) bool {
	kind, _, found := strings.Cut(text, "_")
	switch sign.TokenKind(kind) {
	case sign.EnrollmentToken, sign.BootstrapToken, sign.AccountToken:
		return found
	}
	return false
}
