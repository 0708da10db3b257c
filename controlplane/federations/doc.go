// Package federations has the use cases of federations and their services: create, change,
// delete, show, watch, history. Its worker takes the steps that package decide names, each
// in a transaction that compares the federation's record.
package federations
