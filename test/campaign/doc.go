// Command campaign plays histories of test/history for hours, on all cores.
//
// Each core has a child process, the compiled test binary of test/history, which plays one plan
// after the other: a deadlock or a panic of a history ends the child alone, and a child that takes
// too long is told to print its goroutines and killed. A history that fails is kept with its
// output and its plan, played again some times, and shrunk when it fails again.
//
// A campaign goes on where it was interrupted: its state file says which seeds were played, and
// what they came to. It ends with status 1 when any history of the campaign failed. found.md lists
// what campaigns have found.
package main
