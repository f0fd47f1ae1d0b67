// Package admission runs Drover by its command line with the admission webhooks and policies that it installs, and does to
// clusters what users do by mistake: what is wrong is refused with the field, what is protected stays, and while Drover does not
// run, nothing of others waits for it.
package admission
