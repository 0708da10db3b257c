// Command planted puts known defects into the product, one after another, and plays histories
// until one fails: it shows what the histories of test/history would find.
//
// A defect is a piece of text in one file and what stands there instead. It is built by an overlay:
// no file is changed. A defect whose text is not in its file exactly once is an error.
package main
