package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"strings"
)

// playTurns lets the nodes report each time that a line comes on in, and writes a line of JSON about it. Between two turns the
// connections stay open, so that two servers can be measured by turns without connecting anew. A line has flags that hold for
// its turn alone.
func (s *swarm) playTurns(ctx context.Context, in io.Reader, out io.Writer) error {
	standing := s.options
	told := len(s.phases)
	lines := bufio.NewScanner(in)
	for lines.Scan() && ctx.Err() == nil {
		s.options = standing
		if err := s.turn(lines.Text()); err != nil {
			return err
		}
		if err := s.beat(ctx); err != nil {
			return err
		}
		s.report(out, s.phases[told:])
		told = len(s.phases)
	}
	s.options = standing
	return lines.Err()
}

// turn takes over the flags of one line.
func (s *swarm) turn(line string) error {
	o := s.options
	f := flag.NewFlagSet("turn", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	o.pace(f)
	if err := f.Parse(strings.Fields(line)); err != nil {
		return fmt.Errorf("the turn %q: %w", line, err)
	}
	if f.NArg() > 0 {
		return fmt.Errorf("the turn %q: there are only flags", line)
	}
	if err := o.check(); err != nil {
		return fmt.Errorf("the turn %q: %w", line, err)
	}
	s.options = o
	return nil
}
