package session

import (
	"errors"
	"testing"

	"muster/agent/internal/transport"
	"muster/agent/internal/transport/gatewaytest"
	"muster/agent/pipe"
	"muster/agent/wire"
)

// TestWordOfTheMoment: a refusal that a renewal or a clock can cause and end says nothing of the session. Any other one does, and ends it.
func TestWordOfTheMoment(t *testing.T) {
	for code, ofSession := range map[string]bool{
		wire.CodeNoIdentity: false, wire.CodeMTLSRequired: false, wire.CodeUnknownCertificate: false, wire.CodeExpired: false,
		wire.CodeSupersededRetry: false, wire.CodeIdentityMismatch: false, wire.CodeBadSignature: false, wire.CodeBadDigest: false,
		wire.CodeClockSkew: false, wire.CodeReplayed: false, wire.CodeStaleNonce: false,
		wire.CodeSessionOver: true, wire.CodeNotFound: true, wire.CodeBanned: true, wire.CodeRetired: true, wire.CodeBadRequest: true,
	} {
		g := gatewaytest.New(t)
		g.Script = func(gatewaytest.Request) *gatewaytest.Reply { return gatewaytest.Refusal(401, code) }
		client, err := transport.New(transport.Config{Gateway: gatewaytest.Listen(t, g, nil), Way: transport.Direct})
		if err != nil {
			t.Fatal(err)
		}
		state := g.Node(t)
		id, err := state.Transport()
		if err != nil {
			t.Fatal(err)
		}
		client.Use(id)
		c := carrier{client: client, id: wire.NewSessionID(), pace: &pace{}, touch: func() {}}
		_, err = c.Send(t.Context(), pipe.Main, 0, pipe.Piece{Data: []byte("x")})
		var said *wire.ErrorDetail
		if err == nil || errors.As(err, &said) != ofSession {
			t.Errorf("%s: %v is about the session: %v, want %v", code, err, said != nil, ofSession)
		}
		client.Close()
	}
}
