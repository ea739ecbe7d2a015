package gateway

import (
	"context"
	"fmt"

	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
	"muster/gateway/internal/client"
)

// LoginCommands has the one that opens the console.
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
	c, format, err := s.Begin(ctx)
	if err != nil {
		return err
	}
	var q api.LoginRequest
	if len(s.Words) > 0 {
		q.Account = s.Words[0]
	}
	l, err := client.Send[api.Login](ctx, c, "POST", api.PathLogins, q)
	if err != nil {
		return err
	}
	if format == cli.FormatJSON {
		return s.WriteJSON(l)
	}
	_, err = fmt.Fprintf(s.Stdout, "%s\n\nThis logs a browser in as %s. The link is good once, and ends %s.\n", screen.Printable(l.URL),
		screen.Printable(l.Account), screen.When(s.Now(), l.ExpiresAt))
	return err
}
