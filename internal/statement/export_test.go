package statement

// Render is what Write puts into a file.
var Render = render
