package gateway

import (
	"context"
	"fmt"

	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
	"muster/gateway/internal/datadir"
)

func storeCopy(ctx context.Context, s *cli.Session, c datadir.Copy) error {
	c.From, c.To = s.Words[0], s.Words[1]
	done, err := s.Local.Copy(ctx, c)
	if err != nil {
		return err
	}
	from, to := screen.Printable(c.From), screen.Printable(c.To)
	if done.Already {
		fmt.Fprintf(s.Stdout, "The database of %s is at %s already: %s in %d tables.\n", from, to, screen.Plural(done.Rows, "row"), done.Tables)
		return nil
	}
	fmt.Fprintf(s.Stdout, "The database of %s is at %s now: %s in %d tables, all counted.\n", from, to, screen.Plural(done.Rows, "row"),
		done.Tables)
	if done.Aside != "" {
		s.Printf("The database that was there is in %s.\n", done.Aside)
	}
	restoredKey(s, c.To, datadir.Restored{KeyFile: done.KeyFile, KeyAside: done.KeyAside, KeyToName: done.KeyToName})
	fmt.Fprintf(s.Stdout, "Start no gateway on %s any more: what it does would be missing at %s.\n", from, to)
	return nil
}
