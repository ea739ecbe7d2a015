package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	pages "muster/gateway/internal/cli/help"
)

func completion(_ context.Context, s *session) error {
	var script string
	switch s.args[0] {
	case "bash":
		script = bashCompletion()
	case "zsh":
		script = "#compdef muster\nautoload -U +X bashcompinit && bashcompinit\n" + bashCompletion()
	case "fish":
		script = fishCompletion()
	default:
		return usagef("muster completion bash, zsh or fish", "there is no completion for %q", s.args[0])
	}
	_, err := fmt.Fprint(s.Stdout, script)
	return err
}

// tree gives the words that may follow each word, and the first words.
func tree() (first []string, next map[string][]string) {
	first = []string{serveName, helpName}
	next = map[string][]string{"completion": {"bash", "zsh", "fish"}, helpName: pages.Names()}
	for _, c := range commands() {
		word, second, _ := strings.Cut(c.name, " ")
		if !slices.Contains(first, word) {
			first = append(first, word)
		}
		if second != "" {
			next[word] = append(next[word], second)
		}
	}
	return first, next
}

func flagWords(c command) []string {
	var words []string
	for _, o := range allOptions() {
		global := slices.ContainsFunc(globals(), func(g option) bool { return g.name == o.name })
		if global || slices.Contains(c.options, o.name) {
			words = append(words, "--"+o.name)
		}
	}
	return words
}

// bashCompletion looks at the first two words that are no flags; zsh understands it through bashcompinit.
func bashCompletion() string {
	var out strings.Builder
	first, next := tree()
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
	for _, c := range commands() {
		fmt.Fprintf(&out, "        ' %s'*) words='%s' ;;\n", c.name, strings.Join(flagWords(c), " "))
	}
	fmt.Fprintf(&out, "        *) words='%s' ;;\n      esac ;;\n    *)\n      case \"$words\" in\n        '') words='%s' ;;\n",
		strings.Join(flagWords(command{}), " "), strings.Join(first, " "))
	for _, word := range first {
		if len(next[word]) > 0 {
			fmt.Fprintf(&out, "        ' %s') words='%s' ;;\n", word, strings.Join(next[word], " "))
		}
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

func valueFlags() []string {
	var words []string
	for _, o := range allOptions() {
		if o.value == "" {
			continue
		}
		words = append(words, "--"+o.name)
		if o.short != "" {
			words = append(words, "-"+o.short)
		}
	}
	return words
}

func fishCompletion() string {
	var out strings.Builder
	first, next := tree()
	fmt.Fprintf(&out, "complete -c muster -f\ncomplete -c muster -n __fish_use_subcommand -a '%s'\n", strings.Join(first, " "))
	for _, word := range first {
		if len(next[word]) > 0 {
			words := strings.Join(next[word], " ")
			fmt.Fprintf(&out, "complete -c muster -n '__fish_seen_subcommand_from %s; and not __fish_seen_subcommand_from %s' -a '%s'\n", word, words, words)
		}
	}
	for _, o := range globals() {
		out.WriteString("complete -c muster" + fishOption(o))
	}
	for _, c := range commands() {
		condition := ""
		for _, word := range strings.Fields(c.name) {
			condition += "; and __fish_seen_subcommand_from " + word
		}
		for _, o := range ownOptions() {
			if slices.Contains(c.options, o.name) {
				fmt.Fprintf(&out, "complete -c muster -n '%s'%s", strings.TrimPrefix(condition, "; and "), fishOption(o))
			}
		}
	}
	return out.String()
}

func fishOption(o option) string {
	text := " -l " + o.name
	if o.short != "" {
		text += " -s " + o.short
	}
	if o.value != "" {
		text += " -r"
	}
	return text + " -d '" + strings.ReplaceAll(o.usage, "'", `\'`) + "'\n"
}
