//go:build real

package main

import (
	"os"
	"strings"
	"testing"

	"muster/gateway/internal/paste"
)

// TestConsoleShell works in a shell on a real node, in tmux, while a real browser looks at it: the page shows that it goes on, its
// recording reads as the terminal did, and a person ends it in the page. Pictures are in bin/console.
func TestConsoleShell(t *testing.T) {
	needs(t, "tmux", "vim", "less", "bash")
	c := newChromium(t)
	h := newHouse(t)
	h.agent("one", h.token(), "--no-gpu", "--interval", calmPace)
	h.until("online", func() bool { return h.online("one") })
	link, _, _ := strings.Cut(h.muster("login"), "\n")
	c.looks(1440, 900, "light")
	c.open(link)
	c.see(`location.pathname === "/ui/fleet"`)
	s := newReachScreen(t)
	s.enter(paste.Quote(os.Args[0]) + " --data " + paste.Quote(h.data) + " node shell one" + plainShell)
	s.see("\nnode%")
	s.write("echo wrongx")
	s.press("BSpace")
	s.enter(" and \x1b[31mright") // an escape that is typed is no escape of the terminal
	s.enter("seq -f 'row %g of many' 60")
	s.see("row 60 of many")
	s.enter("vim -u NONE -N note.txt")
	s.see("[New]")
	s.enter(":q!")
	s.see("node%")
	s.enter("clear")
	s.loses("row 60")
	s.enter(`printf 'progress %s\r' 10 50 100; echo; printf '\033[1;32mgreen\033[0m\n'`)
	s.see("green")
	s.press("Up", "Home")
	s.enter("true; ")
	s.enter("echo the '\"'end'\"'")
	s.see(`the "end"`)

	c.open(h.url + "/ui/nodes/one")
	c.see(`document.querySelector("#node [data-live=sessions] .mark")?.textContent.includes("open")`)
	c.open(h.url + "/ui/sessions")
	c.see(`document.querySelector("table .mark")?.textContent.includes("open")`)
	c.shot("sessions-shell-light-1440")
	c.eval(`document.querySelector("td a[data-open]").click()`)
	c.see(`document.querySelector("h1").textContent === "shell on one"`)
	c.shot("session-shell-light-1440")
	session := c.eval(`location.pathname`).(string)
	recording := func() string {
		t.Helper()
		c.open(h.url + session + "/recording")
		c.see(`document.getElementById("cast") !== null`)
		return c.eval(`[...document.querySelectorAll("#cast li span")].map((l) => l.textContent).join("\n")`).(string)
	}
	c.await("what was just shown is in the recording", func() bool { return strings.Contains(recording(), `the "end"`) })
	c.shot("recording-shell-light-1440")
	text := recording()
	for _, want := range []string{"node% echo wrong and ", "\nrow 1 of many\nrow 2 of many\n", "\nrow 60 of many\n", "node% vim -u NONE -N note.txt\n" +
		"A program had the whole screen for", "\nnode% clear\n", "\nprogress 100\ngreen\n", "node% true; printf", "\nthe \"end\"\nnode%"} {
		if !strings.Contains(text, want) {
			t.Errorf("the recording lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "\x1b") || strings.Contains(text, "[New]") || strings.Contains(text, "progress 10\n") {
		t.Errorf("the recording has more than the text:\n%s", text)
	}
	c.open(h.url + session)
	c.eval(`document.querySelector("form[action$='/end']").requestSubmit()`)
	c.see(`document.querySelector("h1").textContent === "End the shell of operator:socket on one?"`)
	c.eval(`document.querySelector("main form").requestSubmit()`)
	c.see(`document.body.textContent.includes("ended by account:operator")`)
	s.see("ended by account:operator")
	for _, said := range c.complaints() {
		t.Errorf("the browser says %s", said)
	}
}
