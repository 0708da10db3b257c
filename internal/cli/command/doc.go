// Package command says what all commands have alike: the kinds of flags, which of them the
// environment sets, the check of arguments against the line of usage, and the form of help.
package command
