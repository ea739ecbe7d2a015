package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"muster/agent/internal/enroll"
)

// maxSecret bounds a token file.
const maxSecret = 4 << 10

// errNoCredential is returned where an enrolment is needed and nothing was given for it.
var errNoCredential = errors.New("this machine is not enrolled and no credential was given: set MUSTER_TOKEN or give " +
	"--token-file FILE (muster token create prints a token on the gateway)")

// errShown is returned where an enrolment would use a pre-shared key that stands in the arguments. A token there is soon used up; the
// key of the whole fleet is not. An agent that is enrolled needs neither, and starts all the same.
var errShown = errors.New("--token takes a token alone (mse_... or msb_...), for every user of this machine can read what stands there: " +
	"give a pre-shared key in MUSTER_TOKEN or --token-file FILE; where others may have read it, change it on the gateway (muster psk rotate)")

// hasSecret reports whether a credential was given, without reading it.
func (o *options) hasSecret() bool {
	return o.token != "" || o.tokenFile != "" || o.tokenVariable != ""
}

// forgetSecret drops the credential from the agent's memory and from the environment that its children inherit.
func (o *options) forgetSecret() {
	o.token, o.tokenFile, o.tokenVariable = "", "", ""
	os.Unsetenv("MUSTER_TOKEN")
}

// credential reads the credential from wherever it was given.
func (p program) credential(o *options) (enroll.Credential, error) {
	text, err := p.secret(o)
	if err != nil {
		return enroll.Credential{}, err
	}
	if o.tokenShown {
		return enroll.Credential{}, errShown
	}
	if where := o.shows(text); where != "" {
		return enroll.Credential{}, fmt.Errorf("%s holds the credential itself, and everybody is shown that: leave it out there", where)
	}
	return enroll.ParseCredential(text)
}

// shows names the flag whose value, which the gateway shows to everybody, holds the secret; empty where none does.
func (o *options) shows(secret string) string {
	if secret = strings.TrimSpace(secret); secret == "" {
		return ""
	}
	for key, value := range o.labels {
		if strings.Contains(key+"="+value, secret) {
			return "--label"
		}
	}
	for _, shown := range [...]struct{ flag, value string }{{"--name", o.name}, {"--provider", o.provider}, {"--instance-id", o.instanceID}} {
		if strings.Contains(shown.value, secret) {
			return shown.flag
		}
	}
	return ""
}

func (p program) secret(o *options) (string, error) {
	switch {
	case o.token != "":
		return o.token, nil
	case o.tokenVariable != "":
		return o.tokenVariable, nil
	case o.tokenFile == "":
		return "", errNoCredential
	}
	source := p.stdin
	if o.tokenFile != "-" {
		file, err := os.Open(o.tokenFile)
		if err != nil {
			return "", fmt.Errorf("read the credential: %w", err)
		}
		defer file.Close()
		if info, err := file.Stat(); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
			fmt.Fprintf(p.stderr, "warning: other users of this machine can read or change %s (mode %04o): chmod 600 it, and make a new credential if they may have read this one\n",
				o.tokenFile, info.Mode().Perm())
		}
		source = file
	}
	raw, err := io.ReadAll(io.LimitReader(source, maxSecret+1))
	if err != nil {
		return "", fmt.Errorf("read the credential: %w", err)
	}
	if strings.HasPrefix(string(raw), "\xff\xfe") || strings.HasPrefix(string(raw), "\xfe\xff") {
		return "", fmt.Errorf("--token-file %s holds UTF-16, as some editors and shells of Windows write it: save it as plain text", o.tokenFile)
	}
	text := strings.TrimSpace(strings.TrimPrefix(string(raw), "\ufeff"))
	if text == "" || len(raw) > maxSecret {
		return "", fmt.Errorf("--token-file %s is empty or holds more than a credential", o.tokenFile)
	}
	return text, nil
}
