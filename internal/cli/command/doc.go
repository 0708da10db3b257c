// Package command owns what all commands have alike: what they work with (App), the kinds of flags
// and which of them the environment sets, the check of arguments against the line of usage, lists,
// questions on a terminal, and the form of help.
package command
