// Package atomicfile owns how a file is written as a whole or not at all, also when the process
// dies or the machine loses its power: a new file beside the old one takes its name. It owns also how processes that
// change one file do so one after the other.
package atomicfile
