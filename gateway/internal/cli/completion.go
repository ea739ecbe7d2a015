package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"muster/agent/flags"
)

const (
	completionName = "completion"
	versionName    = "version"
)

// OwnCommands returns the commands that are about the command line itself.
func OwnCommands() []Command {
	return []Command{
		{Name: completionName, Args: strings.Join(shells(), "|"), Least: 1, Most: 1, Run: completion, NoGateway: true,
			Summary: "print a completion script for a shell", Text: "Commands, flags and the topics of muster help are completed.",
			Examples: []string{"source <(muster completion bash)", "muster completion zsh > ~/.zfunc/_muster",
				"muster completion fish > ~/.config/fish/completions/muster.fish"}},
		{Name: versionName, Run: version, NoGateway: true, Summary: "print the version",
			Text: "Prints the version of this program; the gateway's own is at its path /version.", Examples: []string{"muster version"}},
	}
}

// shells are those that there is a completion script for.
func shells() []string { return []string{"bash", "zsh", "fish"} }

func version(_ context.Context, s *Session) error {
	_, err := fmt.Fprintf(s.Stdout, "muster %s\n", s.Version)
	return err
}

func completion(_ context.Context, s *Session) error {
	var script string
	switch s.Words[0] {
	case "bash":
		script = s.commands.bash()
	case "zsh":
		script = "#compdef muster\nautoload -U +X bashcompinit && bashcompinit\n" + s.commands.bash()
	case "fish":
		script = s.commands.fish()
	default:
		return Usagef("muster completion bash, zsh or fish", "there is no completion for %q", s.Words[0])
	}
	_, err := fmt.Fprint(s.Stdout, script)
	return err
}

func flagWords(c Command) []string {
	var words []string
	for _, o := range allFlags() {
		global := slices.ContainsFunc(globals(), func(g flags.Flag) bool { return g.Name == o.Name })
		if global || slices.Contains(c.Flags, o.Name) {
			words = append(words, "--"+o.Name)
		}
	}
	return words
}

// bash looks at the words that are no flags. zsh understands the script through bashcompinit.
func (all catalog) bash() string {
	var out strings.Builder
	fmt.Fprintf(&out, `_muster() {
  local word words= skip= i
  local current="${COMP_WORDS[COMP_CWORD]}"
  for ((i = 1; i < COMP_CWORD; i++)); do
    word="${COMP_WORDS[i]}"
    if [[ -n $skip ]]; then skip=; continue; fi
    case "$word" in
      %s) skip=1 ;;
      -*) ;;
      *) words="$words $word" ;;
    esac
  done
  case "$current" in
    -*)
      case "$words" in
`, strings.Join(valueFlags(), "|"))
	for _, c := range all.longestFirst() {
		fmt.Fprintf(&out, "        ' %s'|' %s '*) words='%s' ;;\n", c.Name, c.Name, strings.Join(flagWords(c), " "))
	}
	fmt.Fprintf(&out, "        *) words='%s' ;;\n      esac ;;\n    *)\n      case \"$words\" in\n", strings.Join(flagWords(Command{}), " "))
	next := all.next()
	for _, before := range slices.Sorted(maps.Keys(next)) {
		pattern := before
		if before != "" {
			pattern = " " + before
		}
		fmt.Fprintf(&out, "        '%s') words='%s' ;;\n", pattern, strings.Join(next[before], " "))
	}
	out.WriteString(`        *) words= ;;
      esac ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _muster muster
`)
	return out.String()
}

// longestFirst has the commands whose names have the most words first: "run" with an argument could be "run ls" as well.
func (all catalog) longestFirst() catalog {
	sorted := slices.Clone(all)
	slices.SortStableFunc(sorted, func(a, b Command) int { return strings.Count(b.Name, " ") - strings.Count(a.Name, " ") })
	return sorted
}

func valueFlags() []string {
	var words []string
	for _, o := range allFlags() {
		if o.Value == "" {
			continue
		}
		words = append(words, "--"+o.Name)
		if o.Short != "" {
			words = append(words, "-"+o.Short)
		}
	}
	return words
}

// fish asks __muster_at whether the words that are no flags are these, and __muster_in whether they begin with these.
func (all catalog) fish() string {
	var out strings.Builder
	fmt.Fprintf(&out, `function __muster_words
  set -l skip 0
  for word in (commandline -opc)[2..-1]
    if test $skip -eq 1
      set skip 0
      continue
    end
    switch $word
      case %s
        set skip 1
      case '-*'
      case '*'
        echo $word
    end
  end
end
function __muster_at
  set -l words (__muster_words)
  test "$words" = "$argv"
end
function __muster_in
  set -l words (__muster_words)
  string match -q -- "$argv *" "$words "
end
complete -c muster -f
`, strings.Join(valueFlags(), " "))
	next := all.next()
	for _, before := range slices.Sorted(maps.Keys(next)) {
		fmt.Fprintf(&out, "complete -c muster -n '__muster_at %s' -a '%s'\n", before, strings.Join(next[before], " "))
	}
	for _, o := range globals() {
		out.WriteString("complete -c muster" + fishFlag(o))
	}
	for _, c := range all {
		for _, o := range ownFlags() {
			if slices.Contains(c.Flags, o.Name) {
				fmt.Fprintf(&out, "complete -c muster -n '__muster_in %s'%s", c.Name, fishFlag(o))
			}
		}
	}
	return out.String()
}

func fishFlag(o flags.Flag) string {
	text := " -l " + o.Name
	if o.Short != "" {
		text += " -s " + o.Short
	}
	if o.Value != "" {
		text += " -r"
	}
	return text + " -d '" + strings.ReplaceAll(o.Usage, "'", `\'`) + "'\n"
}
