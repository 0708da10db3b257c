package seal

// Private is private, for a table of owners that no test can all be.
var Private = private
