// Package forms lets instances of different versions work on one store: each announces the forms of records that it
// reads and writes. A new form is written once an administrator has finished the upgrade, which all that run must read;
// then the store asks for it, and older instances end.
package forms
