package service

import (
	"context"
	"fmt"
	"os"
	"strings"
)

// Refresh brings what keeps the agent up to date on the disk, where that was written before the last good version decided what is started.
// Else a loss of power in the trial of a bad version leaves a machine that only ever starts the bad one. Nothing is told of the change:
// systemd and OpenRC read it at the next boot. Where nothing has to be changed, nothing is. The error says what a person does instead.
func (m Manager) Refresh(ctx context.Context) error {
	kind := m.Installed()
	switch kind {
	case Systemd, UserSystemd:
		return m.refreshUnit(kind == UserSystemd)
	case OpenRC:
		return m.refreshOpenRC()
	case Supervised:
		return m.refreshHooks(ctx)
	}
	return nil
}

func (m Manager) refreshUnit(user bool) error {
	layout := Layout{Base: m.Base}
	start := "\nExecStart=" + escapeUnit(layout.Program()) + " run\n"
	f := keepFile{
		path: m.path(m.unitPath(user)),
		done: "\nExecStartPre=-" + escapeUnit(layout.GoodProgram()) + " settle ",
		ours: []string{"# Written by " + Name, start, "\nEnvironmentFile=" + escapeUnit(m.Settings) + "\n"},
		mend: func(text string) string { return strings.Replace(text, start, "\n"+settleLine(m.Base)+start[1:], 1) },
	}
	return f.refresh(m.System)
}

func (m Manager) refreshOpenRC() error {
	layout := Layout{Base: m.Base}
	command := "\ncommand=\"" + layout.Program() + "\"\n"
	const args = "\ncommand_args=\"run\"\n"
	good := "\ncommand=\"" + layout.GoodProgram() + "\"\n"
	f := keepFile{
		path: m.path(openRCPath), done: good,
		ours: []string{"# Written by " + Name, command, args, "\"" + m.Settings + "\""},
		mend: func(text string) string {
			text = strings.Replace(text, command, good, 1)
			text = strings.Replace(text, args, "\ncommand_args=\""+launchArgs(m.Base)+"\"\n", 1)
			if !strings.Contains(text, "start_pre") { // else it is there, or a person's own
				text += openRCFallback(m.Base)
			}
			return text
		},
	}
	return f.refresh(m.System)
}

// keepFile is a file by which a service manager keeps the agent.
type keepFile struct {
	path string
	done string   // stands in a file that need not be changed
	ours []string // all stand in a file that an earlier version wrote for this same agent
	// mend changes the lines that decide which version is started. All else stays, because a person may have changed it.
	mend func(text string) string
}

func (f keepFile) refresh(s System) error {
	raw, err := os.ReadFile(f.path)
	text := string(raw)
	if err == nil && strings.Contains(text, f.done) {
		return nil
	}
	for _, mark := range f.ours {
		if err == nil && !strings.Contains(text, mark) {
			err = fmt.Errorf("it has no line with %q, so a person has changed it", strings.TrimSpace(mark))
		}
	}
	if err == nil {
		err = s.edit(f.path, f.mend)
	}
	if err != nil {
		return fmt.Errorf("%s is older than this agent, and stays so: a loss of power in the trial of a bad version could leave this machine "+
			"without an agent: join again with --reload-units when no containers with GPUs run: %w", f.path, err)
	}
	return nil
}

// refreshHooks changes lines that start the supervisor from the version that may be on trial. Lines that nobody wrote are not added, and
// what a person has written around the program stays.
func (m Manager) refreshHooks(ctx context.Context) error {
	var err error
	if m.onstart() {
		err = m.edit(m.path(onstartPath), m.byGood)
	}
	if text, unread := m.crontab(ctx); err == nil && unread == nil && m.byGood(text) != text {
		err = m.loadCrontab(ctx, m.byGood(text))
	}
	if err != nil {
		return fmt.Errorf("what starts the supervisor at boot is older than this agent, and stays so: join again: %w", err)
	}
	return nil
}

// byGood has our lines in a text name the program by the link of the last good version. Lines that a person has taken out as comments stay.
func (m Manager) byGood(text string) string {
	layout := Layout{Base: m.Base}
	var out strings.Builder
	for line := range strings.Lines(text) {
		if m.ours(line) && !strings.HasPrefix(strings.TrimSpace(line), "#") {
			line = strings.ReplaceAll(line, layout.Program()+" ", layout.GoodProgram()+" ")
		}
		out.WriteString(line)
	}
	return out.String()
}
