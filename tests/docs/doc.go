// Package docs checks the documentation. The reference of commands and settings matches the program, links and
// citations have targets, and the shown commands exist.
package docs
