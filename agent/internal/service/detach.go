package service

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"muster/agent/wire"
)

// readyTime bounds the wait for the line of a detached program.
const readyTime = 15 * time.Second

// ReadyPrefix is in front of the line that a detached program prints once its start has succeeded. Without it the line says why the start
// failed. The program prints no other line: nobody would read it.
const ReadyPrefix = "ok: "

// apart is a command that outlives the process that starts it: in a session of its own, without a terminal, without muster's variables, and
// with its standard streams at /dev/null.
func apart(program string, args ...string) *exec.Cmd {
	command := exec.Command(program, args...)
	command.Env = wire.WithoutEnv(os.Environ())
	command.Dir = "/"
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return command
}

// detach starts a command and gives the line that it prints.
func detach(command *exec.Cmd) (string, error) {
	reader, writer, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer reader.Close()
	command.Stdout = writer
	err = command.Start()
	writer.Close() // else the read below would not end with the program
	if err != nil {
		return "", fmt.Errorf("start the supervisor: %w", err)
	}
	reader.SetReadDeadline(time.Now().Add(readyTime))
	said, err := bufio.NewReader(io.LimitReader(reader, 4<<10)).ReadString('\n')
	line, ok := strings.CutPrefix(strings.TrimSpace(said), ReadyPrefix)
	if err != nil || !ok {
		return "", fmt.Errorf("the supervisor did not start: %s: run it with --foreground to see why", oneLine(line))
	}
	return line, command.Process.Release()
}
