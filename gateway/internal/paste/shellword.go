package paste

// This file writes words of a command as a POSIX shell reads them back.

import "strings"

// plain are the bytes that mean nothing to a shell wherever they stand in a word.
const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._+-=:,@%"

// Quote returns a word in a form that a shell reads back as the word: unchanged if that is safe, else in single quotes.
func Quote(word string) string {
	if word != "" && strings.Trim(word, plain) == "" {
		return word
	}
	return Quoted(word)
}

// Quoted returns a word in single quotes, whatever is in it.
func Quoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// Line returns words as a command line that a shell splits into the same words.
func Line(words ...string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = Quote(word)
	}
	return strings.Join(quoted, " ")
}
