// Command planted puts known defects into the product, one after another, and plays histories
// until one fails: it shows what the histories of test/history would find.
//
// A defect is pieces of text in files, and what stands there instead. One whose text is not in its
// file exactly once is an error. All of them are built into one binary, by an overlay: no file is
// changed. Each function that a defect changes has a twin beside it, and the environment chooses
// the defect whose twins are called.
package main
