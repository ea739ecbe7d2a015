package identity_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"muster/agent/internal/identity"
	"muster/agent/internal/transport/gatewaytest"
	"muster/agent/sign"
	"muster/agent/wire"
)

func TestSecretsAreNeverShown(t *testing.T) {
	b := newBench(t, nil)
	token := b.g.Token(t)
	b.cfg.Credential, _ = identity.ParseCredential(token)
	b.g.Script = func(gatewaytest.Request) *gatewaytest.Reply { return gatewaytest.Refusal(403, wire.CodeTokenExpired) }
	_, err := b.run(context.Background())
	secret := token[strings.LastIndexByte(token, '_')+1:]
	shown := b.log.String() + err.Error() +
		fmt.Sprintf("%v %+v %#v %s", b.cfg.Credential, b.cfg.Credential, b.cfg.Credential, b.cfg.Credential)
	for _, r := range b.g.Requests("") {
		shown += string(r.Body) + fmt.Sprint(r.Header) + r.Path
	}
	if strings.Contains(shown, secret) || !strings.Contains(b.log.String(), token[:10]) {
		t.Errorf("shown: %s", shown)
	}
	b.cfg.Credential.Forget()
	ctx, cancel := context.WithCancel(context.Background())
	b.cfg.Report = func(error) { cancel() }
	if _, err := b.run(ctx); err == nil {
		t.Error("a forgotten credential still works")
	}
}

func TestParseCredential(t *testing.T) {
	g := gatewaytest.New(t)
	token := g.Token(t)
	bootstrap, err := sign.NewToken(sign.BootstrapToken, nil)
	if err != nil {
		t.Fatal(err)
	}
	account, _ := sign.NewToken(sign.AccountToken, nil)
	psk, err := sign.NewPSK(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		text, want string // part of the error, empty: good
		shared     bool
	}{
		{token, "", false},
		{" " + token + "\n", "", false},
		{bootstrap.Reveal(), "", false},
		{"twenty characters ok", "", true},
		{token[:len(token)-1], "mistyped", false},
		{bootstrap.FetchPart(), "behind the dot is missing", false},
		{bootstrap.FetchPart() + ".", "behind the dot is missing", false},
		{token[:8] + "!" + token[9:], "mistyped", false},
		{account.Reveal(), "muster token create", false},
		{"nineteen characters", "at least 20", false},
		{psk, "", true},
		{psk[:len(psk)-1], "the pre-shared key is mistyped", false},
		{psk[:9], "the pre-shared key is mistyped", false},
		{psk[:9] + "-" + psk[10:], "the pre-shared key is mistyped", false},
		{psk[len("msk_"):], "", true}, // as they were generated before there was a prefix
		{"", "at least 20", false},
	} {
		got, err := identity.ParseCredential(test.text)
		if test.want == "" && (err != nil || got.Shared != test.shared || got.ID == "") {
			t.Errorf("%q: %+v, %v", test.text, got, err)
		}
		if test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || test.text != "" &&
			strings.Contains(err.Error(), test.text)) {
			t.Errorf("%q: error %v, want %q", test.text, err, test.want)
		}
	}
}
