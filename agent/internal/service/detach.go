package service

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// readyFile is the descriptor to which a detached program writes its one line.
const readyFile = 3

// readyTime bounds the wait for this line.
const readyTime = 15 * time.Second

// detach starts a program that outlives the process that starts it: in a session of its own, without a terminal, with its standard
// streams at /dev/null.
func detach(program string, args, env []string) (string, error) {
	reader, writer, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer reader.Close()
	command := exec.Command(program, args...)
	command.Env = env
	command.Dir = "/"
	command.ExtraFiles = []*os.File{writer}
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = command.Start()
	writer.Close() // else the read below would not end with the program
	if err != nil {
		return "", fmt.Errorf("start the supervisor: %w", err)
	}
	reader.SetReadDeadline(time.Now().Add(readyTime))
	raw, err := io.ReadAll(io.LimitReader(reader, 4<<10))
	line, ok := strings.CutPrefix(strings.TrimSpace(string(raw)), readyPrefix)
	if err != nil || !ok {
		if line == "" {
			line = "it said nothing"
		}
		return "", fmt.Errorf("the supervisor did not start: %s: run it with --foreground to see why", oneLine(line))
	}
	return line, command.Process.Release()
}

// readyPrefix is in front of the line where the start succeeded.
const readyPrefix = "ok: "

// Announcer tells the process that started this one how the start went. It says one line and then nothing more: the other process
// waits for the end of the descriptor.
type Announcer struct {
	file *os.File
}

// NewAnnouncer takes over the descriptor. No process that this one starts inherits it.
func NewAnnouncer() *Announcer {
	syscall.CloseOnExec(readyFile)
	return &Announcer{os.NewFile(readyFile, "ready")}
}

// Started says that the start succeeded.
func (a *Announcer) Started(line string) { a.say(readyPrefix + line) }

// Failed says why the start failed.
func (a *Announcer) Failed(err error) { a.say(err.Error()) }

func (a *Announcer) say(line string) {
	if a.file != nil {
		a.file.WriteString(line + "\n")
		a.file.Close()
		a.file = nil
	}
}
