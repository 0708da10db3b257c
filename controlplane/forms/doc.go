// Package forms lets instances of different versions work on one store: each announces the
// forms of records that it reads and writes, and a form is written only when all that read it
// have announced it. The store can ask for a minimum, which ends older instances.
package forms
