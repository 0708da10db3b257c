package v1

// MaxPage is the most entries that one page of a list has: the most that ?limit= asks for.
const MaxPage = 1000
