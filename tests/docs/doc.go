// Package docs keeps the documentation true: the reference of commands and settings is what the program says of itself,
// links and citations point to something, and the commands that are shown exist.
package docs
