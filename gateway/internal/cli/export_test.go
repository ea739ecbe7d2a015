package cli

// FirstWord is the word of a command line that says what to do.
var FirstWord = firstWord
