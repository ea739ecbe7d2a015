package gateway

import (
	"context"
	"fmt"
	"io/fs"

	"muster/gateway/internal/cli"
)

// former is a file as it was before this command.
type former struct {
	path    string
	content []byte // nil: it was not there
	mode    fs.FileMode
}

// fits refuses a program that does not know the database's schema, before the gateway that does is stopped for it.
func (s *service) fits(ctx context.Context, data string) error {
	has, known, err := s.Local.Schema(ctx, s.at(data))
	if err != nil {
		return err
	}
	s.schema = has
	if has > known {
		return cli.Hinted(fmt.Sprintf("a newer muster has changed the database in %s: it has schema %d, and this muster knows %d", data, has,
			known), "give the command with the newer program; to go back to this one, restore a backup from before: muster help upgrades")
	}
	return nil
}

// putBack has the gateway that ran before run again, where the one in its place does not. A database that the new program has changed is of
// no use to the one before.
func (s *service) putBack(ctx context.Context, f cli.ServeFlags, failed error) error {
	if !s.ran || len(s.before) == 0 || ctx.Err() != nil {
		return failed
	}
	if has, _, err := s.Local.Schema(ctx, s.at(f.Data)); err != nil || has != s.schema {
		fmt.Fprintf(s.Stderr, "The new program has changed the database already, so the program before, %s, was not put back.\n", programBefore)
		return failed
	}
	for _, file := range s.before {
		if err := s.restore(file); err != nil {
			fmt.Fprintf(s.Stderr, "%s could not be put back: %v\n", file.path, err)
			return failed
		}
	}
	_, err := s.reload(ctx)
	if err == nil {
		_, err = s.Command(ctx, "systemctl", "restart", cli.ServiceUnit)
	}
	if err == nil {
		err = s.awaitReady(ctx, f)
	}
	if err != nil {
		fmt.Fprintf(s.Stderr, "Program, settings and unit were put back as they were, and the gateway does not get ready: %v\n", err)
		return failed
	}
	fmt.Fprintln(s.Stderr, "Program, settings and unit were put back as they were: the gateway that ran before serves again.")
	return failed
}

// restore brings a file back.
func (s *service) restore(file former) error {
	if file.content == nil {
		return s.remove(file.path)
	}
	return s.write(file.path, file.content, file.mode)
}
