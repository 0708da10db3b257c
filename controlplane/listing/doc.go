// Package listing owns what all lists have in common: what a caller asks of a list, the page that
// answers it, and the token that continues it. A token names a revision of the store and a
// position; it is of one caller and one query, and its signature is checked.
package listing
