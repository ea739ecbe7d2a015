package gateway

import (
	"context"
	"net/http"

	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

// LoginCommands returns the command that opens the console.
func LoginCommands() []cli.Command {
	return []cli.Command{
		{Name: "login", Args: "[ACCOUNT]", Most: 1, Flags: []string{"output"}, Run: login,
			Summary: "print a link that opens the console in a browser",
			Text: "The link is good once and for two minutes. It logs the browser in as your own account. On the gateway's machine, over " +
				"its socket, it can be for any account; without a name it is for the account operator. The code stands behind #, so it " +
				"is in no log.",
			Examples: []string{"muster login", "muster login alice"}},
	}
}

func login(ctx context.Context, s *cli.Session) error {
	var q api.LoginRequest
	if len(s.Words) > 0 {
		q.Account = s.Words[0]
	}
	return cli.Show(ctx, s, http.MethodPost, api.PathLogins, q, func(l api.Login) {
		s.Printf("%s\n\nThis logs a browser in as %s. The link is good once, and ends %s.\n", l.URL, l.Account, screen.When(s.Now(), l.ExpiresAt))
	})
}
